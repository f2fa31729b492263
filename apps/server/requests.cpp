// See requests.h.
#include "requests.h"

#include "fail.h"
#include "grammar/json_schema.h"
#include "ops/sample.h"
#include "request_fields.h"
#include "text_stream.h"
#include "tokenizer/json.h"

#include <cmath>
#include <limits>
#include <random>

namespace scoria::server {
namespace {

constexpr uint32_t most_answers = 16;  // of one prompt
constexpr size_t most_prompts = 2048;

struct NumberField {
    const char* name;
    float SamplingOptions::*member;
};
constexpr NumberField number_fields[] = {
    {"temperature", &SamplingOptions::temperature},
    {"top_p", &SamplingOptions::top_p},
    {"min_p", &SamplingOptions::min_p},
    {"typical_p", &SamplingOptions::typical_p},
    {"frequency_penalty", &SamplingOptions::frequency_penalty},
    {"presence_penalty", &SamplingOptions::presence_penalty},
    {"repetition_penalty", &SamplingOptions::repetition_penalty},
    {"repeat_penalty", &SamplingOptions::repetition_penalty},
    {"xtc_probability", &SamplingOptions::xtc_probability},
    {"xtc_threshold", &SamplingOptions::xtc_threshold},
    {"dry_multiplier", &SamplingOptions::dry_multiplier},
    {"dry_base", &SamplingOptions::dry_base},
    {"mirostat_tau", &SamplingOptions::mirostat_tau},
    {"mirostat_eta", &SamplingOptions::mirostat_eta},
};
struct WholeField {
    const char* name;
    uint32_t SamplingOptions::*member;
    bool unlimited = false;  // by -1, too, as in llama.cpp's API and vLLM's
};
constexpr WholeField whole_fields[] = {
    {"top_k", &SamplingOptions::top_k, true},
    {"repeat_last_n", &SamplingOptions::repetition_window},
    {"dry_allowed_length", &SamplingOptions::dry_allowed_length},
};

void read_biases(const Json& value, SamplingOptions& sampling) {
    if (!value.is_object()) expected("logit_bias", "an object of ids and numbers", value);
    for (const auto& [key, bias] : value.items()) {
        LogitBias each;
        const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), each.token);
        if (error != std::errc() || end != key.data() + key.size())
            expected("logit_bias", "ids and numbers", key);
        each.bias = number("logit_bias", bias);
        sampling.logit_bias.push_back(each);
    }
}

/// The grammar that response_format or grammar asks for, if one does.
std::optional<grammar::Grammar> answer_grammar(const Json& body) {
    const Json* const format = field(body, "response_format");
    const Json* const rules = field(body, "grammar");
    if (rules && format) expected("grammar", "the only one beside response_format", *format);
    if (rules) return grammar::parse_gbnf(text("grammar", *rules));
    if (!format) return std::nullopt;
    const std::string type = format->is_object() ? format->value("type", Json()).dump() : "";
    Json schema = {{"type", "object"}, {"additionalProperties", true}};
    if (type == "\"text\"") return std::nullopt;
    if (type == "\"json_schema\"") {
        const auto place = Json::json_pointer("/json_schema/schema");
        if (!format->contains(place)) expected("response_format", "a json_schema with a schema", *format);
        schema = (*format)[place];
    } else if (type != "\"json_object\"") {
        expected("response_format", "of type text, json_object or json_schema", *format);
    }
    return grammar::json_schema_grammar(schema.dump());
}

