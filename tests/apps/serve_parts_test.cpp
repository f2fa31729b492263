// What serve makes of a model's text and of who asks, without a model.
#include "call_form.h"
#include "fail.h"
#include "file.h"
#include "grammar/matcher.h"
#include "guard.h"
#include "responses.h"
#include "test_env.h"

#include <doctest/doctest.h>

#include <chrono>

using namespace scoria;
using namespace scoria::server;

namespace {

using Kind = ReplyPart::Kind;

constexpr std::string_view marked_template = "{{ '<think>' }} <tool_call> </think>";

Json weather_tools() {
    return Json::parse(R"([{"type":"function","function":{"name":"weather","parameters":{"type":"object",
        "properties":{"city":{"type":"string"},"days":{"type":"integer"}},"required":["city"]}}}])");
}

/// Neighbours of a kind joined.
std::vector<ReplyPart> joined(const std::vector<ReplyPart>& parts) {
    std::vector<ReplyPart> out;
    for (const ReplyPart& part : parts)
        if (part.kind != Kind::call && !out.empty() && out.back().kind == part.kind)
            out.back().text += part.text;
        else
            out.push_back(part);
    return out;
}

/// In pieces of `size` bytes.
std::vector<ReplyPart> parts_of(const ReplyForm& form, std::string_view text, size_t size) {
    ReplyParts parts(form);
    std::vector<ReplyPart> all;
    const auto add = [&](const std::vector<ReplyPart>& more) {
        all.insert(all.end(), more.begin(), more.end());
    };
    for (size_t at = 0; at < text.size(); at += size) add(parts.push(text.substr(at, size)));
    add(parts.finish());
    return joined(all);
}

struct PartsCase {
    const char* what;
    std::string_view chat_template, prompt, text;
    std::vector<ReplyPart> parts;
};

