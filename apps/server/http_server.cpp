// See http_server.h.
#include "http_server.h"

#include "call_form.h"
#include "connection.h"
#include "conversation.h"
#include "embedding.h"
#include "embedding_texts.h"
#include "exchange.h"
#include "fail.h"
#include "messages.h"
#include "page.h"
#include "pictures/picture.h"
#include "ranker.h"
#include "responses.h"

#include <bit>
#include <chrono>
#include <random>

namespace scoria::server {
namespace {

using httplib::Request;
using httplib::Response;

constexpr size_t most_body = 8u << 20;  // bytes
constexpr const char* json_type = "application/json";
constexpr const char* messages_path = "/v1/messages";
constexpr size_t most_choices = 256;  // of a request
constexpr size_t own_threads = 16;    // of connections that ask for no answer

/// How the API tells of an error: HTTP status, type, and a code for what clients look for.
struct ErrorForm {
    Status status;
    int http;
    const char* type;
    const char* code;
    Outcome outcome = Outcome::refused;
};
constexpr ErrorForm error_forms[] = {
    {Status::bad_argument, 400, "invalid_request_error", nullptr},
    {Status::bad_file, 400, "invalid_request_error", nullptr},  // a body or a template's result
    {Status::unsupported, 400, "invalid_request_error", "unsupported"},
    {Status::context_full, 400, "invalid_request_error", "context_length_exceeded"},
    {Status::busy, 503, "overloaded_error", nullptr, Outcome::busy},
    {Status::cancelled, 503, "server_error", nullptr, Outcome::cancelled},
    {Status::failed, 500, "server_error", nullptr, Outcome::failed},
};

ErrorForm form_of(Status status) {
    for (const ErrorForm& form : error_forms)
        if (form.status == status) return form;
    return std::end(error_forms)[-1];
}

/// As the API has embeddings.
std::string base64_of(std::span<const float> values) {
    return base64({reinterpret_cast<const char*>(values.data()), values.size_bytes()});
}
static_assert(std::endian::native == std::endian::little);

}  // namespace

struct HttpServer::Impl {
    Impl(Engine& own_engine, ServerOptions own_options)
        : engine(own_engine), model(engine.model()), options(std::move(own_options)),
          queue(engine, options.most_waiting, metrics), embedder(model), texts(embedding_texts_of(model)),
          ranker(model), calls(call_form(model.chat_template)) {}

    void route();
    void answer_error(const ErrorForm& form, std::string_view what, const Request& in, Response& out);
    /// Runs `work`; what it throws is the response.
    void guarded(const Request& in, Response& out, const std::function<void()>& work);
    httplib::Server::HandlerResponse guard(const Request& in, Response& out);
    void models(const Request& in, Response& out);
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
    void give(const Json& answer, Response& out);
    /// Responds with what was made of texts of so many tokens.
    void give_list(const char* name, Json list, size_t tokens, Response& out);
    /// What a template refuses is the client's to mend. Errors: bad_argument, unsupported where there is
    /// none, and ChatTemplate's others.
    ChatPrompt rendered(Conversation& conversation) const;
    ChatPrompt rendered_chat(const Json& body) const {
        Conversation conversation =
            parse_chat(body, options.defaults, model.architecture.logits()).conversation;
        return rendered(conversation);
    }
    /// Whether the prompt, rendered from the conversation, would be another one without its tools.
    bool shows_tools(Conversation conversation, const ChatPrompt& prompt) const {
        conversation.tools = nullptr;
        return rendered(conversation).text != prompt.text;
    }
    using MakeReply = std::function<std::unique_ptr<Reply>(size_t prompt_tokens)>;
    using MakeChatReply = std::function<std::unique_ptr<Reply>(const ReplyForm& form, size_t prompt_tokens)>;
    /// Answers what a chat's template makes of the request.
    void converse(ChatRequest& request, const MakeChatReply& make_reply, Response& out);
    ReplyNames names(const char* prefix) const {
        return {prefix + random_id(24), options.model, int64_t(std::time(nullptr))};
    }
    std::vector<TokenId> ids_of(const std::variant<std::string, std::vector<TokenId>>& prompt) const;
    /// Asks for answers to each prompt, and responds with them.
    void answer(const AnswerRequest& request, const std::vector<std::vector<TokenId>>& prompts,
                const MakeReply& make_reply, Response& out);

