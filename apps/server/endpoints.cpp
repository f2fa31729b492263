// See endpoints.h.
#include "endpoints.h"

#include "conversation.h"
#include "exchange.h"
#include "fail.h"
#include "messages.h"
#include "pictures/picture.h"
#include "responses.h"

#include <bit>

namespace scoria::server {
namespace {

constexpr size_t most_choices = 256;  // of a request

/// As the API has embeddings.
std::string base64_of(std::span<const float> values) {
    return base64({reinterpret_cast<const char*>(values.data()), values.size_bytes()});
}
static_assert(std::endian::native == std::endian::little);

}  // namespace

Endpoints::Endpoints(Engine& own_engine, const ServerOptions& own_options)
    : engine(own_engine), queue(engine, own_options.most_waiting, metrics), model_(engine.model()),
      options_(own_options), embedder_(model_), texts_(embedding_texts_of(model_)), ranker_(model_),
      calls_(call_form(model_.chat_template)) {}

std::vector<TokenId> Endpoints::ids_of(const std::variant<std::string, std::vector<TokenId>>& prompt) const {
    const uint32_t vocab = model_.architecture.vocab;
    std::vector<TokenId> ids;
    if (const auto* given = std::get_if<std::vector<TokenId>>(&prompt))
        ids = *given;
    else  // whoever completes a text writes its control tokens
        ids = model_.tokenizer->encode(std::get<std::string>(prompt),
                                       {.add_special = true, .parse_special = true});
    if (ids.empty())
        fail(Status::bad_argument, "request", "expected a prompt of at least one token, got none");
    for (const TokenId id : ids)
        if (uint32_t(id) >= vocab)
            fail(Status::bad_argument, "request", "expected ids below ", vocab, ", got ", id);
    return ids;
}

void Endpoints::answer(const AnswerRequest& request, const std::vector<std::vector<TokenId>>& prompts,
                       const MakeReply& make_reply, Response& out) {
    const Architecture& architecture = model_.architecture;
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
            if (!problem.empty() && options_.log) options_.log(problem);
            if (next == Exchange::Next::done) sink.done();
            return next != Exchange::Next::lost;
        },
        [this, exchange](bool) {
            exchange->mailbox()->cancel();
            metrics.count(exchange->outcome());
        });
}

ChatPrompt Endpoints::rendered(Conversation& conversation) const try {
    if (model_.chat_template.empty())
        fail(Status::unsupported, "request",
             "expected a model with a chat template, got one without (/v1/completions)");
    // What the API calls a developer's message, templates call the system's, but for gpt-oss's.
    if (model_.chat_template.source().find("developer") == std::string::npos)
        for (Json& message : conversation.messages)
            if (message["role"] == "developer") message["role"] = "system";
    shape_calls(conversation.messages, calls_);
    return model_.chat_template.render(conversation);
} catch (const Error& error) {
    throw Error(error.status() == Status::failed ? Status::bad_argument : error.status(), error.what());
}

ChatPrompt Endpoints::rendered_chat(const Json& body) const {
    Conversation conversation =
        parse_chat(body, options_.defaults, model_.architecture.logits()).conversation;
    return rendered(conversation);
}

bool Endpoints::shows_tools(Conversation conversation, const ChatPrompt& prompt) const {
    conversation.tools = nullptr;
    return rendered(conversation).text != prompt.text;
}

void Endpoints::converse(ChatRequest& request, const MakeChatReply& make_reply, Response& out) {
    const ChatPrompt prompt = rendered(request.conversation);
    ReplyForm form = reply_form(model_.chat_template.source(), prompt.text, request.conversation.tools);
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
            end = model_.tokenizer->encode(form.thought.end, {.add_special = false, .parse_special = true});
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
    const std::vector<TokenId> ids = encode_prompt(*model_.tokenizer, prompt);
    if (ids.empty())
        fail(Status::failed, "request", "expected the template to render something, got nothing");
    answer(
        request, {ids}, [&](size_t prompt_tokens) { return make_reply(form, prompt_tokens); }, out);
}

void Endpoints::chat(const Json& body, Response& out) {
    ChatRequest request = parse_chat(body, options_.defaults, model_.architecture.logits());
    converse(
        request,
        [&](const ReplyForm& form, size_t prompt) {
            return std::make_unique<ChoicesReply>(names("chatcmpl-"), *model_.tokenizer,
                                                  request.answers.size(), form, prompt, request.usage_at_end);
        },
        out);
}