const PartsCase parts_cases[] = {
    {"a model without markers keeps every byte",
     "plain",
     "",
     " <think> a </think>\n<tool_call>\n",
     {{Kind::content, " <think> a </think>\n<tool_call>\n"}}},
    {"a thought, then an answer",
     marked_template,
     "",
     "\n<think>\nHm < 3.\n</think>\n\nYes. \n Or no.\n",
     {{Kind::thought, "Hm < 3."}, {Kind::content, "Yes. \n Or no.\n"}}},
    {"the prompt began the thought",
     marked_template,
     "<assistant>\n<think>\n",
     "Hm.\n</think>\n\nYes.",
     {{Kind::thought, "Hm."}, {Kind::content, "Yes."}}},
    {"a thought that is cut off", marked_template, "<think>", "Hm </thin", {{Kind::thought, "Hm </thin"}}},
    {"markers inside of an answer are text",
     marked_template,
     "",
     "Say <think> aloud.",
     {{Kind::content, "Say <think> aloud."}}},
    {"a call behind a text",
     marked_template,
     "",
     "I look.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\"}}\n</tool_call>\n",
     {{Kind::content, "I look."}, {Kind::call, R"({"city":"Rome"})", "weather"}}},
    {"two calls, one whose end was left out",
     marked_template,
     "",
     "<think>a</think><tool_call>{\"name\":\"weather\",\"arguments\":{}}</"
     "tool_call>\n<tool_call>{\"name\":\"b\",\"arguments\":{}}",
     {{Kind::thought, "a"}, {Kind::call, "{}", "weather"}, {Kind::call, "{}", "b"}}},
    {"parameters by tags, of the types that the tool has",
     marked_template,
     "",
     "<tool_call>\n<function=weather>\n<parameter=city>\n42\n</parameter>\n<parameter=days>\n3\n</"
     "parameter>\n</function>\n</tool_call>",
     {{Kind::call, R"({"city":"42","days":3})", "weather"}}},
    {"keys and values side by side",
     marked_template,
     "",
     "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>\n<arg_key>days</"
     "arg_key>\n<arg_value>2</arg_value>\n</tool_call>",
     {{Kind::call, R"({"city":"Rome","days":2})", "weather"}}},
    {"a function that nobody offered",
     marked_template,
     "",
     "<tool_call>climate\n</tool_call>",
     {{Kind::content, "<tool_call>climate\n</tool_call>"}}},
    {"channels: a thought, a preamble, a call",
     "<|channel|> <|message|>",
     "<|start|>assistant",
     "<|channel|>analysis<|message|>Hm <3\n<|end|><|start|>assistant<|channel|>commentary<|message|>I "
     "look.<|end|>"
     "<|start|>assistant to=functions.weather<|channel|>commentary "
     "<|constrain|>json<|message|>{\"city\":\"Rome\"}",
     {{Kind::thought, "Hm <3\n"}, {Kind::content, "I look."}, {Kind::call, R"({"city":"Rome"})", "weather"}}},
    {"channels: the answer, cut off",
     "<|channel|> <|message|>",
     "",
     "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>Yes <",
     {{Kind::thought, "a"}, {Kind::content, "Yes <"}}},
    {"channels: an answer like a tag", "<|channel|> <|message|>", "", "<b>x", {{Kind::content, "<b>x"}}},
    {"JSON alone behind a thought",
     "[THINK][TOOL_CALLS]",
     "",
     "[THINK]a[/THINK][TOOL_CALLS][{\"name\":\"weather\",\"arguments\":{}}]",
     {{Kind::thought, "a"}, {Kind::call, "{}", "weather"}}},
    {"channels: a grammar let none come",
     "<|channel|> <|message|>",
     "",
     "{\"a\":1}",
     {{Kind::content, "{\"a\":1}"}}},
    {"what is no call stays text",
     marked_template,
     "",
     "<tool_call>{\"name\": 3}</tool_call> ok",
     {{Kind::content, "<tool_call>{\"name\": 3}</tool_call>ok"}}},
    {"JSON alone is a call where templates teach that",
     "[TOOL_CALLS]",
     "",
     " [{\"name\":\"weather\",\"arguments\":{\"city\":\"Bonn\"}}]",
     {{Kind::call, R"({"city":"Bonn"})", "weather"}}},
    {"Python, as LFM2 writes it",
     "<|tool_list_start|>",
     "",
     "I look.<|tool_call_start|>[weather(city='It\\'s \"here\"', days=3), weather( city = \"Rome\", "
     "more={'a': [True, None, [1, -2.5]], \"b,)\": '\\x41\\u00e9\t'} ), weather()]<|tool_call_end|>Wait.",
     {{Kind::content, "I look."},
      {Kind::call, R"({"city":"It's \"here\"","days":3})", "weather"},
      {Kind::call, R"json({"city":"Rome","more":{"a":[true,null,[1,-2.5]],"b,)":"Aé\t"}})json", "weather"},
      {Kind::call, "{}", "weather"},
      {Kind::content, "Wait."}}},
    {"Python that is none, or calls what nobody offered",
     "<|tool_list_start|>",
     "",
     "<|tool_call_start|>[weather(city=Rome)]<|tool_call_end|><|tool_call_start|>[climate()]<|tool_call_end|>"
     "<|tool_call_start|>[weather(\"Bonn\"), weather(city='Rome')]<|tool_call_end|>"
     "<|tool_call_start|>[weather(city='Rom",
     {{Kind::content, "<|tool_call_start|>[weather(city=Rome)]<|tool_call_end|>"
                      "<|tool_call_start|>[climate()]<|tool_call_end|>"
                      "<|tool_call_start|>[weather(\"Bonn\"), weather(city='Rome')]<|tool_call_end|>"
                      "<|tool_call_start|>[weather(city='Rom"}}},
    {"sections of calls with ids, as Kimi K2 writes them",
     "<|tool_calls_section_begin|>",
     "",
     "I look.<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>"
     "{\"city\": "
     "\"Rome\"}<|tool_call_end|><|tool_call_begin|>functions.weather:1<|tool_call_argument_begin|>{}"
     "<|tool_call_end|><|tool_calls_section_end|>",
     {{Kind::content, "I look."},
      {Kind::call, R"({"city":"Rome"})", "weather", "functions.weather:0"},
      {Kind::call, "{}", "weather", "functions.weather:1"}}},
    {"such a section with a call that nobody offered, and one without its arguments",
     "<|tool_calls_section_begin|>",
     "",
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_end|><|tool_call_begin|>"
     "functions.b:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>"
     "<|tool_calls_section_begin|><|tool_call_begin|>climate:0<|tool_call_argument_begin|>{}<|tool_call_end|>"
     "<|tool_calls_section_end|>",
     {{Kind::content, "<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_end|><|"
                      "tool_call_begin|>"
                      "functions.b:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>"
                      "<|tool_calls_section_begin|><|tool_call_begin|>climate:0<|tool_call_argument_begin|>{}"
                      "<|tool_call_end|>"
                      "<|tool_calls_section_end|>"}}},
    {"such a section, cut off",
     "<|tool_calls_section_begin|>",
     "",
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>{\"city",
     {{Kind::content, "<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0"
                      "<|tool_call_argument_begin|>{\"city"}}},
    {"a name, then arguments, as Mistral writes them",
     "[TOOL_CALLS] [CALL_ID] [ARGS]",
     "",
     "I look.[TOOL_CALLS]weather[ARGS]{\"city\": \"Rome\"}[TOOL_CALLS]weather[CALL_ID]abcdefghi[ARGS]{}",
     {{Kind::content, "I look."},
      {Kind::call, R"({"city":"Rome"})", "weather"},
      {Kind::call, "{}", "weather"}}},
    {"the second of them cut off",
     "[TOOL_CALLS] [ARGS]",
     "",
     "[TOOL_CALLS]weather[ARGS]{}[TOOL_CALLS]weather",
     {{Kind::call, "{}", "weather"}, {Kind::content, "[TOOL_CALLS]weather"}}},
    {"DeepSeek V3.1, behind a thought",
     "</think> <｜tool▁calls▁begin｜>",
     "<think>",
     "Hm.</think>I look.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{\"city\": \"Rome\"}"
     "<｜tool▁call▁end｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     {{Kind::thought, "Hm."},
      {Kind::content, "I look."},
      {Kind::call, R"({"city":"Rome"})", "weather"},
      {Kind::call, "{}", "weather"}}},
    {"DeepSeek V3 and R1",
     "<｜tool▁calls▁begin｜>",
     "",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n{\"city\": "
     "\"Rome\"}\n"
     "```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     {{Kind::call, R"({"city":"Rome"})", "weather"}}},
    {"its arguments no object",
     "<｜tool▁calls▁begin｜>",
     "",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>3<｜tool▁call▁end｜><"
     "｜tool▁calls▁end｜>",
     {{Kind::content, "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>3<｜tool▁call▁end｜>"
                      "<｜tool▁calls▁end｜>"}}},
    {"and else an answer", "[TOOL_CALLS]", "", "{\"city\": 3}", {{Kind::content, "{\"city\": 3}"}}},
};

Json chat(const char* more) {
    Json body = Json::parse(R"({"messages":[{"role":"user","content":"Hi"}]})");
    body.update(Json::parse(more));
    return body;
}

}  // namespace

TEST_CASE("serve: thoughts and calls are told from an answer, in pieces of any size") {
    for (const PartsCase& each : parts_cases)
        for (const size_t size : {size_t(1), size_t(2), size_t(3), size_t(7), size_t(1000)}) {
            const ReplyForm form = reply_form(each.chat_template, each.prompt, weather_tools());
            const std::vector<ReplyPart> got = parts_of(form, each.text, size);
            CHECK_MESSAGE(got == each.parts, std::string(each.what) << ", by " << size);
        }
    // Without tools nothing is a call.
    const ReplyForm form = reply_form(marked_template, "", nullptr);
    CHECK(parts_of(form, "<tool_call>{}</tool_call>", 5).front().text == "<tool_call>{}</tool_call>");
}

TEST_CASE("serve: long calls take no longer than as many bytes of other kinds") {
    const struct {
        std::string_view chat_template, begin, piece, end;
    } cases[] = {
        {marked_template, "<tool_call>{\"name\":\"weather\",\"arguments\":{\"city\":\"", "rain",
         "\"}}</tool_call>"},
        {"[TOOL_CALLS]", "[{\"name\":\"weather\",\"arguments\":{\"city\":\"", "rain", "\"}}]"},
        {"[TOOL_CALLS]", "", " \n \n", "[{\"name\":\"weather\",\"arguments\":{\"city\":\"Rome\"}}]"},
        {"<|channel|> <|message|>", "<|channel|>commentary to=functions.weather<|message|>", "rain",
         "<|call|>"},
        {"<|channel|> <|message|>", "<|channel|>", "rain", "to=functions.weather<|message|>{}<|call|>"}};
    for (const auto& each : cases) {
        CAPTURE(each.begin);
        CAPTURE(each.piece);
        const auto start = std::chrono::steady_clock::now();
        ReplyParts parts(reply_form(each.chat_template, "", weather_tools()));
        CHECK(parts.push(each.begin).empty());
        for (int i = 0; i < 500'000; ++i) CHECK_UNARY(parts.push(each.piece).empty());
        std::vector<ReplyPart> got = parts.push(each.end);
        if (got.empty()) got = parts.finish();
        REQUIRE(got.size() == 1);
        CHECK(got[0].name == "weather");
        CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));  // else a minute
    }
}