    Engine& engine;
    const Model& model;
    const ServerOptions options;
    const int64_t started = int64_t(std::time(nullptr));
    Listener http;
    Metrics metrics;
    AnswerQueue queue;
    const Embedder embedder;
    const EmbeddingTexts texts;
    const Ranker ranker;
    const CallForm calls;  // that the model's template shows
    int port = 0;
};

void HttpServer::Impl::answer_error(const ErrorForm& form, std::string_view what, const Request& in,
                                    Response& out) {
    metrics.count(form.outcome);
    if (form.http >= 500 && options.log) options.log(std::string(what));
    out.status = form.http;
    if (form.http == 503) out.set_header("Retry-After", "1");
    out.set_content(json_text(in.path.starts_with(messages_path)
                                  ? message_error(what, form.http)
                                  : error_json(what, form.type, form.code ? Json(form.code) : Json())),
                    json_type);
}

void HttpServer::Impl::guarded(const Request& in, Response& out, const std::function<void()>& work) {
    try {
        work();
    } catch (const Error& error) {
        answer_error(form_of(error.status()), error.what(), in, out);
    } catch (const std::exception& error) {
        answer_error(form_of(Status::failed), error.what(), in, out);
    }
}

std::vector<TokenId>
HttpServer::Impl::ids_of(const std::variant<std::string, std::vector<TokenId>>& prompt) const {
    const uint32_t vocab = model.architecture.vocab;
    std::vector<TokenId> ids;
    if (const auto* given = std::get_if<std::vector<TokenId>>(&prompt))
        ids = *given;
    else  // whoever completes a text writes its control tokens
        ids = model.tokenizer->encode(std::get<std::string>(prompt),
                                      {.add_special = true, .parse_special = true});
    if (ids.empty())
        fail(Status::bad_argument, "request", "expected a prompt of at least one token, got none");
    for (const TokenId id : ids)
        if (uint32_t(id) >= vocab)
            fail(Status::bad_argument, "request", "expected ids below ", vocab, ", got ", id);
    return ids;
}

void HttpServer::Impl::answer(const AnswerRequest& request, const std::vector<std::vector<TokenId>>& prompts,
                              const MakeReply& make_reply, Response& out) {
    const Architecture& architecture = model.architecture;
    if (architecture.bidirectional() || !architecture.has_head)
        fail(Status::unsupported, "request", "expected a model that generates, got one that embeds (",
             architecture.family, ")");
    const uint32_t most =
        architecture.encoder.empty() ? engine.memory_plan().context : engine.memory_plan().source;
    for (const std::vector<TokenId>& ids : prompts)
        if (ids.size() > most)
            fail(Status::context_full, "request", "prompt is too long: expected at most ", most,
                 " tokens, got ",
                 ids.size());  // by its first words agents know that they have to summarise
    std::shared_ptr<const grammar::Program> format;
    if (request.format) format = std::make_shared<const grammar::Program>(*request.format);
    std::vector<std::unique_ptr<Reply>> replies;
    std::vector<Question> questions;
    for (const std::vector<TokenId>& ids : prompts) {
        replies.push_back(make_reply(ids.size()));
        for (const GenerateOptions& each : request.answers) {
            questions.push_back({ids, each});
            if (format) questions.back().options.output_grammar = format;
        }
    }
    const auto exchange = std::make_shared<Exchange>(std::move(replies));
    queue.ask(std::move(questions), exchange->mailbox());
    out.set_header("Cache-Control", "no-store");
    if (!request.stream) return give(exchange->whole([] { return Connection::current().stays(); }), out);
    out.set_chunked_content_provider(
        "text/event-stream",
        [this, exchange](size_t, httplib::DataSink& sink) {
            std::string problem;
            const auto write = [&](const std::string& text) { return sink.write(text.data(), text.size()); };
            const Exchange::Next next = exchange->send(write, problem);
            if (!problem.empty() && options.log) options.log(problem);
            if (next == Exchange::Next::done) sink.done();
            return next != Exchange::Next::lost;
        },
        [this, exchange](bool) {
            exchange->mailbox()->cancel();
            metrics.count(exchange->outcome());
        });
}

ChatPrompt HttpServer::Impl::rendered(Conversation& conversation) const try {
    if (model.chat_template.empty())
        fail(Status::unsupported, "request",
             "expected a model with a chat template, got one without (/v1/completions)");
    // What the API calls a developer's message, templates call the system's, but for gpt-oss's.
    if (model.chat_template.source().find("developer") == std::string::npos)
        for (Json& message : conversation.messages)
            if (message["role"] == "developer") message["role"] = "system";
    shape_calls(conversation.messages, calls);
    return model.chat_template.render(conversation);
} catch (const Error& error) {
    throw Error(error.status() == Status::failed ? Status::bad_argument : error.status(), error.what());
}

void HttpServer::Impl::converse(ChatRequest& request, const MakeChatReply& make_reply, Response& out) {
    const ChatPrompt prompt = rendered(request.conversation);
    ReplyForm form = reply_form(model.chat_template.source(), prompt.text, request.conversation.tools);
    if (!request.must_call.empty()) {
        // Where no grammar can spell a call as the template has it, or nobody knows how it has them: JSON.
        const bool unknown = form.call.begin.empty() && !form.bare_calls && !form.channels;
        if (form.call.special || (unknown && shows_tools(request.conversation, prompt))) {
            form.call = {};
            form.bare_calls = true;
        }
        request.format = call_grammar(request.conversation.tools, request.must_call, form);
    }
    if (form.opens_thought && (request.format || request.answers.front().output_grammar)) {
        std::vector<TokenId> end;  // of the thought, where it is a token
        if (form.thought.special)
            end = model.tokenizer->encode(form.thought.end, {.add_special = false, .parse_special = true});
        if (form.thought.special ? end.size() != 1 : !request.format)
            fail(Status::unsupported, "request",
                 "expected a format of the answer behind a prompt that begins no thought",
                 " (chat_template_kwargs: enable_thinking: false), got one that does");
        if (form.thought.special)
            for (GenerateOptions& each : request.answers) each.grammar_behind = end.front();
        else
            request.format = behind_thought(*std::move(request.format), form.thought.end);
    }
    for (GenerateOptions& each : request.answers) each.special_text = form.special();
    const std::vector<TokenId> ids = encode_prompt(*model.tokenizer, prompt);
    if (ids.empty())
        fail(Status::failed, "request", "expected the template to render something, got nothing");
    answer(
        request, {ids}, [&](size_t prompt_tokens) { return make_reply(form, prompt_tokens); }, out);
}

void HttpServer::Impl::chat(const Json& body, Response& out) {
    ChatRequest request = parse_chat(body, options.defaults, model.architecture.logits());
    converse(
        request,
        [&](const ReplyForm& form, size_t prompt) {
            return std::make_unique<ChoicesReply>(names("chatcmpl-"), *model.tokenizer,
                                                  request.answers.size(), form, prompt, request.usage_at_end);
        },
        out);
}

void HttpServer::Impl::respond(const Json& body, Response& out) {
    ResponseRequest request = parse_response(body, options.defaults, model.architecture.logits());
    converse(
        request,
        [&](const ReplyForm& form, size_t prompt) {
            return std::make_unique<ResponseReply>(names("resp_"), *model.tokenizer, form, prompt,
                                                   std::move(request.shown));
        },
        out);
}

void HttpServer::Impl::message(const Json& body, Response& out) {
    ChatRequest request = parse_messages(body, options.defaults, model.architecture.logits());
    converse(
        request,
        [&](const ReplyForm& form, size_t prompt) {
            return std::make_unique<MessageReply>(names("msg_"), form, prompt);
        },
        out);
}

void HttpServer::Impl::count_message(const Json& body, Response& out) {
    ChatRequest request = parse_messages(body, options.defaults, model.architecture.logits());
    const size_t tokens = encode_prompt(*model.tokenizer, rendered(request.conversation)).size();
    give({{"input_tokens", tokens}}, out);
}

void HttpServer::Impl::complete(const Json& body, Response& out) {
    const CompletionRequest request = parse_completion(body, options.defaults, model.architecture.logits());
    if (request.stream && request.prompts.size() > 1)
        fail(Status::unsupported, "request", "expected one prompt in a stream, got ", request.prompts.size());
    if (const size_t answers = request.prompts.size() * request.answers.size(); answers > most_choices)
        fail(Status::bad_argument, "request", "expected at most ", most_choices, " answers, got ", answers);
    std::vector<std::vector<TokenId>> prompts;
    for (const auto& prompt : request.prompts) prompts.push_back(ids_of(prompt));
    const ReplyNames own = names("cmpl-");
    answer(
        request, prompts,
        [&](size_t prompt) {
            return std::make_unique<ChoicesReply>(own, *model.tokenizer, request.answers.size(), std::nullopt,
                                                  prompt, request.usage_at_end);
        },
        out);
}

void HttpServer::Impl::give(const Json& answer, Response& out) {
    metrics.count(Outcome::answered);
    out.set_content(json_text(answer), json_type);
}

void HttpServer::Impl::give_list(const char* name, Json list, size_t tokens, Response& out) {
    metrics.prompt_tokens += tokens;
    give({{"object", "list"},
          {name, std::move(list)},
          {"model", options.model},
          {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}},
         out);
}

void HttpServer::Impl::embed(const Json& body, Response& out) {
    const EmbeddingRequest request = parse_embedding(body);
    if (request.dimensions && *request.dimensions != embedder.size())
        fail(Status::unsupported, "request", "expected dimensions: ", embedder.size(), ", got ",
             *request.dimensions);
    Json data = Json::array();
    size_t tokens = 0;
    for (const auto& input : request.inputs) {
        std::vector<TokenId> ids;
        if (const std::string* text = std::get_if<std::string>(&input)) {
            ids = texts.encoded(*model.tokenizer, *text, request.prompt_name).ids;
            if (ids.empty())
                fail(Status::bad_argument, "request",
                     "expected texts of at least one token, got one of none");
        } else {
            ids = ids_of(input);
        }
        tokens += ids.size();
        std::vector<float> vector;
        queue.run([&](Engine& free_engine) {
            Session session(free_engine);
            vector = embedder.embedding(session, ids, model.pooling, true);
        });
        data.push_back({{"object", "embedding"}, {"index", data.size()}});
        data.back()["embedding"] = request.base64 ? Json(base64_of(vector)) : Json(vector);
    }
    give_list("data", std::move(data), tokens, out);
}

void HttpServer::Impl::rank(const Json& body, Response& out) {
    const RankRequest request = parse_rank(body);
    ranker.check();
    std::vector<double> scores;
    size_t tokens = 0;
    for (const std::string& document : request.documents)
        queue.run([&](Engine& free_engine) {
            Session session(free_engine);
            const Ranker::Score found = ranker.score(session, request.query, document, request.prompt_name);
            scores.push_back(found.score);
            tokens += found.tokens;
        });
    Json results = Json::array();
    for (const size_t index : ranked(scores, request.top)) {
        results.push_back({{"index", index}, {"relevance_score", scores[index]}});
        if (request.returns_documents) results.back()["document"] = {{"text", request.documents[index]}};
    }
    give_list("results", std::move(results), tokens, out);
}

void HttpServer::Impl::tokenize(const Json& body, Response& out) {
    const TokenizeRequest request = parse_tokenize(body);
    const std::vector<TokenId> ids =
        request.text ? model.tokenizer->encode(*request.text, {.add_special = request.add_special,
                                                               .parse_special = request.parse_special})
                     : encode_prompt(*model.tokenizer, rendered_chat(body));
    give({{"tokens", token_list(*model.tokenizer, ids, request.with_pieces)},
          {"count", ids.size()},
          {"max_model_len", engine.memory_plan().context}},
         out);
}

void HttpServer::Impl::detokenize(const Json& body, Response& out) {
    const std::vector<TokenId> ids = parse_detokenize(body);
    for (const TokenId id : ids)
        if (uint32_t(id) >= model.tokenizer->size())
            fail(Status::bad_argument, "request", "expected ids below ", model.tokenizer->size(), ", got ",
                 id);
    const std::string text = model.tokenizer->decode(ids, true);
    give({{"content", text}, {"prompt", text}}, out);
}

void HttpServer::Impl::apply_template(const Json& body, Response& out) {
    give({{"prompt", rendered_chat(body).text}}, out);
}

void HttpServer::Impl::models(const Request& in, Response& out) {
    const Json own{{"id", options.model},
                   {"object", "model"},
                   {"created", started},
                   {"owned_by", "scoria"},
                   {"context_length", engine.memory_plan().context}};
    if (in.matches.size() > 1 && in.matches[1] != options.model)
        return answer_error({Status::bad_argument, 404, "invalid_request_error", "model_not_found"},
                            cat("[models] expected ", options.model, ", got ", in.matches[1].str()), in, out);
    out.set_content(
        json_text(in.matches.size() > 1 ? own : Json{{"object", "list"}, {"data", Json::array({own})}}),
        json_type);
}

httplib::Server::HandlerResponse HttpServer::Impl::guard(const Request& in, Response& out) {
    const std::string origin = in.get_header_value("Origin");
    const bool asks_leave = in.method == "OPTIONS";  // a browser, before it asks what it was told to
    const bool is_public = in.path == "/" || in.path == "/health";
    if (!origin.empty() && allows_origin(options.rules, origin)) {
        const std::string wants = in.get_header_value("Access-Control-Request-Headers");
        out.set_header("Access-Control-Allow-Origin", origin);
        out.set_header("Access-Control-Allow-Headers", wants.empty() ? "Authorization, Content-Type" : wants);
        out.set_header("Vary", "Origin");
    }
    std::string key = in.get_header_value("Authorization");
    if (key.empty() && in.has_header("X-Api-Key")) key = "Bearer " + in.get_header_value("X-Api-Key");
    const std::optional<Refusal> refusal = refuse(options.rules, {.host = in.get_header_value("Host"),
                                                                  .origin = origin,
                                                                  .authorization = key,
                                                                  .needs_key = !asks_leave && !is_public});
    if (refusal) {
        answer_error({Status::failed, refusal->status, "invalid_request_error", nullptr}, refusal->why, in,
                     out);
        return httplib::Server::HandlerResponse::Handled;
    }
    if (!asks_leave) return httplib::Server::HandlerResponse::Unhandled;
    out.status = 204;
    return httplib::Server::HandlerResponse::Handled;
}

void HttpServer::Impl::route() {
    http.set_pre_routing_handler([this](const Request& in, Response& out) { return guard(in, out); });
    http.set_payload_max_length(most_body);
    http.set_keep_alive_max_count(1);  // what a refusal leaves unread would be the next request
    // Not the library's SO_REUSEPORT, by which two servers would share out a port's clients.
    http.set_socket_options([](socket_t socket) {
        const int yes = 1;
        setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    const size_t threads = options.most_waiting + engine.options().sequences + own_threads;
    http.new_task_queue = [threads] { return new httplib::ThreadPool(threads); };
    http.set_error_handler([this](const Request& in, Response& out) {
        if (!out.body.empty()) return;
        constexpr size_t most_form = CPPHTTPLIB_FORM_URL_ENCODED_PAYLOAD_MAX_LENGTH;
        const std::string why = out.status == 413
                                    ? cat(", expected a body of at most ", most_body, " bytes, ", most_form,
                                          " as application/x-www-form-urlencoded, got more")
                                    : "";
        answer_error({Status::failed, out.status, "invalid_request_error", nullptr},
                     cat("[serve] status ", out.status, ": ", in.method, " ", in.path, why), in, out);
    });
    if (options.log)
        http.set_logger([this](const Request& in, const Response& out) {
            options.log(cat(in.method, " ", in.path, " ", out.status));
        });
    http.Get("/", [](const Request&, Response& out) {
        out.set_header(
            "Content-Security-Policy",
            "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
            "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
        out.set_content(std::string(chat_page()), "text/html; charset=utf-8");
    });
    http.Get("/health",
             [](const Request&, Response& out) { out.set_content(R"({"status":"ok"})", json_type); });
    http.Get("/metrics", [this](const Request&, Response& out) {
        out.set_content(metrics_text(metrics, queue.running(), queue.waiting()),
                        "text/plain; version=0.0.4; charset=utf-8");
    });
    http.Get("/v1/models", [this](const Request& in, Response& out) { models(in, out); });
    http.Get("/v1/models/(.+)", [this](const Request& in, Response& out) { models(in, out); });
    constexpr std::pair<const char*, void (Impl::*)(const Json&, Response&)> posts[] = {
        {"/v1/chat/completions", &Impl::chat},
        {"/v1/responses", &Impl::respond},
        {"/v1/completions", &Impl::complete},
        {"/v1/embeddings", &Impl::embed},
        {"/v1/rerank", &Impl::rank},
        {"/rerank", &Impl::rank},
        {"/tokenize", &Impl::tokenize},
        {"/detokenize", &Impl::detokenize},
        {"/apply-template", &Impl::apply_template},
        {messages_path, &Impl::message},
        {"/v1/messages/count_tokens", &Impl::count_message},
    };
    for (const auto& [path, handler] : posts)
        http.Post(path, [this, handler = handler](const Request& in, Response& out) {
            guarded(in, out, [&] { (this->*handler)(parse_body(in.body), out); });
        });
}

HttpServer::HttpServer(Engine& engine, ServerOptions options)
    : impl_(std::make_unique<Impl>(engine, std::move(options))) {
    impl_->route();
    const ServerOptions& o = impl_->options;
    impl_->port = o.port == 0                                ? impl_->http.bind_to_any_port(o.host)
                  : impl_->http.bind_to_port(o.host, o.port) ? o.port
                                                             : -1;
    if (impl_->port <= 0)
        fail(Status::failed, "serve", "expected ", o.host, " port ", o.port,
             " to listen at, got none: is it taken?");
}

HttpServer::~HttpServer() = default;

int HttpServer::port() const { return impl_->port; }
void HttpServer::serve() { impl_->http.listen_after_bind(); }
bool HttpServer::running() const { return impl_->http.is_running(); }
void HttpServer::stop() {
    impl_->queue.stop();
    impl_->http.stop();
}

}  // namespace scoria::server
