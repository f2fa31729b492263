#include "jinja/read_json.h"

#include "tokenizer/json.h"
#include "tokenizer/utf8.h"

#include <algorithm>

namespace scoria::jinja {
namespace {

using Json = nlohmann::ordered_json;

/// A role such as "user" spells no token by itself, but templates make tokens of it: '<|' + role + '|>'.
bool is_role(std::string_view name, const std::string& text) {
    return name == "role" && text.size() <= 32 && std::ranges::all_of(text, [](char c) {
               return std::isalnum(static_cast<uint8_t>(c)) != 0 || c == '_' || c == '-';
           });
}

/// `name`: of the member that holds the value, or empty.
Value value_of(Runtime& runtime, const Json& json, bool from_input, std::string_view name, unsigned depth) {
    if (depth > max_value_depth)
        runtime.fail("expected at most ", max_value_depth, " nested values in JSON, got more");
    runtime.spend(1);
    switch (json.type()) {
    case Json::value_t::null:
        return None{};
    case Json::value_t::boolean:
        return json.get<bool>();
    case Json::value_t::number_integer:
        return Integer(json.get<int64_t>());
    case Json::value_t::number_unsigned:
        return Integer(json.get<uint64_t>());
    case Json::value_t::number_float:
        return json.get<double>();
    case Json::value_t::string: {
        const auto& text = json.get_ref<const std::string&>();
        return runtime.text(Text(utf8::valid(text), from_input && !is_role(name, text)));
    }
    case Json::value_t::array: {
        std::vector<Value> items;
        runtime.reserve(json.size() * sizeof(Value));
        for (const Json& item : json) items.push_back(value_of(runtime, item, from_input, "", depth + 1));
        return runtime.list(std::move(items));
    }
    case Json::value_t::object: {
        std::vector<std::pair<Value, Value>> items;
        for (const auto& [key, value] : json.items())
            items.emplace_back(runtime.text(Text(utf8::valid(key), from_input)),
                               value_of(runtime, value, from_input, key, depth + 1));
        return runtime.dict(std::move(items));
    }
    default:
        runtime.fail("expected a JSON value, got ", json.type_name());
    }
}

}  // namespace

Value value_of_json(Runtime& runtime, const Json& json, bool from_input) {
    return value_of(runtime, json, from_input, "", 0);
}

Value read_json(Runtime& runtime, const Text& text) {
    constexpr uint64_t most_per_byte = 40;  // "[" makes a value of its own
    runtime.reserve(most_per_byte * text.size());
    const auto parsed = [&]() -> Json {
        try {
            return parse_ordered(text.bytes(), "from_json", Status::failed, max_value_depth);
        } catch (const Error&) {
            runtime.fail("expected JSON of at most ", max_value_depth,
                         " nested values for 'from_json', got another text");
        }
    };
    return value_of_json(runtime, parsed(), text.has_input());
}

}  // namespace scoria::jinja
