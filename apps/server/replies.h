// Answers in the OpenAI API's form: chunks of a stream as they come, or one object at the end.
#pragma once

#include "answer_queue.h"
#include "requests.h"

namespace scoria::server {

/// Letters and digits. A call has nine, as Mistral's templates ask for.
std::string random_id(size_t length);

struct ReplyNames {
    std::string id, model;
    int64_t created = 0;  // seconds since 1970
};

/// What became of the answers to one request.
class Reply {
  public:
    /// `forms`: one for each answer of a chat; none: completions.
    Reply(ReplyNames names, const Tokenizer& tokenizer, size_t answers, const std::optional<ReplyForm>& form,
          size_t prompt_tokens);
    /// What there is to send of it in a stream: events, or nothing yet. Errors: the answer's own.
    std::string take(News news);
    size_t answers() const { return choices_.size(); }
    bool done() const;
    Json usage() const;
    std::string usage_event() const;  // of a stream
    Json whole() const;               // once done

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

    ReplyNames names_;
    const Tokenizer& tokenizer_;
    bool chat_;
    std::vector<Choice> choices_;
    size_t prompt_tokens_, tokens_ = 0, reused_ = 0;
};

/// An error as the API has it. type: "invalid_request_error", "server_error", ...
Json error_json(std::string_view message, std::string_view type, const Json& code = nullptr);
std::string event_text(const Json& json);  // "data: ...\n\n"

}  // namespace scoria::server
