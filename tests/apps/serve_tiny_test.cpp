// serve with a model so small that what it says means nothing: the forms that answers come in, counters, and
// speculation. Grammars make it say what a form is about.
#include "server.h"
#include "support/made_folder.h"
#include "tiny_model.h"

#include <fstream>
#include <future>
#include <sstream>

using namespace scoria::test;

namespace {

const std::string tiny = tiny_model();

constexpr const char* chat_template =
    "{% for m in messages %}{{ m.role }}:{{ m.content }}\n{% endfor %}{# <tool_call> </tool_call> #}"
    "{% if think %}<think>\n{% endif %}";

}  // namespace

TEST_CASE("serve: guesses change no answer, and answers, n of a request too, take turns" * needs_fixtures()) {
    const Json ask{{"prompt", "xyxyxyxy"}, {"max_tokens", 24}, {"n", 2}, {"temperature", 0.2}, {"seed", 7}};
    const auto texts = [&](const Server& server) {
        const Server::Result result = server.post("completions", ask);
        REQUIRE_MESSAGE(result.status == 200, result.json.dump());
        CHECK(result.json["usage"]["completion_tokens"] == 48);
        return std::pair(result.json["choices"][0]["text"], result.json["choices"][1]["text"]);
    };
    std::pair<Json, Json> plain;
    {
        const Server server({"-m", tiny, "--deterministic", "--parallel", "2"}, {{"SCORIA_API_KEY", "key"}});
        CHECK(server.get("/metrics", {}) == 401);
    }
    {
        const Server server({"-m", tiny, "--deterministic", "--parallel", "2"});
        plain = texts(server);
        CHECK(becomes(server, "requests_total{outcome=\"answered\"}", 1));
        CHECK(value_of(server, "generated_tokens_total") == 48);
        CHECK(value_of(server, "guessed_tokens_total") == 0);
        CHECK(value_of(server, "answers_running") == 0);
        CHECK(server.post("completions", Json{{"prompt", 3}}).status == 400);
        CHECK(server.get("/nowhere", {}) == 404);
        CHECK(becomes(server, "requests_total{outcome=\"refused\"}", 2));
    }
    Server server({"-m", tiny, "--deterministic", "--parallel", "4", "--draft", tiny, "--draft-tokens", "5"});
    CHECK(texts(server) == plain);
    CHECK(value_of(server, "prompt_tokens_total") > 8);
    CHECK(value_of(server, "prompt_seconds_total") > 0);
    CHECK(value_of(server, "generation_seconds_total") > 0);
    CHECK(value_of(server, "accepted_tokens_total") > 10);
    // Answers that take turns wait for many others'.
    const auto seconds = [&] {
        return std::pair(value_of(server, "prompt_seconds_total"),
                         value_of(server, "generation_seconds_total"));
    };
    const auto before = seconds();
    Json many = ask;
    many["n"] = 12;
    CHECK(server.post("completions", many).status == 200);
    CHECK(becomes(server, "answers_running", 0));
    CHECK(seconds().first - before.first < seconds().second - before.second);
    const double prompts = value_of(server, "prompt_tokens_total");
    // A client that leaves ends its answers, the one that waits for its turn, too.
    httplib::Request request;
    request.method = "POST";
    request.path = "/v1/completions";
    request.body = R"({"prompt":"xyxy","n":16,"stream":true,"ignore_eos":true})";
    request.content_receiver = [](const char*, size_t, uint64_t, uint64_t) { return false; };
    (void)server.client().send(request);
    for (int i = 0; i < 600 && value_of(server, "answers_running") + value_of(server, "answers_waiting") > 0;
         ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    CHECK(becomes(server, "requests_total{outcome=\"cancelled\"}", 1));
    CHECK(value_of(server, "prompt_tokens_total") < prompts + 16 * 4);
    CHECK(texts(server) == plain);
}

TEST_CASE("serve: a model out of Ollama's store has its name there" * needs_fixtures()) {
    const ScratchFolder folder;
    const std::string manifests = folder.path("manifests/registry.ollama.ai/library/small");
    std::filesystem::create_directories(manifests);
    std::filesystem::create_directories(folder.path("blobs"));
    std::filesystem::copy_file(tiny, folder.path("blobs/sha256-01"));
    std::ofstream(manifests + "/latest")
        << R"({"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:01"}]})";
    const Server server({"-m", "small"}, {{"OLLAMA_MODELS", folder.path()}});
    const auto models = server.client().Get("/v1/models");
    REQUIRE(models);
    CHECK(Json::parse(models->body)["data"][0]["id"] == "small");
}

TEST_CASE("serve: responses, whole and as events" * needs_fixtures()) {
    const ScratchFolder folder;
    const std::string model = folder.path("model.gguf");
    write_with_template(model, chat_template);
    const Server server({"-m", model, "--alias", "small"});
    Json body = Json::parse(R"({"input":"a","max_output_tokens":170,"temperature":0,"store":true,
        "tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":
            {"x":{"enum":["yes"]}},"required":["x"],"additionalProperties":false}}],"tool_choice":"required"})");
    const auto items = [&](const Json& response) {
        std::string all;
        for (const Json& item : response["output"]) all += item["type"].get<std::string>() + " ";
        return all;
    };
    const auto streamed = [&](Json asked) {
        asked["stream"] = true;
        const auto response = server.client().Post("/v1/responses", asked.dump(), "application/json");
        REQUIRE(response);
        std::vector<Json> all;
        std::istringstream lines(response->body);
        for (std::string line, type; std::getline(lines, line);) {
            if (line.starts_with("event: ")) type = line.substr(7);
            if (!line.starts_with("data: ")) continue;
            all.push_back(Json::parse(line.substr(6)));
            CHECK(all.back()["type"] == type);
            CHECK(all.back()["sequence_number"] == all.size() - 1);
        }
        return all;
    };
    SUBCASE("a call") {
        const Server::Result whole = server.post("responses", body);
        REQUIRE_MESSAGE(whole.status == 200, whole.json.dump());
        CHECK(whole.json["object"] == "response");
        CHECK(whole.json["status"] == "completed");
        CHECK(whole.json["store"] == false);
        CHECK(whole.json["tools"] == body["tools"]);
        REQUIRE(items(whole.json) == "function_call ");
        CHECK(whole.json["output"][0]["name"] == "f");
        CHECK(whole.json["output"][0]["arguments"] == R"({"x":"yes"})");
        CHECK(whole.json["usage"]["total_tokens"] == whole.json["usage"]["input_tokens"].get<int>() +
                                                         whole.json["usage"]["output_tokens"].get<int>());
        std::string types;
        for (const Json& event : streamed(body)) types += event["type"].get<std::string>() + " ";
        CHECK(types == "response.created response.in_progress response.output_item.added "
                       "response.function_call_arguments.delta response.function_call_arguments.done "
                       "response.output_item.done response.completed ");
    }
    body.erase("tools");
    body.erase("tool_choice");
    SUBCASE("a message in a format, with log-probabilities") {
        body["text"] =
            Json::parse(R"({"format":{"type":"json_schema","name":"n","schema":{"enum":["yes"]}}})");
        body.update({{"include", {"message.output_text.logprobs"}}, {"top_logprobs", 1}});
        const std::vector<Json> all = streamed(body);
        std::string text, types;
        size_t tokens = 0;
        for (const Json& event : all) {
            if (event["type"] != "response.output_text.delta") {
                types += event["type"].get<std::string>() + " ";
                continue;
            }
            text += event["delta"].get<std::string>();
            tokens += event["logprobs"].size();
        }
        CHECK(text == "\"yes\"");
        CHECK(types == "response.created response.in_progress response.output_item.added "
                       "response.content_part.added response.output_text.done response.content_part.done "
                       "response.output_item.done response.completed ");
        const Json& response = all.back()["response"];
        CHECK(response["output"][0]["content"][0]["text"] == text);
        CHECK(response["output"][0]["content"][0]["logprobs"].size() == tokens);
        CHECK(tokens > 0);
    }
    SUBCASE("a call has log-probabilities of its own") {
        body["grammar"] = R"(root ::= "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>ok")";
        body["tools"] = Json::parse(R"([{"type":"function","name":"f"}])");
        body["include"] = {"message.output_text.logprobs"};
        const Server::Result whole = server.post("responses", body);
        REQUIRE_MESSAGE(whole.status == 200, whole.json.dump());
        REQUIRE(items(whole.json) == "function_call message ");
        std::string text;
        for (const Json& token : whole.json["output"][1]["content"][0]["logprobs"])
            text += token["token"].get<std::string>();
        CHECK(text == "ok");
    }
    SUBCASE("a thought that is cut off") {
        body.update({{"chat_template_kwargs", {{"think", true}}}, {"max_output_tokens", 5}});
        // That a format is asked for changes nothing before the thought ends.
        body["text"] = Json::parse(R"({"format":{"type":"json_object"}})");
        const std::vector<Json> all = streamed(body);
        const Json& response = all.back()["response"];
        CHECK(all.back()["type"] == "response.incomplete");
        CHECK(response["incomplete_details"]["reason"] == "max_output_tokens");
        REQUIRE(items(response) == "reasoning ");
        CHECK(response["output"][0]["status"] == "incomplete");
        CHECK(response["output"][0]["content"][0]["type"] == "reasoning_text");
        CHECK(response["usage"]["output_tokens_details"]["reasoning_tokens"] == 5);
    }
    SUBCASE("what cannot be is refused, by name") {
        for (const auto& [more, name] :
             {std::pair(R"({"previous_response_id":"resp_1"})", "previous_response_id"),
              {R"({"background":true})", "background"},
              {R"({"truncation":"auto"})", "truncation"},
              {R"({"tools":[{"type":"web_search"}]})", "web_search"},
              {R"({"include":["file_search_call.results"]})", "file_search"},
              {R"({"n":2})", "n,"},
              {R"({"max_output_tokens":0})", "max_output_tokens"},
              {R"({"tools":[{"type":"function"}]})", "functions with a name"},
              {R"({"input":[]})", "input"},
              {R"({"input":[{"type":"item_reference","id":"msg_1"}]})", "item_reference"},
              {R"({"input":[{"role":"user","content":[{"type":"input_image"}]}]})", "input_image"},
              {R"({"input":[{"type":"function_call","name":"f"}]})", "call_id"},
              {R"({"instructions":3})", "instructions"},
              {R"({"text":{"format":{"type":"json_schema"}}})", "schema"}}) {
            Json bad = body;
            bad.update(Json::parse(more));
            const Server::Result result = server.post("responses", bad);
            CHECK_MESSAGE(result.status == 400, more);
            CHECK_MESSAGE(result.json["error"]["message"].get<std::string>().find(name) != std::string::npos,
                          result.json.dump());
        }
    }
}

