// See call_form.h.
#include "call_form.h"

#include "fail.h"

namespace scoria::server {
namespace {

constexpr std::string_view tried_name = "name_of_a_call", tried_value = "value_of_a_call";

/// A conversation with a call, as the template shows it in this form; empty, if it does not.
std::string trial(const ChatTemplate& chat_template, const CallForm& form) {
    Conversation conversation{
        .messages =
            Json::parse(R"([{"role":"user","content":"a"},{"role":"assistant","content":"","tool_calls":[
            {"id":"call00000","type":"function","function":{"name":"","arguments":""}}]},
            {"role":"tool","tool_call_id":"call00000","content":"b"}])"),
        .tools = Json::parse(R"([{"type":"function","function":{"name":"f","description":"","parameters":
            {"type":"object","properties":{}}}}])")};
    Json& call = conversation.messages[1]["tool_calls"][0]["function"];
    call["name"] = tried_name;
    call["arguments"] = json_text(Json{{"key", tried_value}});
    shape_calls(conversation.messages, form);
    try {
        std::string text = chat_template.render(conversation).text;
        const bool shown = text.find(tried_name) != text.npos && text.find(tried_value) != text.npos;
        return shown ? text : "";
    } catch (const Error&) {
        return {};
    }
}

}  // namespace

CallForm call_form(const ChatTemplate& chat_template) {
    for (const bool as_text : {false, true}) {
        const std::string with_text = trial(chat_template, {as_text, false});
        const std::string with_null = trial(chat_template, {as_text, true});
        if (with_text.empty() && with_null.empty()) continue;
        // What is more with an empty text is an answer of its own.
        const bool null_content =
            with_text.empty() || (!with_null.empty() && with_null.size() < with_text.size());
        return {as_text, null_content};
    }
    return {};
}

void shape_calls(Json& messages, const CallForm& form) {
    for (Json& message : messages) {
        const auto calls = message.find("tool_calls");
        if (calls == message.end() || !calls->is_array() || calls->empty()) continue;
        if (form.null_content && message["content"] == "") message["content"] = nullptr;
        for (Json& call : *calls) {
            const auto place = Json::json_pointer("/function/arguments");
            if (!call.is_object() || !call.contains(place)) continue;
            Json& arguments = call[place];
            if (form.text_arguments && arguments.is_object()) arguments = json_text(arguments);
            if (form.text_arguments || !arguments.is_string()) continue;
            Json parsed = shallow_json(arguments.get_ref<const std::string&>());
            if (parsed.is_object()) arguments = std::move(parsed);
        }
    }
}

}  // namespace scoria::server