void Endpoints::respond(const Json& body, Response& out) {
    ResponseRequest request = parse_response(body, options_.defaults, model_.architecture.logits());
    converse(
        request,
        [&](const ReplyForm& form, size_t prompt) {
            return std::make_unique<ResponseReply>(names("resp_"), *model_.tokenizer, form, prompt,
                                                   std::move(request.shown));
        },
        out);
}

void Endpoints::message(const Json& body, Response& out) {
    ChatRequest request = parse_messages(body, options_.defaults, model_.architecture.logits());
    converse(
        request,
        [&](const ReplyForm& form, size_t prompt) {
            return std::make_unique<MessageReply>(names("msg_"), form, prompt);
        },
        out);
}

void Endpoints::count_message(const Json& body, Response& out) {
    ChatRequest request = parse_messages(body, options_.defaults, model_.architecture.logits());
    const size_t tokens = encode_prompt(*model_.tokenizer, rendered(request.conversation)).size();
    give({{"input_tokens", tokens}}, out);
}

void Endpoints::complete(const Json& body, Response& out) {
    const CompletionRequest request = parse_completion(body, options_.defaults, model_.architecture.logits());
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
            return std::make_unique<ChoicesReply>(own, *model_.tokenizer, request.answers.size(),
                                                  std::nullopt, prompt, request.usage_at_end);
        },
        out);
}

void Endpoints::run(const std::function<void(Engine&)>& work) {
    if (!Connection::current().stays()) throw client_left();
    queue.run(work);
}

void Endpoints::give(const Json& answer, Response& out) {
    metrics.count(Outcome::answered);
    out.set_content(json_text(answer), json_type);
}

void Endpoints::give_list(const char* name, Json list, size_t tokens, Response& out) {
    metrics.prompt_tokens += tokens;
    give({{"object", "list"},
          {name, std::move(list)},
          {"model", options_.model},
          {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}},
         out);
}

void Endpoints::embed(const Json& body, Response& out) {
    const EmbeddingRequest request = parse_embedding(body);
    if (request.dimensions && *request.dimensions != embedder_.size())
        fail(Status::unsupported, "request", "expected dimensions: ", embedder_.size(), ", got ",
             *request.dimensions);
    Json data = Json::array();
    size_t tokens = 0;
    for (const auto& input : request.inputs) {
        std::vector<TokenId> ids;
        if (const std::string* text = std::get_if<std::string>(&input)) {
            ids = texts_.encoded(*model_.tokenizer, *text, request.prompt_name).ids;
            if (ids.empty())
                fail(Status::bad_argument, "request",
                     "expected texts of at least one token, got one of none");
        } else {
            ids = ids_of(input);
        }
        tokens += ids.size();
        std::vector<float> vector;
        run([&](Engine& free_engine) {
            Session session(free_engine);
            vector = embedder_.embedding(session, ids, model_.pooling, true);
        });
        data.push_back({{"object", "embedding"}, {"index", data.size()}});
        data.back()["embedding"] = request.base64 ? Json(base64_of(vector)) : Json(vector);
    }
    give_list("data", std::move(data), tokens, out);
}

void Endpoints::rank(const Json& body, Response& out) {
    const RankRequest request = parse_rank(body);
    ranker_.check();
    std::vector<double> scores;
    size_t tokens = 0;
    for (const std::string& document : request.documents)
        run([&](Engine& free_engine) {
            Session session(free_engine);
            const Ranker::Score found = ranker_.score(session, request.query, document, request.prompt_name);
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

void Endpoints::tokenize(const Json& body, Response& out) {
    const TokenizeRequest request = parse_tokenize(body);
    const std::vector<TokenId> ids =
        request.text ? model_.tokenizer->encode(*request.text, {.add_special = request.add_special,
                                                                .parse_special = request.parse_special})
                     : encode_prompt(*model_.tokenizer, rendered_chat(body));
    give({{"tokens", token_list(*model_.tokenizer, ids, request.with_pieces)},
          {"count", ids.size()},
          {"max_model_len", engine.memory_plan().context}},
         out);
}

void Endpoints::detokenize(const Json& body, Response& out) {
    const std::vector<TokenId> ids = parse_detokenize(body);
    for (const TokenId id : ids)
        if (uint32_t(id) >= model_.tokenizer->size())
            fail(Status::bad_argument, "request", "expected ids below ", model_.tokenizer->size(), ", got ",
                 id);
    const std::string text = model_.tokenizer->decode(ids, true);
    give({{"content", text}, {"prompt", text}}, out);
}

void Endpoints::apply_template(const Json& body, Response& out) {
    give({{"prompt", rendered_chat(body).text}}, out);
}

}  // namespace scoria::server
