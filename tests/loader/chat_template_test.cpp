#include "chat_template.h"

#include "fail.h"
#include "file.h"
#include "test_env.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <filesystem>

using namespace scoria;
using namespace scoria::test;
using nlohmann::json;

namespace {

std::vector<Message> messages_of(const json& list) {
    std::vector<Message> messages;
    for (const json& message : list) messages.push_back({message["role"], message["content"]});
    return messages;
}

/// Whether a case stays inside what Message can say: no tools, no more variables, contents that are text.
bool is_plain(const json& entry) {
    if (!entry.contains("rendered") || (entry.contains("tools") && !entry["tools"].is_null())) return false;
    if (entry.contains("kwargs") && !entry["kwargs"].empty()) return false;
    for (const json& message : entry["messages"]) {
        if (message.size() != 2 || !message.contains("content") || !message["content"].is_string())
            return false;
    }
    return true;
}

}  // namespace

TEST_CASE("recognised templates render as the reference does; the others are refused" * needs_fixtures()) {
    size_t rendered = 0;
    for (const auto& file : std::filesystem::directory_iterator(fixtures() + "/templates")) {
        if (file.path().extension() != ".jinja") continue;
        CAPTURE(file.path().string());
        const ChatTemplate chat(read_file(file.path().string()));
        if (file.path().stem() != "HuggingFaceTB-SmolLM2-135M-Instruct") {
            CHECK_THROWS_AS(chat.render({}), Error);
            continue;
        }
        for (const json& entry :
             json::parse(read_file(std::filesystem::path(file.path()).replace_extension(".json").string()))) {
            if (!is_plain(entry)) continue;
            CAPTURE(entry["name"].get<std::string>());
            CHECK(chat.render(messages_of(entry["messages"]), entry["add_generation_prompt"]) ==
                  entry["rendered"]);
            ++rendered;
        }
    }
    CHECK(rendered > 10);
}

TEST_CASE("the golden's conversations" * needs_fixtures()) {
    const std::string source = read_file(fixtures() + "/templates/HuggingFaceTB-SmolLM2-135M-Instruct.jinja");
    const json golden = json::parse(read_file(fixtures() + "/smollm2/golden.json"));
    size_t rendered = 0;
    for (const json& prompt : golden["prompts"]) {
        if (!prompt.contains("messages")) continue;
        CHECK(ChatTemplate(source).render(messages_of(prompt["messages"])) == prompt["rendered"]);
        ++rendered;
    }
    CHECK(rendered > 0);
}

TEST_CASE("a template that only looks like ChatML is refused" * needs_fixtures()) {
    std::string source = read_file(fixtures() + "/templates/HuggingFaceTB-SmolLM2-135M-Instruct.jinja");
    const size_t name = source.find("SmolLM");
    REQUIRE(name != source.npos);
    CHECK(
        ChatTemplate(source.replace(name, 6, "Nobody")).render({{{"user", "x"}}}, false) ==
        "<|im_start|>system\nYou are a helpful AI assistant named Nobody, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nx<|im_end|>\n");
    CHECK_THROWS_AS(ChatTemplate(source.replace(name, 6, "' + x + '")).render({}), Error);
    CHECK_THROWS_AS(ChatTemplate("").render({}), Error);
    CHECK_THROWS_AS(ChatTemplate("{{ messages[0].content }}").render({}), Error);
}
