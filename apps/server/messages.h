// Anthropic's Messages API, as far as it is about text: requests become those of chats, and an answer becomes
// blocks (thought, text, calls), which a stream tells of one after the other. Where a request says nothing of
// thoughts, the model's template decides; how long they may be is not limited apart.
#pragma once

#include "replies.h"

namespace scoria::server {

/// Errors: bad_argument; unsupported.
ChatRequest parse_messages(const Json& body, const AnswerDefaults& defaults, uint32_t tokens);

class MessageReply final : public Reply {
  public:
    MessageReply(ReplyNames names, const ReplyForm& form, size_t prompt_tokens)
        : names_(std::move(names)), parts_(form), prompt_tokens_(prompt_tokens) {}
    size_t answers() const override { return 1; }
    std::string begin() override;
    std::string take(News news) override;
    bool done() const override { return stop_reason_ != nullptr; }
    std::string end() override;
    std::string failure(std::string_view problem) override;
    Json whole() const override { return message(); }

  private:
    std::string open(Json block);
    std::string close();
    std::string delta(const char* type, const char* key, const std::string& text) const;
    std::string show(const ReplyPart& part);
    Json message() const;

    ReplyNames names_;
    ReplyParts parts_;
    Json content_ = Json::array();
    bool open_ = false;  // the last block is not whole
    bool calls_ = false;
    size_t prompt_tokens_, tokens_ = 0, thought_tokens_ = 0, reused_ = 0;
    const char* stop_reason_ = nullptr;  // once done
    std::string stop_;                   // the text that was found
};

/// An error as this API has it, of an HTTP status.
Json message_error(std::string_view what, int status);

}  // namespace scoria::server