TEST_CASE("serve: templates are told of earlier calls in the form that they show" * test::needs_fixtures()) {
    const auto form_of = [](const std::string& name) {
        return call_form(ChatTemplate(read_file(test::fixtures() + "/templates/" + name + ".jinja")));
    };
    CHECK(form_of("deepseek-ai-DeepSeek-R1-Distill-Llama-8B") == CallForm{true, true});
    for (const char* usual : {"Qwen-Qwen3-0.6B", "Qwen3-Coder", "meta-llama-Llama-3.1-8B-Instruct", "GLM-4.6",
                              "deepseek-ai-DeepSeek-V3.1", "Mistral-Small-3.2-24B-Instruct-2506",
                              "openai-gpt-oss-120b", "HuggingFaceTB-SmolLM2-135M-Instruct"})
        CHECK_MESSAGE(form_of(usual) == CallForm{}, usual);
    // A text is concatenated; an empty content would be an answer of its own.
    CHECK(call_form(
              ChatTemplate("{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function.name + "
                           "c.function.arguments }}{% endfor %}{% if m.content is not none %}[{{ m.content "
                           "}}]{% endif %}{% endfor %}")) == CallForm{true, true});

    const Json said = Json::parse(R"([{"role":"assistant","content":"","tool_calls":[
        {"id":"1","type":"function","function":{"name":"weather","arguments":"{\"city\": \"Rome\"}"}},
        {"id":"2","type":"function","function":{"name":"weather","arguments":"Rome"}},{"id":"3"}]},
        {"role":"assistant","content":""}])");
    for (const CallForm form : {CallForm{false, false}, CallForm{false, true}, CallForm{true, true}}) {
        Json messages = said;
        shape_calls(messages, form);
        const Json& calls = messages[0]["tool_calls"];
        CHECK(messages[0]["content"].is_null() == form.null_content);
        CHECK(messages[1]["content"] == "");
        CHECK(calls[0]["function"]["arguments"].is_object() != form.text_arguments);
        CHECK(calls[1]["function"]["arguments"] == "Rome");
        shape_calls(messages, {true, false});
        CHECK(calls[0]["function"]["arguments"] ==
              (form.text_arguments ? R"({"city": "Rome"})" : R"({"city":"Rome"})"));
    }
}