TEST_CASE("serve: a model whose calls no grammar can spell, or nobody knows, is made to call by JSON" *
          needs_fixtures()) {
    const ScratchFolder folder;
    const std::string model = folder.path("model.gguf");
    const auto ask = [&](const std::string& more) {
        write_with_template(model, "{% for m in messages %}{{ m.content }}{% endfor %}" + more);
        const Server server({"-m", model});
        return server.post(
            "chat/completions",
            Json::parse(R"({"messages":[{"role":"user","content":"a"}],"max_tokens":170,"temperature":0,
            "tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":
                {"x":{"enum":["yes"]}},"required":["x"],"additionalProperties":false}}}],"tool_choice":"required"})"));
    };
    for (const char* more : {"{# [TOOL_CALLS] [ARGS] #}", "{% if tools %}tools{% endif %}"}) {
        CAPTURE(more);
        const Server::Result result = ask(more);
        REQUIRE_MESSAGE(result.status == 200, result.json.dump());
        const Json& choice = result.json["choices"][0];
        CHECK(choice["finish_reason"] == "tool_calls");
        CHECK(choice["message"]["content"].is_null());
        CHECK(choice["message"]["tool_calls"][0]["function"]["arguments"] == R"({"x":"yes"})");
    }
    const Server::Result blind = ask("");
    CHECK(blind.status == 400);
    CHECK(blind.json["error"]["message"].get<std::string>().find("shows no tools") != std::string::npos);
}