/// What chat and completions have in common; log-probabilities apart.
AnswerRequest read_answers(const Json& body, const AnswerDefaults& defaults, uint32_t tokens,
                           std::optional<uint32_t> logprobs) {
    AnswerRequest request;
    GenerateOptions options = defaults.options;
    for (const NumberField& each : number_fields)
        if (const Json* value = field(body, each.name))
            options.sampling.*each.member = number(each.name, *value);
    if (options.sampling.top_p == 0)
        options.sampling.top_p = std::numeric_limits<float>::min();  // the best alone
    const auto limit = [](const char* name, const Json& value, uint32_t least) {
        return value == -1 ? 0 : whole(name, value, least, UINT32_MAX);
    };
    for (const WholeField& each : whole_fields)
        if (const Json* value = field(body, each.name))
            options.sampling.*each.member =
                each.unlimited ? limit(each.name, *value, 0) : whole(each.name, *value, 0, UINT32_MAX);
    for (const char* name : {"max_tokens", "max_completion_tokens", "max_output_tokens"})  // the last counts
        if (const Json* value = field(body, name)) options.max_tokens = limit(name, *value, 1);
    if (const Json* value = field(body, "stop")) options.stop = texts("stop", *value);
    (void)StopFinder(options.stop);  // refuses what would fail later
    if (const Json* value = field(body, "logit_bias")) read_biases(*value, options.sampling);
    options.ignore_end = truth(body, "ignore_eos");
    options.logprobs = logprobs;
    request.format = answer_grammar(body);
    (void)sampler_state(options.sampling, {}, tokens);  // refuses what would fail later

    request.stream = truth(body, "stream");
    if (const Json* value = field(body, "stream_options")) {
        if (!value->is_object()) expected("stream_options", "an object", *value);
        request.usage_at_end = truth(*value, "include_usage");
    }
    uint64_t seed = defaults.seeded ? options.sampling.seed : std::random_device()();
    if (const Json* value = field(body, "seed")) {
        if (!value->is_number_integer()) expected("seed", "a whole number", *value);
        seed = value->is_number_unsigned() ? value->get<uint64_t>() : uint64_t(value->get<int64_t>());
    }
    const Json* const count = field(body, "n");
    for (uint32_t i = 0; i < (count ? whole("n", *count, 1, most_answers) : 1); ++i) {
        options.sampling.seed = seed + i;
        request.answers.push_back(options);
    }
    return request;
}

/// Parts of a content joined; an image is refused.
Json plain_message(Json message) {
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string())
        expected("messages", "objects with a role", message);
    Json& content = message["content"];
    if (content.is_null()) content = "";
    if (content.is_array()) {
        std::string joined;
        for (const Json& part : content) {
            const Json type = part.is_object() ? part.value("type", Json()) : Json();
            const char* const key = type == "text" ? "text" : "refusal";
            if (type != key || !part.contains(key)) expected("content", "parts of type text", part);
            joined += text(key, part[key]);
        }
        content = joined;
    }
    if (!content.is_string()) expected("content", "a string or an array of parts", content);
    if (message.contains("reasoning_content") && !message.contains("thinking"))
        message["thinking"] = message["reasoning_content"];  // as gpt-oss's template calls it
    return message;
}

void read_tools(const Json& body, ChatRequest& request) {
    const Json* const tools = field(body, "tools");
    const Json* choice = field(body, "tool_choice");
    if (tools && !tools->is_array()) expected("tools", "an array", *tools);
    const auto place = Json::json_pointer("/function/name");
    for (const Json& tool : tools ? *tools : Json::array())
        if (!tool.is_object() || !tool.contains(place) || !tool[place].is_string())
            expected("tools", "functions with a name", tool);
    if (choice && *choice == "none") return;
    if (tools && !tools->empty()) request.conversation.tools = *tools;
    if (choice && choice->is_object() && choice->contains("allowed_tools")) {
        const Json& allowed = (*choice)["allowed_tools"];
        if (!allowed.is_object() || !allowed.contains("mode") || !allowed.value("tools", Json()).is_array())
            expected("allowed_tools", "an object with a mode and tools", allowed);
        const auto name_of = [&](const Json& tool) { return tool.contains(place) ? tool[place] : Json(); };
        Json& offered = request.conversation.tools;
        offered = Json::array();
        for (const Json& tool : tools ? *tools : Json::array())
            if (std::ranges::any_of(allowed["tools"],
                                    [&](const Json& each) { return name_of(each) == name_of(tool); }))
                offered.push_back(tool);
        if (offered.empty()) expected("allowed_tools", "some of the tools", allowed);
        choice = &allowed["mode"];
    }
    if (!choice || *choice == "auto") return;
    if (*choice == "required")
        request.must_call = "*";
    else if (choice->is_object() && choice->contains(place))
        request.must_call = text("tool_choice", (*choice)[place]);
    else
        expected("tool_choice", "none, auto, required, a function or allowed_tools", *choice);
    if (request.conversation.tools.is_null()) expected("tool_choice", "none, without tools", *choice);
    if (request.format || request.answers.front().output_grammar)
        expected("tool_choice", "none or auto beside a format of the answer", *choice);
}

