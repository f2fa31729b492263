// See messages.h.
#include "messages.h"

#include "fail.h"
#include "request_fields.h"

#include <algorithm>

namespace scoria::server {
namespace {

/// A string is one block of text.
Json blocks(const char* name, const Json& content) {
    if (content.is_string()) return Json::array({{{"type", "text"}, {"text", content}}});
    if (!content.is_array()) expected(name, "a string or an array of blocks", content);
    for (const Json& block : content)
        if (!block.is_object() || !block.contains("type")) expected(name, "blocks with a type", block);
    return content;
}

const Json& member(const Json& block, const char* name) {
    const Json* const found = field(block, name);
    if (!found) expected(name, cat("a member of ", json_text(block["type"])), block);
    return *found;
}

[[noreturn]] void refuse_block(const Json& block, const char* known) {
    fail(Status::unsupported, "request", "expected blocks of type ", known, ", got ",
         json_text(block["type"]).substr(0, 80));
}

void append_line(Json& said, const std::string& line) {
    std::string& all = said.get_ref<std::string&>();
    all += (all.empty() ? "" : "\n") + line;
}

std::string text_of(const char* name, const Json& content) {
    Json said = "";
    for (const Json& block : blocks(name, content)) {
        if (block["type"] != "text") refuse_block(block, "text");
        append_line(said, text("text", member(block, "text")));
    }
    return said;
}

/// The messages that turns tell of. Turns of one role in a row are one; results of calls, which a user's turn
/// begins with here, are messages of their own there.
class Turns {
  public:
    void add(const Json& turn) {
        const Json role = turn.is_object() ? turn.value("role", Json()) : Json();
        if (role != "user" && role != "assistant" && role != "system")
            expected("messages", "objects with a role of user, assistant or system", turn);
        const Json* const content = field(turn, "content");
        const Json all = blocks("content", content ? *content : Json());
        if (role == "system") return add_system(all);
        if (all.empty()) last(role);
        for (const Json& block : all)
            if (role == "user")
                add_heard(block);
            else
                add_said(block);
    }
    void add_system(const Json& content) {
        all_.push_back({{"role", "system"}, {"content", text_of("system", content)}});
    }
    Json take() { return std::move(all_); }

  private:
    Json& last(const Json& role) {
        if (all_.empty() || all_.back()["role"] != role) all_.push_back({{"role", role}, {"content", ""}});
        return all_.back();
    }
    void add_heard(const Json& block) {
        if (block["type"] == "text") {
            append_line(last("user")["content"], text("text", member(block, "text")));
        } else if (block["type"] == "tool_result") {
            const Json* const content = field(block, "content");
            all_.push_back({{"role", "tool"},
                            {"tool_call_id", text("tool_use_id", member(block, "tool_use_id"))},
                            {"content", content ? text_of("content", *content) : ""}});
        } else {
            refuse_block(block, "text or tool_result");
        }
    }
    void add_said(const Json& block) {
        Json& message = last("assistant");
        if (block["type"] == "text") {
            append_line(message["content"], text("text", member(block, "text")));
        } else if (block["type"] == "thinking") {
            if (!message.contains("reasoning_content")) message["reasoning_content"] = "";
            append_line(message["reasoning_content"], text("thinking", member(block, "thinking")));
        } else if (block["type"] == "tool_use") {
            message["tool_calls"].push_back({{"id", text("id", member(block, "id"))},
                                             {"type", "function"},
                                             {"function",
                                              {{"name", text("name", member(block, "name"))},
                                               {"arguments", json_text(member(block, "input"))}}}});
        } else if (block["type"] != "redacted_thinking") {  // another server's, which nobody here can read
            refuse_block(block, "text, thinking or tool_use");
        }
    }