TEST_CASE("serve: who may ask") {
    const GuardRules rules{.key = "k", .hosts = {"box.lan"}, .origins = {"https://app.example"}};
    const auto status = [&](const char* host, const char* origin, const char* key) {
        const std::optional<Refusal> refusal =
            refuse(rules, {.host = host, .origin = origin, .authorization = key});
        return refusal ? refusal->status : 200;
    };
    for (const char* host : {"localhost", "LOCALHOST:80", "127.0.0.1:8080", "[::1]:8080", "[::1]",
                             "192.168.1.2:1", "box.lan:8080"})
        CHECK_MESSAGE(status(host, "", "Bearer k") == 200, host);
    for (const char* host :
         {"", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "box.lan.evil", ":80"})
        CHECK_MESSAGE(status(host, "", "Bearer k") == 403, host);
    CHECK(status("localhost:1", "http://localhost:1", "Bearer k") == 200);
    CHECK(status("localhost:1", "http://localhost:2", "Bearer k") == 403);
    CHECK(status("localhost", "https://app.example", "Bearer k") == 200);
    CHECK(status("localhost", "https://app.example.evil", "Bearer k") == 403);
    for (const char* key : {"", "k", "Bearer", "Bearer ", "Bearer kk", "bearer k"})
        CHECK(status("localhost", "", key) == 401);
}

