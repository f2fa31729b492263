// OpenAI's Responses API, as far as it is about text: requests become those of chats, and an answer becomes
// items (thought, message, calls) with an event for everything that happens to one. Nothing is stored: a
// client sends what was said before.
#pragma once

#include "replies.h"

namespace scoria::server {

struct ResponseRequest : ChatRequest {
    Json shown;  // what a response says of its request
};

/// Errors: bad_argument; unsupported.
ResponseRequest parse_response(const Json& body, const AnswerDefaults& defaults, uint32_t tokens);

class ResponseReply final : public Reply {
  public:
    ResponseReply(ReplyNames names, const Tokenizer& tokenizer, const ReplyForm& form, size_t prompt_tokens,
                  Json shown);
    size_t answers() const override { return 1; }
    std::string begin() override;
    std::string take(News news) override;
    bool done() const override { return status_ != nullptr; }
    std::string end() override;
    std::string failure(std::string_view problem) override;
    Json whole() const override;

  private:
    struct ItemKind;
    struct Item {
        const ItemKind* kind;
        std::string id, text;
        Json logprobs = Json::array();
    };
    static const ItemKind message, thought;

    std::string event(std::string type, Json fields);
    std::string event_of_item(std::string type, Json fields);
    std::string event_of_response(std::string type, const Json& response);
    static Json json_of(const Item& item, const char* status);
    Json part_of(const Item& item) const;
    std::string open(const ItemKind& kind);
    std::string close(const char* status);
    std::string show(const ReplyPart& part, Json logprobs);
    std::string call(const ReplyPart& part);
    Json response(const char* status) const;

    ReplyNames names_;
    const Tokenizer& tokenizer_;
    ReplyParts parts_;
    Json shown_, output_ = Json::array();
    std::optional<Item> item_;  // that is not whole
    std::vector<TokenLogprobs> logprobs_;
    size_t prompt_tokens_, tokens_ = 0, thought_tokens_ = 0, reused_ = 0, events_ = 0;
    const char* status_ = nullptr;  // once done
};

}  // namespace scoria::server
