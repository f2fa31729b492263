// Answers in the OpenAI API's forms: events of a stream as they come, or one object at the end. Here those of
// chats and completions; responses.h has the other.
#pragma once

#include "answer_queue.h"
#include "requests.h"

namespace scoria::server {

/// Letters and digits.
std::string random_id(size_t length);
/// The one that the model gave the call, or nine letters and digits, as Mistral's templates ask for.
std::string call_id(const ReplyPart& call);

/// What the news adds to an answer; all that was held back, too, where it ended.
std::vector<ReplyPart> parts_of(const News& news, ReplyParts& parts);

struct ReplyNames {
    std::string id, model;
    int64_t created = 0;  // seconds since 1970
};

/// What became of the answers to one prompt. Texts are what a stream sends.
class Reply {
  public:
    virtual ~Reply() = default;
    virtual size_t answers() const = 0;
    /// Before any news.
    virtual std::string begin() { return {}; }
    /// Events, or nothing yet. Errors: the answer's own.
    virtual std::string take(News news) = 0;
    virtual bool done() const = 0;
    virtual std::string end() = 0;  // once done
    virtual std::string failure(std::string_view problem) = 0;
    virtual Json whole() const = 0;  // once done
};

class ChoicesReply final : public Reply {
  public:
    /// form: of a chat; none: completions.
    ChoicesReply(ReplyNames names, const Tokenizer& tokenizer, size_t answers,
                 const std::optional<ReplyForm>& form, size_t prompt_tokens, bool usage_at_end);
    size_t answers() const override { return choices_.size(); }
    std::string take(News news) override;
    bool done() const override;
    std::string end() override;
    std::string failure(std::string_view problem) override;
    Json whole() const override;

  private:
    struct Choice {
        std::optional<ReplyParts> parts;
        std::string text, thought;
        Json calls = Json::array();
        std::vector<TokenLogprobs> logprobs;
        bool begun = false;
        std::string reason;  // why it ended; empty: it has not
    };
    Json delta(Choice& choice, const ReplyPart& part);
    std::string event(Json choice) const;
    Json frame(const char* kind) const;
    Json logprobs_of(const std::vector<TokenLogprobs>& tokens) const;
    Json usage() const;

    ReplyNames names_;
    const Tokenizer& tokenizer_;
    bool chat_;
    std::vector<Choice> choices_;
    size_t prompt_tokens_, tokens_ = 0, reused_ = 0;
    bool usage_at_end_;
};

/// Of a chat: an entry for each token.
Json logprob_entries(const Tokenizer& tokenizer, const std::vector<TokenLogprobs>& tokens);

/// Ids, or objects of an id and its piece: a text, or where it is not UTF-8 its bytes, as llama.cpp has it.
Json token_list(const Tokenizer& tokenizer, std::span<const TokenId> ids, bool with_pieces);

/// An error as the API has it. type: "invalid_request_error", "server_error", ...
Json error_json(std::string_view message, std::string_view type, const Json& code = nullptr);
std::string event_text(const Json& json);  // "data: ...\n\n"

}  // namespace scoria::server
