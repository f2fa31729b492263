// See conversation.h.
#include "conversation.h"

#include "fail.h"
#include "tokenizer/json.h"

namespace scoria {

Conversation parse_conversation(std::string_view where, const std::string& json) {
    auto root = parse_shallow<nlohmann::ordered_json>(json, where);
    Conversation out;
    if (root.is_object()) {
        if (!root.contains("messages"))
            fail(Status::bad_file, where, "expected an object with messages, got none");
        for (auto [key, value] : {std::pair("tools", &out.tools), std::pair("documents", &out.documents),
                                  std::pair("variables", &out.variables)})
            if (root.contains(key)) *value = root[key];
        nlohmann::ordered_json messages = root["messages"];
        root = std::move(messages);
    }
    if (!root.is_array())
        fail(Status::bad_file, where, "expected an array of messages, got ", root.type_name());
    for (const nlohmann::ordered_json& message : root)
        if (!message.is_object() || !message.contains("role") || !message["role"].is_string())
            fail(Status::bad_file, where, "expected messages with a role, got ",
                 message.is_object() ? "one without" : message.type_name());
    for (const auto& [key, value] : {std::pair("tools", &out.tools), std::pair("documents", &out.documents)})
        if (!value->is_array() && !value->is_null())
            fail(Status::bad_file, where, "expected ", key, " as an array, got ", value->type_name());
    if (!out.variables.is_object())
        fail(Status::bad_file, where, "expected variables as an object, got ", out.variables.type_name());
    out.messages = std::move(root);
    return out;
}

std::vector<TokenId> encode_prompt(const Tokenizer& tokenizer, const ChatPrompt& prompt) {
    return tokenizer.encode(prompt.text,
                            {.add_special = false, .parse_special = true, .literal = prompt.input});
}

}  // namespace scoria
