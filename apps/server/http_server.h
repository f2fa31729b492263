// The OpenAI API over HTTP, for one model: /v1/chat/completions, /v1/responses, /v1/completions,
// /v1/embeddings, /v1/rerank, /v1/models; Anthropic's /v1/messages; /tokenize, /detokenize, /apply-template;
// /health, /metrics, and a page to chat in.
#pragma once

#include "guard.h"
#include "requests.h"

#include <memory>

namespace scoria::server {

struct ServerOptions {
    std::string model;  // its name, as clients see it; whatever they call it, this one answers
    std::string host = "127.0.0.1";
    int port = 8080;  // 0: a free one
    GuardRules rules;
    size_t most_waiting = 64;  // requests beside those that are computed
    AnswerDefaults defaults;
    std::function<void(const std::string& line)> log;  // a line for each request; may be empty
};

class HttpServer {
  public:
    /// Listens, and answers from serve() on. Errors: failed, where host and port cannot be had.
    HttpServer(Engine& engine, ServerOptions options);
    ~HttpServer();
    int port() const;
    /// Until stop(). Answers that are not done by then end there, and say so where their clients read.
    void serve();
    bool running() const;  // between serve()'s begin and stop()
    void stop();           // while running(); from any thread

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace scoria::server