TEST_CASE("serve: HTTP that is odd gets a whole answer or says why not" * needs_fixtures()) {
    const Server server({"-m", tiny});
    const std::string body = R"({"content":"a"})";
    for (const char* range : {"bytes=0-3", "bytes=0-,0-,0-,0-"}) {
        const auto response = server.client().Post("/tokenize", {{"Range", range}}, body, "application/json");
        REQUIRE(response);
        CHECK(response->status == 200);
        CHECK(Json::parse(response->body)["count"] == 1);
    }
    const std::string form = R"({"content":")" + std::string(10'000, 'a') + "\"}";  // curl's type of --data
    const auto refused = server.client().Post("/tokenize", form, "application/x-www-form-urlencoded");
    REQUIRE(refused);
    CHECK(refused->status == 413);
    CHECK(refused->body.find("x-www-form-urlencoded") != std::string::npos);
    CHECK(server.post("/tokenize", form).status == 200);
}

TEST_CASE("serve: every stream ends as its API has it when the server does, but for who does not read" *
          needs_fixtures()) {
    const ScratchFolder folder;
    const std::string model = folder.path("model.gguf");
    write_with_template(model, chat_template);
    {  // so long a context that answers are still under way
        std::fstream file(model, std::ios::in | std::ios::out | std::ios::binary);
        const std::string bytes{std::istreambuf_iterator<char>(file), {}}, key = "llama.context_length";
        const uint32_t context = 8192;
        file.seekp(std::streamoff(bytes.find(key) + key.size() + 4));  // behind the type
        file.write(reinterpret_cast<const char*>(&context), sizeof context);
    }
    Json body = Json::parse(R"({"stream":true,"ignore_eos":true,"temperature":0})");
    const Json chat = Json::parse(R"([{"role":"user","content":"a"}])");
    const struct {
        const char *path, *key;
        Json prompt;
        std::vector<const char*> ends;
    } apis[] = {
        {"completions", "prompt", "xyxy", {"data: [DONE]\n\n", "\"type\":\"server_error\""}},
        {"chat/completions", "messages", chat, {"data: [DONE]\n\n", "\"type\":\"server_error\""}},
        {"responses", "input", "a", {"event: response.cancelled\n", "event: response.failed\n"}},
        {"messages", "messages", chat, {"event: message_stop\n", "event: error\n"}},
    };
    Server server({"-m", model, "--parallel", "24", "--waiting", "40"});
    Json fat = body;
    fat.update({{"prompt", "xyxy"}, {"logprobs", 20}, {"n", 8}});
    Wire blocked(server.port(), 2048);
    blocked.post("completions", fat);
    std::vector<std::unique_ptr<Wire>> clients;
    for (int i = 0; i < 48; ++i) {
        const auto& api = apis[i % std::size(apis)];
        Json asked = body;
        asked[api.key] = api.prompt;
        if (api.path == std::string("messages")) asked["max_tokens"] = 100'000;
        clients.push_back(std::make_unique<Wire>(server.port()));
        clients.back()->post(api.path, asked);
    }
    std::vector<std::future<std::string>> all;
    for (const auto& client : clients)
        all.push_back(std::async(std::launch::async, [&client] { return client->rest(); }));
    REQUIRE(becomes(server, "answers_running", 24));
    CHECK(server.program().interrupt() == 0);  // 137 after ten seconds
    for (size_t i = 0; i < all.size(); ++i) {
        const std::string text = all[i].get();
        CAPTURE(i);
        CAPTURE(text.substr(text.size() - std::min<size_t>(text.size(), 300)));
        CHECK(text.starts_with("HTTP/1.1 200"));
        CHECK(text.ends_with("0\r\n\r\n"));
        CHECK(std::ranges::any_of(apis[i % std::size(apis)].ends,
                                  [&](const char* end) { return text.find(end) != text.npos; }));
    }
}