    Json all_ = Json::array();
};

Json messages_of(const Json& body) {
    Turns turns;
    if (const Json* system = field(body, "system")) turns.add_system(*system);
    for (const Json& turn : filled(body, "messages", "an array with a message")) turns.add(turn);
    Json all = turns.take();
    if (all.back()["role"] == "assistant")
        fail(Status::unsupported, "request",
             "expected a last message of the user, got the beginning of an answer");
    return all;
}

Json tool_of(const Json& tool) {
    if (!tool.is_object() || !field(tool, "name")) expected("tools", "objects with a name", tool);
    if (const Json* type = field(tool, "type"); type && *type != "custom")
        fail(Status::unsupported, "request", "expected tools of type custom, got ",
             json_text(*type).substr(0, 80));
    Json function{{"name", tool["name"]}};
    if (const Json* about = field(tool, "description")) function["description"] = *about;
    function["parameters"] = field(tool, "input_schema") ? tool["input_schema"] : Json{{"type", "object"}};
    return {{"type", "function"}, {"function", std::move(function)}};
}

Json choice_of(const Json& choice) {
    const Json type = choice.is_object() ? choice.value("type", Json()) : Json();
    if (type == "auto" || type == "none") return type;
    if (type == "any") return "required";
    if (type != "tool" || !field(choice, "name"))
        expected("tool_choice", "an object of type auto, any, none or, with a name, tool", choice);
    return {{"type", "function"}, {"function", {{"name", choice["name"]}}}};
}

void read_thinking(const Json& thinking, Json& chat) {
    const Json type = thinking.is_object() ? thinking.value("type", Json()) : Json();
    if (!type.is_string()) expected("thinking", "an object with a type", thinking);
    // By the names that templates have for it; who gives them himself is right.
    Json variables{{"enable_thinking", type != "disabled"}, {"thinking", type != "disabled"}};
    if (const Json* own = field(chat, "chat_template_kwargs"); own && own->is_object())
        variables.update(*own);
    chat["chat_template_kwargs"] = std::move(variables);
}

/// The request of a chat that asks for the same.
Json chat_of(const Json& body) {
    refuse(body, {"container", "mcp_servers"});
    Json chat = body;
    for (const char* key : {"system", "messages", "tools", "tool_choice", "stop", "stop_sequences",
                            "thinking", "output_config", "response_format", "reasoning_effort",
                            "stream_options", "n", "logprobs", "max_completion_tokens", "max_output_tokens"})
        chat.erase(key);
    chat["messages"] = messages_of(body);
    if (const Json* tools = field(body, "tools")) {
        if (!tools->is_array()) expected("tools", "an array", *tools);
        for (const Json& tool : *tools) chat["tools"].push_back(tool_of(tool));
    }
    if (const Json* choice = field(body, "tool_choice")) chat["tool_choice"] = choice_of(*choice);
    if (const Json* stops = field(body, "stop_sequences")) {
        if (!stops->is_array()) expected("stop_sequences", "an array of strings", *stops);
        chat["stop"] = *stops;
    }
    if (const Json* thinking = field(body, "thinking")) read_thinking(*thinking, chat);
    if (const Json* config = field(body, "output_config")) {
        if (!config->is_object()) expected("output_config", "an object", *config);
        if (const Json* effort = field(*config, "effort")) chat["reasoning_effort"] = *effort;
        if (const Json* format = field(*config, "format")) {
            if (!format->is_object() || format->value("type", Json()) != "json_schema" ||
                !field(*format, "schema"))
                expected("output_config.format", "of type json_schema, with a schema", *format);
            chat["response_format"] = {{"type", "json_schema"},
                                       {"json_schema", {{"schema", (*format)["schema"]}}}};
        }
    }
    return chat;
}

std::string event(const char* type, Json fields) {
    Json json{{"type", type}};
    json.update(fields);
    return cat("event: ", type, "\n", event_text(json));
}

struct ErrorType {
    int status;
    const char* name;
};
constexpr ErrorType error_types[] = {
    {401, "authentication_error"}, {403, "permission_error"}, {404, "not_found_error"},
    {413, "request_too_large"},    {503, "overloaded_error"},
};

const char* reason_name(StopReason reason) {
    switch (reason) {
    case StopReason::end_of_generation:
        return "end_turn";
    case StopReason::stop_string:
        return "stop_sequence";
    case StopReason::context_full:
        return "model_context_window_exceeded";
    case StopReason::token_limit:
    case StopReason::cancelled:
        break;
    }
    return "max_tokens";
}

}  // namespace

Json message_error(std::string_view what, int status) {
    const auto found = std::ranges::find(error_types, status, &ErrorType::status);
    const char* const type = found != std::end(error_types) ? found->name
                             : status < 500                 ? "invalid_request_error"
                                                            : "api_error";
    return {{"type", "error"}, {"error", {{"type", type}, {"message", what}}}};
}

ChatRequest parse_messages(const Json& body, const AnswerDefaults& defaults, uint32_t tokens) {
    return parse_chat(chat_of(body), defaults, tokens);
}

Json MessageReply::message() const {
    return {{"id", names_.id},
            {"type", "message"},
            {"role", "assistant"},
            {"model", names_.model},
            {"content", content_},
            {"stop_reason", stop_reason_ ? Json(stop_reason_) : Json()},
            {"stop_sequence", stop_.empty() ? Json() : Json(stop_)},
            {"usage",
             {{"input_tokens", prompt_tokens_ - reused_},
              {"cache_creation_input_tokens", 0},
              {"cache_read_input_tokens", reused_},
              {"output_tokens", tokens_},
              {"output_tokens_details", {{"thinking_tokens", thought_tokens_}}}}}};
}

std::string MessageReply::open(Json block) {
    std::string events = close();
    content_.push_back(std::move(block));
    open_ = true;
    return events +=
           event("content_block_start", {{"index", content_.size() - 1}, {"content_block", content_.back()}});
}

std::string MessageReply::close() {
    return std::exchange(open_, false) ? event("content_block_stop", {{"index", content_.size() - 1}}) : "";
}

std::string MessageReply::delta(const char* type, const char* key, const std::string& text) const {
    return event("content_block_delta",
                 {{"index", content_.size() - 1}, {"delta", {{"type", type}, {key, text}}}});
}

std::string MessageReply::show(const ReplyPart& part) {
    if (part.kind == ReplyPart::Kind::call) {
        calls_ = true;
        std::string events = open(
            {{"type", "tool_use"}, {"id", call_id(part)}, {"name", part.name}, {"input", Json::object()}});
        events += delta("input_json_delta", "partial_json", part.text);
        content_.back()["input"] = shallow_json(part.text);
        return events += close();
    }
    const bool thinks = part.kind == ReplyPart::Kind::thought;
    const char* const type = thinks ? "thinking" : "text";
    std::string events;
    if (!open_ || content_.back()["type"] != type) {
        Json block{{"type", type}, {type, ""}};
        if (thinks)
            block["signature"] = "";  // by which the API knows its own; here any thought may come back
        events = open(std::move(block));
    }
    content_.back()[type].get_ref<std::string&>() += part.text;
    return events += delta(thinks ? "thinking_delta" : "text_delta", type, part.text);
}

std::string MessageReply::begin() { return event("message_start", {{"message", message()}}); }

std::string MessageReply::take(News news) {
    if (news.error) std::rethrow_exception(news.error);
    if (parts_.in_thought()) thought_tokens_ += news.tokens;
    std::string events;
    for (const ReplyPart& part : parts_of(news, parts_)) events += show(part);
    if (!news.result) return events;
    tokens_ = news.result->tokens.size();
    reused_ = news.result->reused;
    stop_ = std::move(news.result->stop);
    stop_reason_ = calls_ ? "tool_use" : reason_name(news.result->reason);
    return events += close();
}

std::string MessageReply::end() {
    const Json all = message();
    return event("message_delta",
                 {{"delta", {{"stop_reason", all["stop_reason"]}, {"stop_sequence", all["stop_sequence"]}}},
                  {"usage", all["usage"]}}) +
           event("message_stop", Json::object());
}

std::string MessageReply::failure(std::string_view problem) {
    return "event: error\n" + event_text(message_error(problem, 500));
}

}  // namespace scoria::server