/// References within a schema, which is to stand at `place` in another document.
void rebase(Json& schema, const std::string& place) {
    if (schema.is_object()) {
        for (auto& [key, value] : schema.items())
            if (key == "$ref" && value.is_string() && value.get<std::string>().starts_with('#'))
                value = "#" + place + value.get<std::string>().substr(1);
            else
                rebase(value, place);
    } else if (schema.is_array()) {
        for (Json& each : schema) rebase(each, place);
    }
}

std::vector<TokenId> ids(const char* name, const Json& value) {
    std::vector<TokenId> all;
    for (const Json& each : value) all.push_back(TokenId(whole(name, each, 0, INT32_MAX)));
    return all;
}
/// A text, several, ids of a text, or of several.
std::vector<std::variant<std::string, std::vector<TokenId>>> prompts(const char* name, const Json& body) {
    const Json* const value = field(body, name);
    if (!value) expected(name, "a string, ids, or an array of either", Json());
    if (value->is_string()) return {value->get<std::string>()};
    if (!value->is_array() || value->empty() || (value->size() > most_prompts && !value->front().is_number()))
        expected(name, cat("a string, ids, or an array of up to ", most_prompts, " of either"), *value);
    if (value->front().is_number()) return {ids(name, *value)};
    std::vector<std::variant<std::string, std::vector<TokenId>>> all;
    for (const Json& each : *value)
        if (each.is_array())
            all.emplace_back(ids(name, each));
        else
            all.emplace_back(text(name, each));
    return all;
}

}  // namespace

Json parse_body(const std::string& body) {
    Json json = parse_shallow<Json>(body, "request");
    if (!json.is_object()) expected("the body", "an object", json);
    return json;
}

ChatRequest parse_chat(const Json& body, const AnswerDefaults& defaults, uint32_t tokens) {
    refuse(body, {"audio", "functions", "function_call", "chat_template", "continue_final_message"});
    std::optional<uint32_t> logprobs;
    if (truth(body, "logprobs")) {
        const Json* const best = field(body, "top_logprobs");
        logprobs = best ? whole("top_logprobs", *best, 0, 20) : 0;
    }
    ChatRequest request{read_answers(body, defaults, tokens, logprobs), {}, {}};
    for (const Json& message : filled(body, "messages", "an array with a message"))
        request.conversation.messages.push_back(plain_message(message));
    if (const Json* variables = field(body, "chat_template_kwargs")) {
        if (!variables->is_object()) expected("chat_template_kwargs", "an object", *variables);
        request.conversation.variables = *variables;
    }
    if (const Json* effort = field(body, "reasoning_effort"))
        request.conversation.variables["reasoning_effort"] = text("reasoning_effort", *effort);
    request.conversation.add_generation_prompt = truth(body, "add_generation_prompt", true);
    read_tools(body, request);
    return request;
}

CompletionRequest parse_completion(const Json& body, const AnswerDefaults& defaults, uint32_t tokens) {
    refuse(body, {"echo", "suffix"});
    const Json* const best = field(body, "logprobs");
    CompletionRequest request{
        read_answers(body, defaults, tokens,
                     best ? std::optional(whole("logprobs", *best, 0, 20)) : std::nullopt),
        prompts("prompt", body)};
    if (const Json* value = field(body, "best_of"); value && *value != request.answers.size())
        expected("best_of", "n", *value);
    return request;
}

TokenizeRequest parse_tokenize(const Json& body) {
    refuse(body, {"return_token_strs"});
    TokenizeRequest request{.with_pieces = truth(body, "with_pieces")};
    const Json* const content = field(body, "content");  // llama.cpp's, which adds nothing unless it is told
    const Json* const prompt = field(body, "prompt");    // vLLM's
    if (content && prompt) expected("prompt", "the only one beside content", *prompt);
    if (content || prompt)
        request.text = text(content ? "content" : "prompt", content ? *content : *prompt);
    else if (!field(body, "messages"))
        expected("content", "a string, or prompt or messages in its place", Json());
    request.add_special = truth(body, "add_special", truth(body, "add_special_tokens", prompt != nullptr));
    request.parse_special = truth(body, "parse_special", true);
    return request;
}

std::vector<TokenId> parse_detokenize(const Json& body) {
    const Json* const tokens = field(body, "tokens");
    if (!tokens || !tokens->is_array()) expected("tokens", "an array of ids", tokens ? *tokens : Json());
    return ids("tokens", *tokens);
}

