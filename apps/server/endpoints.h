// What is made of each request: from its body to the response. Errors are thrown, and told by
// http_server.cpp.
#pragma once

#include "answer_queue.h"
#include "call_form.h"
#include "connection.h"
#include "embedding.h"
#include "embedding_texts.h"
#include "http_server.h"
#include "metrics.h"
#include "ranker.h"
#include "replies.h"

#include <ctime>

namespace scoria::server {

inline constexpr const char* json_type = "application/json";

class Endpoints {
  public:
    using Response = httplib::Response;

    /// Both outlive it.
    Endpoints(Engine& engine, const ServerOptions& options);
    void chat(const Json& body, Response& out);
    void respond(const Json& body, Response& out);
    void message(const Json& body, Response& out);
    void count_message(const Json& body, Response& out);
    void complete(const Json& body, Response& out);
    void embed(const Json& body, Response& out);
    void rank(const Json& body, Response& out);
    void tokenize(const Json& body, Response& out);
    void detokenize(const Json& body, Response& out);
    void apply_template(const Json& body, Response& out);

    Engine& engine;
    Metrics metrics;
    AnswerQueue queue;

  private:
    using MakeReply = std::function<std::unique_ptr<Reply>(size_t prompt_tokens)>;
    using MakeChatReply = std::function<std::unique_ptr<Reply>(const ReplyForm& form, size_t prompt_tokens)>;
    /// What a template refuses is the client's to mend. Errors: bad_argument, unsupported where there is
    /// none, and ChatTemplate's others.
    ChatPrompt rendered(Conversation& conversation) const;
    ChatPrompt rendered_chat(const Json& body) const;
    /// Whether the prompt, rendered from the conversation, would be another one without its tools.
    bool shows_tools(Conversation conversation, const ChatPrompt& prompt) const;
    /// Answers what a chat's template makes of the request.
    void converse(ChatRequest& request, const MakeChatReply& make_reply, Response& out);
    /// Asks for answers to each prompt, and responds with them.
    void answer(const AnswerRequest& request, const std::vector<std::vector<TokenId>>& prompts,
                const MakeReply& make_reply, Response& out);
    /// Runs `work` as the queue does, if the client still waits for it. Errors: cancelled, if not.
    void run(const std::function<void(Engine&)>& work);
    void give(const Json& answer, Response& out);
    /// Responds with what was made of texts of so many tokens.
    void give_list(const char* name, Json list, size_t tokens, Response& out);
    std::vector<TokenId> ids_of(const std::variant<std::string, std::vector<TokenId>>& prompt) const;
    ReplyNames names(const char* prefix) const {
        return {prefix + random_id(24), options_.model, int64_t(std::time(nullptr))};
    }

    const Model& model_;
    const ServerOptions& options_;
    const Embedder embedder_;
    const EmbeddingTexts texts_;
    const Ranker ranker_;
    const CallForm calls_;  // that the model's template shows
};

}  // namespace scoria::server
