// Any bytes as a chat template: rendering a conversation with tools must return or throw Error, in bounded
// time, memory and depth. What follows the first 0 byte, if it is JSON, is the conversation.
#include "fail.h"
#include "jinja/template.h"

#include <string_view>

namespace {

using Json = nlohmann::ordered_json;

const Json messages = Json::parse(R"([{"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Zürich?"},
    {"role": "assistant", "content": null, "reasoning_content": "hm", "tool_calls": [{"id": "abcdefghi",
     "type": "function", "function": {"name": "weather", "arguments": {"city": "Zürich", "days": 2}}}]},
    {"role": "tool", "tool_call_id": "abcdefghi", "name": "weather", "content": "{\"sky\": 1.5}"},
    {"role": "user", "content": [{"type": "text", "text": "thanks"}]}])");
const Json tools = Json::parse(R"([{"type": "function", "function": {"name": "weather", "description": "d",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}])");

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace scoria;
    const std::string_view input(reinterpret_cast<const char*>(data), size);
    const size_t end = std::min(input.find('\0'), size);
    Json given = end < size ? Json::parse(input.substr(end + 1), nullptr, false) : messages;
    if (given.is_discarded()) given = messages;
    constexpr jinja::Limits limits{.steps = 2'000'000, .memory = 16 << 20, .output = 1 << 20, .depth = 100};
    try {
        const jinja::Text prompt = jinja::Template(input.substr(0, end))
                                       .render({{"messages", given},
                                                {"tools", tools},
                                                {"add_generation_prompt", true},
                                                {"bos_token", "<s>", false}},
                                               1'773'480'413, limits);
        size_t at = 0;
        for (const TextRange& range : prompt.input()) {
            if (range.begin < at || range.end <= range.begin || range.end > prompt.size()) __builtin_trap();
            at = range.end;
        }
    } catch (const Error&) {
        // Refused: as good an answer as any.
    }
    return 0;
}