EmbeddingRequest parse_embedding(const Json& body) {
    EmbeddingRequest request{.inputs = prompts("input", body)};
    if (const Json* format = field(body, "encoding_format")) {
        request.base64 = *format == "base64";
        if (!request.base64 && *format != "float") expected("encoding_format", "float or base64", *format);
    }
    if (const Json* value = field(body, "dimensions"))
        request.dimensions = whole("dimensions", *value, 1, UINT32_MAX);
    if (const Json* value = field(body, "prompt_name")) request.prompt_name = text("prompt_name", *value);
    return request;
}

RankRequest parse_rank(const Json& body) {
    RankRequest request;
    const Json* const query = field(body, "query");
    request.query = text("query", query ? *query : Json());
    for (const Json& document : filled(body, "documents", "an array with a text"))
        request.documents.push_back(text(
            "documents", document.is_object() && document.contains("text") ? document["text"] : document));
    if (const Json* value = field(body, "top_n")) request.top = whole("top_n", *value, 1, UINT32_MAX);
    request.returns_documents = truth(body, "return_documents");
    if (const Json* value = field(body, "prompt_name")) request.prompt_name = text("prompt_name", *value);
    return request;
}

grammar::Grammar call_grammar(const Json& tools, const std::string& name, const ReplyForm& form) {
    if (form.call.begin.empty() && !form.bare_calls)
        fail(Status::unsupported, "request",
             "expected tool_choice none or auto, where a template shows no tools or calls by channels, ",
             "got another");
    const char* const key = form.bare_calls ? "parameters" : "arguments";
    Json any = Json::array();
    for (const Json& tool : tools) {
        const Json function = tool.is_object() ? tool.value("function", Json()) : Json();
        if (!function.is_object() || !function.contains("name") || (name != "*" && function["name"] != name))
            continue;
        Json arguments =
            function.value("parameters", Json({{"type", "object"}, {"additionalProperties", true}}));
        rebase(arguments, cat("/anyOf/", any.size(), "/properties/", key));
        any.push_back({{"type", "object"},
                       {"properties", {{"name", {{"const", function["name"]}}}, {key, std::move(arguments)}}},
                       {"required", {"name", key}}});
    }
    if (any.empty()) fail(Status::bad_argument, "request", "expected tools with ", name, ", got none");
    grammar::Grammar rules = grammar::json_schema_grammar(Json{{"anyOf", std::move(any)}}.dump());
    if (!form.bare_calls) {
        rules.rules.push_back(
            {"call", grammar::sequence({grammar::text(std::string(form.call.begin) + "\n"),
                                        grammar::rule_reference(rules.root),
                                        grammar::text("\n" + std::string(form.call.end))})});
        rules.root = uint32_t(rules.rules.size() - 1);
    }
    return rules;
}

grammar::Grammar behind_thought(grammar::Grammar rules, std::string_view end) {
    // Rule `first + i` stands behind i bytes of the marker, as in the search of Knuth, Morris and Pratt.
    const uint32_t first = uint32_t(rules.rules.size()), length = uint32_t(end.size());
    const auto behind = [&](uint32_t known, char next) {
        const std::string seen = std::string(end.substr(0, known)) + next;
        uint32_t longest = std::min(known + 1, length);
        while (!seen.ends_with(end.substr(0, longest))) --longest;
        return longest;
    };
    grammar::CodeSet letters;
    for (const char c : end) letters.push_back({char32_t(c), char32_t(c)});
    letters = grammar::united(std::move(letters));
    for (uint32_t known = 0; known < length; ++known) {
        std::vector<grammar::Expr> ways;
        const auto add = [&](grammar::CodeSet set, uint32_t to) {
            ways.push_back(grammar::sequence(
                {grammar::characters(std::move(set)), grammar::rule_reference(first + to)}));
        };
        add(grammar::complement(letters), 0);
        for (const grammar::CodeRange& range : letters)
            for (char32_t c = range.first; c <= range.last; ++c) add({{c, c}}, behind(known, char(c)));
        rules.rules.push_back({cat("thought-", known), grammar::choice(std::move(ways))});
    }
    rules.rules.push_back({"answer", grammar::sequence({grammar::repeat(grammar::text("\n"), 0, 2),
                                                        grammar::rule_reference(rules.root)})});
    rules.root = first;
    return rules;
}

}  // namespace scoria::server