TEST_CASE("serve: a request is read as clients write it") {
    AnswerDefaults defaults;
    defaults.options.sampling.temperature = 0.7f;
    const ChatRequest usual = parse_chat(
        chat(R"({"temperature":null,"user":"me","stream_options":{"include_usage":true},"max_tokens":5,
        "max_completion_tokens":7,"top_k":3,"logit_bias":{"5":-100},"seed":-1,"n":2,"stop":"end"})"),
        defaults, 100);
    REQUIRE(usual.answers.size() == 2);
    const GenerateOptions& options = usual.answers.back();
    CHECK(options.sampling.temperature == 0.7f);
    CHECK(options.max_tokens == 7);
    CHECK(options.sampling.top_k == 3);
    CHECK(options.sampling.logit_bias.front().token == 5);
    CHECK(options.sampling.seed == 0);  // -1 as 64 bits, and one more
    CHECK(options.stop == std::vector<std::string>{"end"});
    CHECK(usual.usage_at_end);

    const ChatRequest unlimited =
        parse_chat(chat(R"({"max_tokens":-1,"top_k":-1,"top_p":0})"), defaults, 100);
    CHECK(unlimited.answers.front().max_tokens == 0);
    CHECK(unlimited.answers.front().sampling.top_k == 0);
    CHECK(unlimited.answers.front().sampling.top_p > 0);

    // Assistants that only call have no content.
    const ChatRequest history = parse_chat(
        chat(R"({"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function",
        "function":{"name":"weather","arguments":"{\"city\":\"Rome\"}"}}]},{"role":"tool","tool_call_id":"1","content":"rain"}],
        "chat_template_kwargs":{"enable_thinking":false},"reasoning_effort":"low"})"),
        defaults, 100);
    CHECK(history.conversation.messages[0]["content"] == "");
    CHECK(history.conversation.variables.dump() == R"({"enable_thinking":false,"reasoning_effort":"low"})");

    const ChatRequest refused = parse_chat(
        chat(
            R"({"messages":[{"role":"assistant","content":[{"type":"refusal","refusal":"No"},{"type":"text","text":"."}]}]})"),
        defaults, 100);
    CHECK(refused.conversation.messages[0]["content"] == "No.");

    Json tools = chat("{}");
    tools["tools"] = weather_tools();
    CHECK(parse_chat(tools, defaults, 100).conversation.tools.size() == 1);
    tools["tool_choice"] = "none";
    CHECK(parse_chat(tools, defaults, 100).conversation.tools.is_null());
    tools["tool_choice"] = Json::parse(R"({"type":"function","function":{"name":"weather"}})");
    CHECK(parse_chat(tools, defaults, 100).must_call == "weather");
    tools["tools"].push_back({{"type", "function"}, {"function", {{"name", "time"}}}});
    for (const auto& [mode, must_call] : {std::pair("auto", ""), {"required", "*"}}) {
        tools["tool_choice"] = Json::parse(
            R"({"type":"allowed_tools","allowed_tools":{"tools":[{"type":"function","function":{"name":"time"}}]}})");
        tools["tool_choice"]["allowed_tools"]["mode"] = mode;
        const ChatRequest allowed = parse_chat(tools, defaults, 100);
        CHECK(allowed.conversation.tools.dump() == R"([{"type":"function","function":{"name":"time"}}])");
        CHECK(allowed.must_call == must_call);
    }
    CHECK_THROWS_AS(call_grammar(weather_tools(), "other", reply_form(marked_template, "", weather_tools())),
                    Error);
    CHECK_THROWS_AS(call_grammar(weather_tools(), "*", reply_form("plain", "", weather_tools())), Error);
    Json referring = weather_tools();
    referring[0]["function"]["parameters"] =
        Json::parse(R"({"type":"object","properties":{"at":{"$ref":"#/$defs/place"}},
        "$defs":{"place":{"type":"string"}}})");
    for (const Json& offered : {weather_tools(), referring})
        CHECK(
            grammar::Program(call_grammar(offered, "*", reply_form(marked_template, "", offered))).states() >
            0);
    for (
        const char* bad :
        {R"({"seed":1.5})", R"({"stream":1})", R"({"logprobs":true,"top_logprobs":21})",
         R"({"max_tokens":-2})", R"({"repeat_last_n":-1})", R"({"chat_template":"x"})",
         R"({"continue_final_message":true})", R"({"logit_bias":{"x":1}})", R"({"grammar":"root ::= ("})",
         R"({"tools":3})", R"({"tools":[3]})", R"({"tools":[{"type":"function","function":{}}]})",
         R"({"tools":[],"tool_choice":"required"})",
         R"({"tools":[{"function":{"name":"f"}}],"tool_choice":{"allowed_tools":{"mode":"auto","tools":[{"function":{"name":"g"}}]}}})",
         R"({"tools":[{"function":{"name":"f"}}],"tool_choice":{"allowed_tools":{"mode":"auto","tools":[{"function":[1]}]}}})",
         R"({"stream_options":[]})"})
        CHECK_THROWS_AS(parse_chat(chat(bad), defaults, 100), Error);
}

