// serve, by an HTTP client: what the OpenAI API promises, who may ask, and clients that go away.
#include "server.h"

#include <doctest/doctest.h>

#include <future>
#include <thread>

using namespace scoria::test;

namespace {

Json question(const std::string& text, int tokens) {
    return {{"messages", Json::array({{{"role", "user"}, {"content", text}}})},
            {"max_tokens", tokens},
            {"temperature", 0}};
}

std::string content(const Server::Result& result) {
    REQUIRE_MESSAGE(result.status == 200, result.json.dump());
    return result.json["choices"][0]["message"]["content"];
}

}  // namespace

TEST_CASE("serve: chats, completions and embeddings as the OpenAI API has them" *
          doctest::skip(default_model().empty())) {
    const Server server({"--parallel", "4", "--deterministic", "--alias", "small"});
    const Outcome run = run_scoria({"run", "-m", default_model(), "-p", "Name a colour.", "-n", "12",
                                    "--temp", "0", "--deterministic", "--ctx", "2048"});
    REQUIRE(run.code == 0);
    const std::string expected = run.out.substr(0, run.out.size() - 1);

    SUBCASE("a chat, whole and streamed") {
        Json body = question("Name a colour.", 12);
        const Server::Result whole = server.post("chat/completions", body);
        CHECK(content(whole) == expected);
        CHECK(whole.json["model"] == "small");
        CHECK(whole.json["usage"]["total_tokens"] == whole.json["usage"]["prompt_tokens"].get<int>() +
                                                         whole.json["usage"]["completion_tokens"].get<int>());
        body.update({{"stream", true},
                     {"stream_options", {{"include_usage", true}}},
                     {"logprobs", true},
                     {"top_logprobs", 2}});
        const auto response = server.client().Post("/v1/chat/completions", body.dump(), "application/json");
        REQUIRE(response);
        CHECK(response->get_header_value("Content-Type") == "text/event-stream");
        const std::vector<Json> all = events(response->body);
        std::string text;
        size_t tokens = 0;
        for (const Json& event : all) {
            if (event["choices"].empty()) continue;
            const Json& choice = event["choices"][0];
            text += choice["delta"].value("content", "");
            if (choice["logprobs"].is_null()) continue;
            for (const Json& token : choice["logprobs"]["content"]) {
                ++tokens;
                CHECK(token["top_logprobs"].size() == 2);
                CHECK(token["logprob"] == token["top_logprobs"][0]["logprob"]);  // greedy
            }
        }
        CHECK(text == expected);
        CHECK(all.front()["choices"][0]["delta"]["role"] == "assistant");
        CHECK(all.back()["usage"]["completion_tokens"] == tokens);
        CHECK(all[all.size() - 2]["choices"][0]["finish_reason"] ==
              whole.json["choices"][0]["finish_reason"]);
    }
    SUBCASE("parts of a content, a stop text, seeds, a format") {
        Json body = question("", 12);
        body["messages"][0]["content"] =
            Json::parse(R"([{"type":"text","text":"Name a "},{"type":"text","text":"colour."}])");
        CHECK(content(server.post("chat/completions", body)) == expected);
        const std::string end = expected.substr(expected.size() / 2, 4);
        body["stop"] = Json::array({end});
        const Server::Result stopped = server.post("chat/completions", body);
        CHECK(content(stopped) == expected.substr(0, expected.find(end)));
        CHECK(stopped.json["choices"][0]["finish_reason"] == "stop");

        body = question("Write a poem.", 12);
        body.update({{"temperature", 2}, {"n", 2}, {"seed", 7}});
        const Server::Result two = server.post("chat/completions", body);
        CHECK(content(two) != two.json["choices"][1]["message"]["content"]);
        body.update({{"n", 1}, {"seed", 8}});
        CHECK(content(server.post("chat/completions", body)) == two.json["choices"][1]["message"]["content"]);

        body = question("Describe a person.", 60);
        body["response_format"] = Json::parse(
            R"({"type":"json_schema","json_schema":{"name":"p","schema":{"type":"object","properties":)"
            R"({"name":{"type":"string","maxLength":9},"age":{"type":"integer","minimum":1,"maximum":99}},"required":["name","age"]}}})");
        const Json person = Json::parse(content(server.post("chat/completions", body)));
        CHECK(person["age"].get<int>() <= 99);
        CHECK(person["name"].get<std::string>().size() <= 36);
    }
    SUBCASE("completions of texts and ids") {
        const Json body{{"prompt", {"Once upon a time", "The sky is"}},
                        {"max_tokens", 6},
                        {"temperature", 0},
                        {"logprobs", 1}};
        const Server::Result two = server.post("completions", body);
        REQUIRE_MESSAGE(two.status == 200, two.json.dump());
        REQUIRE(two.json["choices"].size() == 2);
        CHECK(two.json["choices"][1]["index"] == 1);
        CHECK(two.json["choices"][0]["logprobs"]["tokens"].size() == 6);
        const Outcome ids = run_scoria({"tokenize", "-m", default_model(), "-p", "The sky is"});
        const Server::Result by_ids = server.post(
            "completions", Json{{"prompt", Json::parse(ids.out)}, {"max_tokens", 6}, {"temperature", 0}});
        CHECK(by_ids.json["choices"][0]["text"] == two.json["choices"][1]["text"]);
    }
    SUBCASE("embeddings") {
        Json body{{"input", {"a text", "another"}}};
        const Server::Result floats = server.post("embeddings", body);
        REQUIRE_MESSAGE(floats.status == 200, floats.json.dump());
        const std::vector<float> vector = floats.json["data"][1]["embedding"];
        double squares = 0;
        for (const float v : vector) squares += double(v) * double(v);
        CHECK(squares == doctest::Approx(1).epsilon(1e-5));
        body.update({{"encoding_format", "base64"}});
        const std::string text = server.post("embeddings", body).json["data"][1]["embedding"];
        CHECK(text.size() == (vector.size() * 4 + 2) / 3 * 4);
        const Outcome own =
            run_scoria({"embed", "-m", default_model(), "-p", "another", "--deterministic", "--ctx", "2048"});
        CHECK(Json::parse(own.out)[7].get<float>() == doctest::Approx(vector[7]).epsilon(1e-4));
    }
    SUBCASE("eight at once, each as it is alone") {
        std::vector<std::string> together(8);
        std::vector<std::thread> threads;
        for (int i = 0; i < 8; ++i)
            threads.emplace_back([&, i] {
                httplib::Client client = server.client();
                const auto response = client.Post("/v1/chat/completions",
                                                  question("Tell me about " + std::to_string(i), 10).dump(),
                                                  "application/json");
                if (response) together[i] = response->body;
            });
        for (std::thread& thread : threads) thread.join();
        for (const int i : {0, 5})
            CHECK(
                content({200, Json::parse(together[i])}) ==
                content(server.post("chat/completions", question("Tell me about " + std::to_string(i), 10))));
    }
    SUBCASE("what cannot be is refused, by name") {
        const auto refused = [&](const char* more, int status, const char* name) {
            Json body = question("Hi", 4);
            body.update(Json::parse(more));
            const Server::Result result = server.post("chat/completions", body);
            CHECK_MESSAGE(result.status == status, more);
            CHECK_MESSAGE(result.json["error"]["message"].get<std::string>().find(name) != std::string::npos,
                          result.json.dump());
        };
        refused(R"({"temperature":"hot"})", 400, "temperature");
        refused(R"({"temperature":-1})", 400, "temperature");
        refused(R"({"messages":[]})", 400, "messages");
        refused(R"({"messages":[{"content":"no role"}]})", 400, "messages");
        refused(R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})", 400, "content");
        refused(R"({"n":0})", 400, "n ");
        refused(R"({"max_tokens":-4})", 400, "max_tokens");
        refused(R"({"logit_bias":{"49152":1}})", 400, "logit bias");
        refused(R"({"response_format":{"type":"json_schema"}})", 400, "response_format");
        refused(R"({"tool_choice":"required"})", 400, "tool_choice");
        refused(R"({"functions":[{}]})", 400, "functions");
        refused(R"({"stop":""})", 400, "stop");
        Json deep = question("Hi", 4);
        deep["messages"].push_back({{"role", "assistant"},
                                    {"tool_calls",
                                     {{{"function",
                                        {{"arguments", "{\"a\":" + std::string(300'000, '[') +
                                                           std::string(300'000, ']') + "}"}}}}}}});
        CHECK(server.post("chat/completions", deep).status != 0);
        const Json many{{"prompt", std::vector<std::string>(100, "a")}, {"n", 16}};
        CHECK(server.post("completions", many).status == 400);
        // A grammar that cannot be followed ends its own answer alone.
        auto other = std::async(std::launch::async, [&] {
            Json body = question("Tell me a story.", 80);
            body["ignore_eos"] = true;
            return server.post("chat/completions", body);
        });
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        Json body = question("Hi", 8);
        body.update({{"grammar", "root ::= [a-z] ([a-z ]?){40000}"}, {"stream", true}});
        const auto response = server.client().Post("/v1/chat/completions", body.dump(), "application/json");
        REQUIRE(response);
        CHECK(response->body.find("too ambiguous") != std::string::npos);
        body["stream"] = false;
        const Server::Result whole = server.post("chat/completions", body);
        CHECK(whole.status == 400);
        CHECK(whole.json["error"]["message"].get<std::string>().find("too ambiguous") != std::string::npos);
        CHECK(other.get().json["usage"]["completion_tokens"] == 80);
    }
}

TEST_CASE("serve: who may ask, who has to wait, and who went away" * doctest::skip(default_model().empty())) {
    Server server({"--parallel", "1", "--waiting", "0", "--allow-origin", "https://friend.example"},
                  {{"SCORIA_API_KEY", "secret"}});
    const std::pair<std::string, std::string> key = {"Authorization", "Bearer secret"};
    CHECK(server.get("/health", {}) == 200);
    CHECK(server.get("/", {}) == 200);
    CHECK(server.get("/v1/models", {}) == 401);
    CHECK(server.get("/v1/models", {{"Authorization", "Bearer secre"}}) == 401);
    CHECK(server.get("/v1/models", {key}) == 200);
    CHECK(server.get("/", {{"Host", "evil.example"}}) == 403);  // DNS rebinding
    CHECK(server.get("/v1/models", {key, {"Host", "localhost:8080"}}) == 200);
    CHECK(server.get("/v1/models", {key, {"Origin", "https://evil.example"}}) == 403);
    CHECK(server.get("/v1/models", {key, {"Origin", "null"}}) == 403);
    CHECK(server.get("/v1/models", {key, {"Host", "localhost:1"}, {"Origin", "http://localhost:1"}}) == 200);
    const auto friendly =
        server.client().Options("/v1/chat/completions", {{"Origin", "https://friend.example"}});
    REQUIRE(friendly);
    CHECK(friendly->status == 204);
    CHECK(friendly->get_header_value("Access-Control-Allow-Origin") == "https://friend.example");

    Json endless = question("Write a long story.", 100'000);  // which would take minutes
    endless["ignore_eos"] = true;
    const Json brief = question("Hi", 3);
    const auto brief_status = [&] { return server.post("chat/completions", brief.dump(), {key}).status; };
    SUBCASE("Ctrl-C ends answers and the program") {
        auto answer = std::async(std::launch::async,
                                 [&] { return server.post("chat/completions", endless.dump(), {key}); });
        REQUIRE(becomes(server, "answers_running", 1, {key}));
        CHECK(brief_status() == 503);
        CHECK(server.program().interrupt() == 0);
        const Server::Result ended = answer.get();
        CHECK(ended.status == 503);
        CHECK(ended.json["error"]["message"].get<std::string>().find("one that ends") != std::string::npos);
    }
    SUBCASE("a client that leaves makes room") {
        for (const bool stream : {false, true}) {
            CAPTURE(stream);
            endless["stream"] = stream;
            {
                Wire client(server.port());
                client.post("chat/completions", endless);
                REQUIRE(becomes(server, "answers_running", 1, {key}));
                CHECK(brief_status() == 503);
            }
            CHECK(becomes(server, "answers_running", 0, {key}));
            CHECK(brief_status() == 200);
        }
        CHECK(becomes(server, "requests_total{outcome=\"cancelled\"}", 2, {key}));
    }
    SUBCASE("a client that sends no more gets its answer") {
        for (const bool stream : {false, true}) {
            CAPTURE(stream);
            Json body = endless;
            body.update({{"stream", stream}, {"max_tokens", 100}});  // some seconds
            Wire client(server.port());
            client.post("chat/completions", body);
            client.end_sending();
            const std::string all = client.rest();
            CHECK(all.find("HTTP/1.1 200") != std::string::npos);
            CHECK(all.find(stream ? "data: [DONE]" : "\"completion_tokens\":100") != std::string::npos);
            CHECK(all.starts_with("HTTP/1.1 100 Continue\r\n\r\n") == !stream);
        }
        Wire old(server.port());  // knows no interim responses, and cannot be told from one that is gone
        old.post("chat/completions", endless, "1.0");
        old.end_sending();
        CHECK(old.rest().starts_with("HTTP/1.1 503"));
    }
}
