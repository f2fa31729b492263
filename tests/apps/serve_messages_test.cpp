// The Messages API: what its requests ask for, and the forms that answers and errors come in.
#include "messages.h"
#include "server.h"
#include "tiny_model.h"

#include <sstream>

using namespace scoria::test;

namespace messages_test {
using scoria::Error;
using scoria::server::ChatRequest;
using Body = scoria::server::Json;

ChatRequest parsed(const char* more) {
    Body body = Body::parse(R"({"max_tokens":9,"messages":[{"role":"user","content":"a"}]})");
    body.update(Body::parse(more));
    return scoria::server::parse_messages(body, {}, 100);
}

TEST_CASE("serve: blocks of turns are messages, and what else a request asks for is that of a chat") {
    const ChatRequest request =
        parsed(R"({"system":[{"type":"text","text":"Be brief."},{"type":"text","text":"In verse."}],
        "messages":[{"role":"user","content":"Rain?"},{"role":"user","content":[{"type":"text","text":"In Rome."}]},
        {"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":""},{"type":"redacted_thinking","data":"x"},
            {"type":"text","text":"I look."},{"type":"tool_use","id":"1","name":"weather","input":{"city":"Rome"}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":[{"type":"text","text":"dry"}]},
            {"type":"tool_result","tool_use_id":"2"},{"type":"text","text":"So?","cache_control":{"type":"ephemeral"}}]}],
        "tools":[{"name":"weather","description":"w","input_schema":{"type":"object"},"cache_control":null}],
        "tool_choice":{"type":"tool","name":"weather","disable_parallel_tool_use":true},
        "stop_sequences":["end"],"top_k":3,"thinking":{"type":"enabled","budget_tokens":1024},
        "output_config":{"effort":"low"},"metadata":{"user_id":"a"}})");
    CHECK(request.conversation.messages == Body::parse(R"([{"role":"system","content":"Be brief.\nIn verse."},
        {"role":"user","content":"Rain?\nIn Rome."},
        {"role":"assistant","content":"I look.","reasoning_content":"Hm.","tool_calls":[
            {"id":"1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Rome\"}"}}],"thinking":"Hm."},
        {"role":"tool","tool_call_id":"1","content":"dry"},{"role":"tool","tool_call_id":"2","content":""},
        {"role":"user","content":"So?"}])"));
    CHECK(
        request.conversation.tools.dump() ==
        R"([{"type":"function","function":{"name":"weather","description":"w","parameters":{"type":"object"}}}])");
    CHECK(request.conversation.variables.dump() ==
          R"({"enable_thinking":true,"thinking":true,"reasoning_effort":"low"})");
    CHECK(request.must_call == "weather");
    const scoria::GenerateOptions& options = request.answers.front();
    CHECK(options.max_tokens == 9);
    CHECK(options.sampling.top_k == 3);
    CHECK(options.stop == std::vector<std::string>{"end"});
    CHECK(parsed("{}").conversation.variables.empty());
    CHECK(parsed(R"({"thinking":{"type":"disabled"},"chat_template_kwargs":{"thinking":true}})")
              .conversation.variables.dump() == R"({"enable_thinking":false,"thinking":true})");
    CHECK(parsed(R"({"output_config":{"format":{"type":"json_schema","schema":{"type":"null"}}}})").format);
}

TEST_CASE("serve: what the Messages API has and this server has not is refused, by name") {
    const std::pair<const char*, const char*> wrong[] = {
        {R"({"messages":[]})", "messages"},
        {R"({"messages":[{"role":"tool","content":"a"}]})", "role"},
        {R"({"messages":[{"role":"user"}]})", "content"},
        {R"({"messages":[{"role":"user","content":[{"type":"image"}]}]})", "image"},
        {R"({"messages":[{"role":"user","content":[{"text":"a"}]}]})", "type"},
        {R"({"messages":[{"role":"user","content":[{"type":"tool_result"}]}]})", "tool_use_id"},
        {R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]})",
         "last message"},
        {R"({"system":3})", "system"},
        {R"({"tools":[{"type":"web_search_20250305","name":"web_search"}]})", "web_search"},
        {R"({"tools":[{}]})", "name"},
        {R"({"tool_choice":"any"})", "tool_choice"},
        {R"({"mcp_servers":[{"name":"a"}]})", "mcp_servers"},
        {R"({"thinking":true})", "thinking"},
        {R"({"stop_sequences":"end"})", "stop_sequences"},
        {R"({"output_config":{"format":{"type":"json_schema"}}})", "schema"},
        {R"({"max_tokens":0})", "max_tokens"},
    };
    for (const auto& [more, name] : wrong) {
        CAPTURE(more);
        std::string what;
        try {
            parsed(more);
        } catch (const Error& error) {
            what = error.what();
        }
        CHECK_MESSAGE(what.find(name) != std::string::npos, what);
    }
}