TEST_CASE("serve: items of a response's input are messages") {
    const ResponseRequest request = parse_response(
        Json::parse(R"({"instructions":"Be brief.","input":[{"role":"developer","content":"In verse."},
        {"type":"message","role":"user","content":[{"type":"input_text","text":"Rain "},{"type":"input_text","text":"in Rome?"}]},
        {"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"Hm."}]},
        {"type":"reasoning","id":"rs_2","summary":[{"type":"summary_text","text":"So."}]},
        {"type":"message","role":"assistant","id":"msg_1","status":"completed","content":[{"type":"output_text","text":"I look.","annotations":[]}]},
        {"type":"function_call","call_id":"1","name":"weather","arguments":"{\"city\":\"Rome\"}"},
        {"type":"function_call","call_id":"2","name":"weather","arguments":"{}"},
        {"type":"function_call_output","call_id":"1","output":[{"type":"input_text","text":"dry"}]},
        {"type":"function_call_output","call_id":"2","output":"wet"}],
        "tools":[{"type":"function","name":"weather","strict":true,"parameters":{"type":"object"}}],
        "tool_choice":{"type":"function","name":"weather"},"max_output_tokens":9,"reasoning":{"effort":"low"},
        "top_k":3,"metadata":{"a":"b"}})"),
        {}, 100);
    CHECK(request.conversation.messages ==
          Json::parse(R"([{"role":"system","content":"Be brief.\n\nIn verse."},
        {"role":"user","content":"Rain in Rome?"},
        {"role":"assistant","content":"I look.","reasoning_content":"Hm.\n\nSo.","tool_calls":[
            {"id":"1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Rome\"}"}},
            {"id":"2","type":"function","function":{"name":"weather","arguments":"{}"}}],"thinking":"Hm.\n\nSo."},
        {"role":"tool","tool_call_id":"1","content":"dry"},{"role":"tool","tool_call_id":"2","content":"wet"}])"));
    CHECK(request.conversation.tools.dump() ==
          R"([{"type":"function","function":{"name":"weather","parameters":{"type":"object"}}}])");
    CHECK(request.must_call == "weather");
    CHECK(request.answers.front().max_tokens == 9);
    CHECK(request.answers.front().sampling.top_k == 3);
    CHECK(request.conversation.variables["reasoning_effort"] == "low");
    CHECK(request.shown["metadata"]["a"] == "b");
}

TEST_CASE("serve: a format holds behind the thought that a prompt began") {
    const auto program = std::make_shared<const grammar::Program>(
        behind_thought(grammar::parse_gbnf("root ::= \"yes\" | \"(\" root \")\""), "</think>"));
    const auto fits = [&](std::string_view text) {
        grammar::Matcher matcher(program);
        grammar::Matcher::State state = matcher.start();
        for (const char c : text) state = matcher.next(state, uint8_t(c));
        return matcher.accepts(state);
    };
    for (const char* good : {"</think>yes", "Hm.\n</think>\n\n(yes)", "a < b </thin </</think>yes",
                             "yes <think> \u00e9\U0001F600</think>yes"})
        CHECK_MESSAGE(fits(good), good);
    for (const char* bad :
         {"yes", "Hm.</think>", "Hm.</think>no", "Hm.</think>yes</think>yes", "</think>\n\n\nyes"})
        CHECK_MESSAGE(!fits(bad), bad);
}
