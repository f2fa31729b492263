// See http_server.h.
#include "http_server.h"

#include "connection.h"
#include "endpoints.h"
#include "fail.h"
#include "messages.h"
#include "page.h"

#include <algorithm>
#include <regex>

namespace scoria::server {
namespace {

using httplib::Request;
using httplib::Response;

constexpr size_t most_body = 8u << 20;  // bytes
constexpr const char* messages_path = "/v1/messages";
constexpr size_t own_threads = 16;                      // of connections that ask for no answer
constexpr auto most_writing = std::chrono::seconds(3);  // of responses when the server ends

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

}  // namespace

struct HttpServer::Impl {
    Impl(Engine& engine, ServerOptions own_options)
        : options(std::move(own_options)), endpoints(engine, options) {}

    void route();
    void answer_error(const ErrorForm& form, std::string_view what, const Request& in, Response& out);
    /// Runs `work`; what it throws is the response.
    void guarded(const Request& in, Response& out, const std::function<void()>& work);
    httplib::Server::HandlerResponse guard(const Request& in, Response& out);
    void models(const Request& in, Response& out);
    void on(const char* method, const char* path, const httplib::Server::Handler& handler);
    /// Those that a path knows, as the header Allow has them; empty: it is no path of ours.
    std::string methods_of(const std::string& path) const;

    struct Route {
        std::regex path;
        std::string methods;  // beside OPTIONS, which every path knows
    };
    std::vector<Route> routes;
    const ServerOptions options;
    const int64_t started = int64_t(std::time(nullptr));
    Listener http;
    Endpoints endpoints;
    int port = 0;
};

void HttpServer::Impl::answer_error(const ErrorForm& form, std::string_view what, const Request& in,
                                    Response& out) {
    endpoints.metrics.count(form.outcome);
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

void HttpServer::Impl::models(const Request& in, Response& out) {
    const Json own{{"id", options.model},
                   {"object", "model"},
                   {"created", started},
                   {"owned_by", "scoria"},
                   {"context_length", endpoints.engine.memory_plan().context}};
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
    if (asks_leave) {
        out.status = 204;
        return httplib::Server::HandlerResponse::Handled;
    }
    if (in.has_header("Content-Encoding")) {  // the library bounds no size that is unpacked
        answer_error({Status::failed, 415, "invalid_request_error", nullptr},
                     "[serve] expected a body as it is, got one with a Content-Encoding", in, out);
        return httplib::Server::HandlerResponse::Handled;
    }
    const std::string methods = methods_of(in.path);
    if (methods.empty() || (methods + ", ").find(in.method + ", ") != methods.npos)
        return httplib::Server::HandlerResponse::Unhandled;
    out.set_header("Allow", methods);
    answer_error({Status::failed, 405, "invalid_request_error", nullptr},
                 cat("[serve] expected ", in.path, " by ", methods, ", got ", in.method), in, out);
    return httplib::Server::HandlerResponse::Handled;
}

void HttpServer::Impl::on(const char* method, const char* path, const httplib::Server::Handler& handler) {
    const bool gets = method == std::string_view("GET");
    gets ? http.Get(path, handler) : http.Post(path, handler);
    routes.push_back({std::regex(path), gets ? "GET, HEAD" : method});
}

std::string HttpServer::Impl::methods_of(const std::string& path) const {
    const auto found =
        std::ranges::find_if(routes, [&](const Route& route) { return std::regex_match(path, route.path); });
    return found == routes.end() ? "" : found->methods + ", OPTIONS";
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
    const size_t threads = options.most_waiting + endpoints.engine.options().sequences + own_threads;
    http.new_task_queue = [threads] { return new httplib::ThreadPool(threads); };
    http.set_error_handler([this](const Request& in, Response& out) {
        if (!out.body.empty()) return;
        if (const int status = Connection::current().cut_short()) out.status = status;
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
    on("GET", "/", [](const Request&, Response& out) {
        out.set_header(
            "Content-Security-Policy",
            "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
            "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
        out.set_content(std::string(chat_page()), "text/html; charset=utf-8");
    });
    on("GET", "/health",
       [](const Request&, Response& out) { out.set_content(R"({"status":"ok"})", json_type); });
    on("GET", "/metrics", [this](const Request&, Response& out) {
        out.set_content(metrics_text(endpoints.metrics, endpoints.queue.running(), endpoints.queue.waiting()),
                        "text/plain; version=0.0.4; charset=utf-8");
    });
    on("GET", "/v1/models", [this](const Request& in, Response& out) { models(in, out); });
    on("GET", "/v1/models/(.+)", [this](const Request& in, Response& out) { models(in, out); });
    constexpr std::pair<const char*, void (Endpoints::*)(const Json&, Response&)> posts[] = {
        {"/v1/chat/completions", &Endpoints::chat},
        {"/v1/responses", &Endpoints::respond},
        {"/v1/completions", &Endpoints::complete},
        {"/v1/embeddings", &Endpoints::embed},
        {"/v1/rerank", &Endpoints::rank},
        {"/rerank", &Endpoints::rank},
        {"/tokenize", &Endpoints::tokenize},
        {"/detokenize", &Endpoints::detokenize},
        {"/apply-template", &Endpoints::apply_template},
        {messages_path, &Endpoints::message},
        {"/v1/messages/count_tokens", &Endpoints::count_message},
    };
    for (const auto& [path, handler] : posts)
        on("POST", path, [this, handler = handler](const Request& in, Response& out) {
            guarded(in, out, [&] { (endpoints.*handler)(parse_body(in.body), out); });
        });
}

HttpServer::HttpServer(Engine& engine, ServerOptions options)
    : impl_(std::make_unique<Impl>(engine, std::move(options))) {
    impl_->route();
    const ServerOptions& o = impl_->options;
    impl_->port = o.port == 0                                ? impl_->http.bind_to_any_port(o.host)
                  : impl_->http.bind_to_port(o.host, o.port) ? o.port
                                                             : -1;
    if (impl_->port <= 0 || !impl_->http.widen())
        fail(Status::failed, "serve", "expected ", o.host, " port ", o.port,
             " to listen at, got none: is it taken?");
}

HttpServer::~HttpServer() = default;

int HttpServer::port() const { return impl_->port; }
void HttpServer::serve() { impl_->http.listen_after_bind(); }
bool HttpServer::running() const { return impl_->http.is_running(); }
void HttpServer::stop() {
    impl_->endpoints.queue.stop();
    impl_->http.end(most_writing);
}

}  // namespace scoria::server