/// What a stream tells of, in order: its events, each once where several of a kind follow each other, and the
/// message that they add up to.
struct Streamed {
    std::string types;
    Json message;
};
Streamed streamed(const Server& server, Json body) {
    body["stream"] = true;
    const auto response = server.client().Post("/v1/messages", body.dump(), "application/json");
    REQUIRE(response);
    Streamed all;
    std::istringstream lines(response->body);
    for (std::string line, type, before; std::getline(lines, line);) {
        if (line.starts_with("event: ")) type = line.substr(7);
        if (!line.starts_with("data: ")) continue;
        const Json event = Json::parse(line.substr(6));
        CHECK(event["type"] == type);
        if (type != before) all.types += (before.empty() ? "" : " ") + type;
        before = type;
        if (type == "message_start") all.message = event["message"];
        if (type == "content_block_start") {
            CHECK(event["index"] == all.message["content"].size());
            all.message["content"].push_back(event["content_block"]);
        }
        if (type == "content_block_delta") {
            Json& block = all.message["content"][event["index"].get<size_t>()];
            const Json& delta = event["delta"];
            if (delta["type"] == "input_json_delta")
                block["input"] = Json::parse(delta["partial_json"].get<std::string>());
            for (const char* key : {"text", "thinking"})
                if (delta["type"] == std::string(key) + "_delta")
                    block[key] = block[key].get<std::string>() + delta[key].get<std::string>();
        }
        if (type == "message_delta") {
            all.message.update(event["delta"]);
            all.message["usage"].update(event["usage"]);
        }
    }
    return all;
}

TEST_CASE("serve: messages, whole and as events" * needs_fixtures()) {
    const ScratchFolder folder;
    const std::string model = folder.path("model.gguf");
    write_with_template(model, "{% for m in messages %}{{ m.role }}:{{ m.content }}\n{% endfor %}"
                               "{# <tool_call> </tool_call> #}{% if enable_thinking %}<think>\n{% endif %}");
    const Server server({"-m", model, "--alias", "small"});
    Json body = Json::parse(
        R"({"model":"any","max_tokens":170,"temperature":0,"messages":[{"role":"user","content":"a"}]})");
    const auto both = [&] {
        const Server::Result whole = server.post("messages", body);
        REQUIRE_MESSAGE(whole.status == 200, whole.json.dump());
        Streamed events = streamed(server, body);
        const Json message = whole.json;
        // Names are new each time, and of the second the prompt may be known.
        events.message["id"] = message["id"];
        events.message["usage"] = message["usage"];
        for (size_t i = 0; i < message["content"].size(); ++i)
            if (message["content"][i].contains("id"))
                events.message["content"][i]["id"] = message["content"][i]["id"];
        CHECK(events.message == message);
        return std::pair(message, events.types);
    };
    SUBCASE("a call") {
        body["tools"] = Json::parse(R"([{"name":"f","input_schema":{"type":"object","properties":
            {"x":{"enum":["yes"]}},"required":["x"],"additionalProperties":false}}])");
        body["tool_choice"] = {{"type", "any"}};
        const auto [message, types] = both();
        CHECK(message["model"] == "small");
        CHECK(message["stop_reason"] == "tool_use");
        REQUIRE(message["content"].size() == 1);
        CHECK(message["content"][0]["type"] == "tool_use");
        CHECK(message["content"][0]["name"] == "f");
        CHECK(message["content"][0]["input"] == Json{{"x", "yes"}});
        CHECK(types ==
              "message_start content_block_start content_block_delta content_block_stop message_delta "
              "message_stop");
    }
    SUBCASE("a thought that is cut off") {
        body.update({{"thinking", {{"type", "adaptive"}}}, {"max_tokens", 5}});
        const Json message = both().first;
        CHECK(message["stop_reason"] == "max_tokens");
        REQUIRE(message["content"].size() == 1);
        CHECK(message["content"][0]["type"] == "thinking");
        CHECK(message["usage"]["output_tokens"] == 5);
        CHECK(message["usage"]["output_tokens_details"]["thinking_tokens"] == 5);
    }
    SUBCASE("a thought, then a text that a stop text ends") {
        body["grammar"] = R"(root ::= "<think>Hm</think>" "Yes and no")";
        body["stop_sequences"] = {"or", " and"};
        const Json message = both().first;
        CHECK(message["stop_reason"] == "stop_sequence");
        CHECK(message["stop_sequence"] == " and");
        REQUIRE(message["content"].size() == 2);
        CHECK(message["content"][0]["thinking"] == "Hm");
        CHECK(message["content"][1]["text"] == "Yes");
    }
    SUBCASE("tokens are counted, and errors have this API's form") {
        const Server::Result counted = server.post("messages/count_tokens", body);
        const Json usage = server.post("messages", body).json["usage"];
        CHECK(counted.json["input_tokens"] ==
              usage["input_tokens"].get<int>() + usage["cache_read_input_tokens"].get<int>());
        body["messages"][0]["role"] = "other";
        for (const char* path : {"messages", "messages/count_tokens"}) {
            const Server::Result refused = server.post(path, body);
            CHECK(refused.status == 400);
            CHECK(refused.json["type"] == "error");
            CHECK(refused.json["error"]["type"] == "invalid_request_error");
        }
    }
}

TEST_CASE("serve: the Messages API's clients give their key in a header of their own" * needs_fixtures()) {
    const Server server({"-m", tiny_model()}, {{"SCORIA_API_KEY", "secret"}});
    CHECK(server.get("/metrics", {{"X-Api-Key", "secret"}}) == 200);
    CHECK(server.get("/metrics", {{"X-Api-Key", "secre"}}) == 401);
    CHECK(server.get("/metrics", {{"X-Api-Key", "secret"}, {"Authorization", "Bearer other"}}) == 401);
    const Server::Result refused = server.post("messages", "{}", {{"X-Api-Key", "other"}});
    CHECK(refused.status == 401);
    CHECK(refused.json["error"]["type"] == "authentication_error");
}

}  // namespace messages_test