TEST_CASE("serve: two hundred clients that come at one moment are let in at once" * needs_fixtures()) {
    const Server server({"-m", tiny});
    std::vector<std::unique_ptr<Wire>> clients;
    for (int i = 0; i < 200; ++i) clients.push_back(std::make_unique<Wire>(server.port()));
    for (const auto& client : clients) CHECK(client->sent_again() == 0);  // a SYN is, after a second
    for (const auto& client : clients) CHECK(client->say("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    for (const auto& client : clients) CHECK(client->rest().starts_with("HTTP/1.1 200"));
}

TEST_CASE("serve: a request has a bounded head and body, however it is sent" * needs_fixtures()) {
    const Server server({"-m", tiny});
    const std::string begin = "POST /tokenize HTTP/1.1\r\nHost: localhost\r\n",
                      chunked = "Transfer-Encoding: chunked\r\n\r\n";
    std::string many;
    for (int i = 0; i < 1000; ++i) many += "X-" + std::to_string(i) + ": " + std::string(200, 'a') + "\r\n";
    const std::pair<std::string, int> cases[] = {
        {begin + many + "\r\n", 431},
        {begin + "X: " + std::string(1'000'000, 'a'), 431},
        {begin + chunked + "1000000\r\n" + std::string(9'000'000, 'a'), 413},
        {begin + chunked + "f\r\n{\"content\":\"a\"}\r\n0\r\n\r\n", 200},
        {begin + "Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc", 415},
        {begin + "Content-Length: 10000000\r\n\r\n" + std::string(10'000'000, 'a'), 413},
        {begin + "\r\n", 400},  // no body
    };
    for (const auto& [bytes, status] : cases) {
        CAPTURE(bytes.substr(0, 200));
        Wire client(server.port());
        CHECK(client.say(bytes));
        const std::string all = client.rest();
        CHECK_MESSAGE(all.starts_with("HTTP/1.1 " + std::to_string(status)), all.substr(0, 300));
    }
}

TEST_CASE("serve: a client that leaves ends its embeddings" * needs_fixtures()) {
    const Server server({"-m", tiny});
    const Json many{{"input", std::vector<std::string>(2048, std::string(150, 'a'))}};
    {
        Wire client(server.port());
        client.post("embeddings", many);
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
    }
    CHECK(becomes(server, "requests_total{outcome=\"cancelled\"}", 1));
    CHECK(value_of(server, "requests_total{outcome=\"answered\"}") == 0);
}

TEST_CASE("serve: who is refused while he sends hears why" * needs_fixtures()) {
    const Server server({"-m", tiny}, {{"SCORIA_API_KEY", "secret"}});
    for (int i = 0; i < 5; ++i) {
        Wire client(server.port());
        CHECK(client.say(
            "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4000000\r\n\r\n" +
            std::string(4'000'000, 'a')));
        CHECK(client.rest().starts_with("HTTP/1.1 401"));
    }
}

TEST_CASE("serve: a path asked by another method says which ones it knows" * needs_fixtures()) {
    const Server server({"-m", tiny});
    const struct {
        const char *method, *path;
        int status;
        const char* allow;
    } cases[] = {
        {"GET", "/v1/chat/completions", 405, "POST, OPTIONS"},
        {"HEAD", "/v1/chat/completions", 405, "POST, OPTIONS"},
        {"PUT", "/v1/messages", 405, "POST, OPTIONS"},
        {"DELETE", "/v1/messages/count_tokens", 405, "POST, OPTIONS"},
        {"PATCH", "/v1/models", 405, "GET, HEAD, OPTIONS"},
        {"TRACE", "/v1/models/one", 405, "GET, HEAD, OPTIONS"},
        {"POST", "/health", 405, "GET, HEAD, OPTIONS"},
        {"GET", "/nowhere", 404, ""},
        {"DELETE", "/v1/responses/resp_1", 404, ""},
        {"HEAD", "/health", 200, ""},
        {"OPTIONS", "/v1/chat/completions", 204, ""},
    };
    for (const auto& each : cases) {
        CAPTURE(each.method);
        CAPTURE(each.path);
        httplib::Request request;
        request.method = each.method;
        request.path = each.path;
        const auto response = server.client().send(request);
        REQUIRE(response);
        CHECK(response->status == each.status);
        CHECK(response->get_header_value("Allow") == each.allow);
        if (each.status < 400 || request.method == "HEAD") continue;
        const Json error = Json::parse(response->body);
        CHECK(error["error"]["type"] == "invalid_request_error");
        CHECK(error.contains("type") == request.path.starts_with("/v1/messages"));
    }
}

TEST_CASE("serve: texts and chats as tokens, and back, as clients of llama.cpp and of vLLM ask" *
          needs_fixtures()) {
    const ScratchFolder folder;
    const std::string model = folder.path("model.gguf");
    write_with_template(model, "{% for m in messages %}{{ m.role }}:{{ m.content }}\n{% endfor %}"
                               "{% if tools %}{{ tools | length }} tools\n{% endif %}"
                               "{% if add_generation_prompt %}<s>{% endif %}");
    const Server server({"-m", model});
    const auto ask = [&](const char* path, const char* body) {
        const Server::Result result = server.post(path, std::string(body));
        REQUIRE_MESSAGE(result.status == 200, result.json.dump());
        return result.json;
    };
    const Json plain = ask("/tokenize", R"({"content":"ab <s>"})");
    CHECK(plain["count"] == plain["tokens"].size());
    CHECK(plain["max_model_len"].get<int>() > 0);
    CHECK(plain["tokens"].back() == 1);
    CHECK(ask("/tokenize", R"({"content":"ab <s>","parse_special":false})")["count"] > plain["count"]);
    const Json back = ask("/detokenize", Json{{"tokens", plain["tokens"]}}.dump().c_str());
    CHECK(back["content"] == back["prompt"]);
    CHECK(back["prompt"] == "ab <s>");
    CHECK(ask("/detokenize", R"({"tokens":[]})")["content"] == "");
    const Json piece = ask("/tokenize", R"({"content":"b","with_pieces":true})")["tokens"].back();
    CHECK(piece["piece"] == " b");
    CHECK(piece["id"] == ask("/tokenize", R"({"content":"b"})")["tokens"].back());
    const char* const chat = R"({"messages":[{"role":"user","content":[{"type":"text","text":"a<s>"}]}]})";
    const std::string prompt = ask("/apply-template", chat)["prompt"];
    CHECK(prompt.starts_with("user:a<s>\n<s>"));
    const Json tokens = ask("/tokenize", chat)["tokens"];
    CHECK(std::ranges::count(tokens, Json(1)) == 1);  // the template's own; none that a message spells
    const std::string with_tools = ask(
        "/apply-template",
        R"({"messages":[{"role":"user","content":"a"}],"tools":[{"type":"function","function":{"name":"f"}}],)"
        R"("add_generation_prompt":false})")["prompt"];
    CHECK(with_tools.starts_with("user:a\n1 tools\n"));
    CHECK(with_tools.find("<s>") == std::string::npos);
    for (const auto& [path, body] : {std::pair("/tokenize", R"({"content":3})"),
                                     {"/tokenize", R"({})"},
                                     {"/tokenize", R"({"content":"a","prompt":"a"})"},
                                     {"/tokenize", R"({"content":"a","add_special":1})"},
                                     {"/tokenize", R"({"prompt":"a","return_token_strs":true})"},
                                     {"/tokenize", R"({"messages":[]})"},
                                     {"/detokenize", R"({"tokens":[-1]})"},
                                     {"/detokenize", R"({"tokens":[4000000000]})"},
                                     {"/detokenize", R"({"tokens":[1000000]})"},
                                     {"/detokenize", R"({"tokens":"1"})"},
                                     {"/apply-template", R"({"messages":3})"}})
        CHECK_MESSAGE(server.post(path, std::string(body)).status == 400, body);
    // A model without a template, whose texts have a frame.
    const Server bare({"-m", fixtures() + "/gguf/bert.gguf"});
    CHECK(bare.post("/apply-template", std::string(chat)).status == 400);
    const auto ids = [&](const char* body) {
        return bare.post("/tokenize", std::string(body)).json["tokens"];
    };
    const Json framed = ids(R"({"prompt":"ab"})"), own = ids(R"({"content":"ab"})");
    CHECK(framed.size() == own.size() + 2);
    CHECK(ids(R"({"content":"ab","add_special":true})") == framed);
    CHECK(ids(R"({"prompt":"ab","add_special_tokens":false})") == own);
    CHECK(bare.post("/tokenize", std::string(chat)).status == 400);
}

TEST_CASE("serve: documents are ranked as Jina's API has it") {
    const MadeFolder made("made_rankers.jsonl");
    const Json first = made.pairs()[0], second = made.pairs()[1];  // of one query, and the first the better
    const Server server({"-m", made.path()});
    Json ask{
        {"query", first[0]}, {"documents", {second[1], {{"text", first[1]}}}}, {"return_documents", true}};
    const Server::Result all = server.post("rerank", ask);
    REQUIRE_MESSAGE(all.status == 200, all.json.dump());
    REQUIRE(all.json["results"].size() == 2);
    const Json& best = all.json["results"][0];
    CHECK(best["index"] == 1);
    CHECK(best["document"]["text"] == first[1]);
    CHECK(best["relevance_score"].get<double>() == doctest::Approx(first[3].get<double>()).epsilon(0.01));
    CHECK(all.json["usage"]["total_tokens"] == first[4].size() + second[4].size());
    ask["top_n"] = 1;
    CHECK(server.post("rerank", ask).json["results"].size() == 1);
    const std::pair<const char*, Json> wrong[] = {{"query", 1},
                                                  {"documents", Json::array()},
                                                  {"documents", {1}},
                                                  {"top_n", 0},
                                                  {"prompt_name", "none"}};
    for (const auto& [name, value] : wrong) {
        CAPTURE(name);
        Json body = ask;
        body[name] = value;
        CHECK(server.post("rerank", body).status == 400);
    }
    const Server other({"-m", tiny});
    const Server::Result refused = other.post("rerank", ask);
    CHECK(refused.status == 400);
    CHECK(refused.json["error"]["message"].get<std::string>().find("expected a model made for ranking") !=
          std::string::npos);
}

TEST_CASE("serve: a format holds behind a thought that a control token ends" * needs_fixtures()) {
    const ScratchFolder folder;
    Json body = Json::parse(R"({"messages":[{"role":"user","content":"a"}],"max_tokens":150,"temperature":0,
        "logit_bias":{"1":100},"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"enum":["yes"]}}}})");
    for (const char* control : {"[/THINK]", "<s>"}) {
        const std::string model = folder.path(control[0] == '[' ? "with.gguf" : "without.gguf");
        write_with_template(model, "{{ messages[0].content }}[THINK]{# [/THINK] #}", control);
        const Server server({"-m", model});
        const Server::Result result = server.post("chat/completions", body);
        CHECK(result.status == (control[0] == '[' ? 200 : 400));  // there is no such token
        if (result.status == 200) CHECK(result.json["choices"][0]["message"]["content"] == "\"yes\"");
    }
}
