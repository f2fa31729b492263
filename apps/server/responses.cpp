// See responses.h.
#include "responses.h"

#include "fail.h"
#include "request_fields.h"

namespace scoria::server {
namespace {

/// A text, or parts of that type.
std::string content_text(const char* name, const Json& content) {
    if (content.is_string()) return content;
    if (!content.is_array()) expected(name, "a string or an array of parts", content);
    std::string joined;
    for (const Json& part : content) {
        const Json type = part.is_object() ? part.value("type", Json()) : Json();
        const bool plain = type == "input_text" || type == "output_text" || type == "text";
        if (plain && part.contains("text"))
            joined += text("text", part["text"]);
        else if (type == "refusal" && part.contains("refusal"))
            joined += text("refusal", part["refusal"]);
        else
            expected(name, "parts of type input_text or output_text", part);
    }
    return joined;
}

const Json& member(const Json& item, const char* name) {
    const Json* const found = field(item, name);
    if (!found) expected(name, cat("a member of a ", item.value("type", "message")), item);
    return *found;
}

/// The messages that items tell of. Thoughts and calls are items of their own here, and parts of an
/// assistant's message there.
class Messages {
  public:
    void add(const Json& item) {
        if (!item.is_object()) expected("input", "a string or an array of items", item);
        const Json type = item.value("type", Json("message"));
        if (type == "message")
            add(text("role", member(item, "role")), content_text("content", member(item, "content")));
        else if (type == "reasoning")
            think(item);
        else if (type == "function_call")
            assistant()["tool_calls"].push_back(
                {{"id", text("call_id", member(item, "call_id"))},
                 {"type", "function"},
                 {"function",
                  {{"name", text("name", member(item, "name"))},
                   {"arguments", text("arguments", member(item, "arguments"))}}}});
        else if (type == "function_call_output")
            all_.push_back({{"role", "tool"},
                            {"tool_call_id", text("call_id", member(item, "call_id"))},
                            {"content", content_text("output", member(item, "output"))}});
        else
            fail(Status::unsupported, "request",
                 "expected items of type message, reasoning, function_call or function_call_output, got ",
                 json_text(type).substr(0, 80));
    }
    void add(std::string role, std::string content) {
        if (role == "assistant") {
            fresh_assistant()["content"] = std::move(content);
            return;
        }
        // Templates know one message of the system, at the beginning.
        if (all_.size() == 1 && is_system(all_[0]["role"]) && is_system(role))
            all_[0]["content"].get_ref<std::string&>() += "\n\n" + content;
        else
            all_.push_back({{"role", std::move(role)}, {"content", std::move(content)}});
    }
    Json take() { return std::move(all_); }

  private:
    static bool is_system(const Json& role) { return role == "system" || role == "developer"; }
    void think(const Json& item) {
        std::string said;
        for (const char* key : {"content", "summary"}) {
            const Json* const parts = field(item, key);
            if (!said.empty() || !parts || !parts->is_array()) continue;
            for (const Json& part : *parts)
                if (part.is_object() && part.contains("text")) said += text("text", part["text"]);
        }
        thought_ += (thought_.empty() || said.empty() ? "" : "\n\n") + said;
    }
    Json& fresh_assistant() {
        all_.push_back({{"role", "assistant"}, {"content", ""}});
        if (!thought_.empty()) all_.back()["reasoning_content"] = std::exchange(thought_, {});
        return all_.back();
    }
    Json& assistant() {
        const bool goes_on = thought_.empty() && !all_.empty() && all_.back()["role"] == "assistant";
        return goes_on ? all_.back() : fresh_assistant();
    }

    Json all_ = Json::array();
    std::string thought_;  // before the assistant's message that it belongs to
};

Json messages_of(const Json& body) {
    Messages messages;
    if (const Json* instructions = field(body, "instructions"))
        messages.add("system", text("instructions", *instructions));
    const Json* const input = field(body, "input");
    if (!input || (!input->is_string() && (!input->is_array() || input->empty())))
        expected("input", "a string or an array of items", input ? *input : Json());
    if (input->is_string())
        messages.add("user", *input);
    else
        for (const Json& item : *input) messages.add(item);
    return messages.take();
}

/// {type, name, ...} as {type, function: {name, ...}}.
Json nested(const char* field_name, const Json& tool) {
    if (!tool.is_object()) expected(field_name, "of type function", tool);
    if (tool.value("type", Json()) != "function")
        fail(Status::unsupported, "request", "expected ", field_name, " of type function, got ",
             json_text(tool.value("type", Json())).substr(0, 80));
    Json function = tool;
    function.erase("type");
    function.erase("strict");
    if (!field(tool, "name") || !tool["name"].is_string())
        expected(field_name, "functions with a name", tool);
    return {{"type", "function"}, {"function", std::move(function)}};
}

void refuse_state(const Json& body) {
    refuse(body, {"previous_response_id", "conversation", "prompt", "background"});
    if (const Json* count = field(body, "n"); count && *count != 1)
        fail(Status::unsupported, "request", "expected no n, which this API has not, got one");
    const Json* const truncation = field(body, "truncation");
    if (truncation && *truncation != "disabled")
        fail(Status::unsupported, "request", "expected truncation: disabled, got ",
             json_text(*truncation).substr(0, 80));
    const Json* const include = field(body, "include");
    if (include && !include->is_array()) expected("include", "an array", *include);
    for (const Json& each : include ? *include : Json::array())
        // Thoughts that were encrypted would come back as such: these come as they are.
        if (each != "message.output_text.logprobs" && each != "reasoning.encrypted_content")
            fail(Status::unsupported, "request", "expected to include message.output_text.logprobs, got ",
                 json_text(each).substr(0, 80));
}

bool includes(const Json& body, const char* what) {
    const Json* const include = field(body, "include");
    return include && std::ranges::find(*include, what) != include->end();
}

/// The request of a chat that asks for the same.
Json chat_of(const Json& body) {
    refuse_state(body);
    Json chat = body;
    for (const char* key : {"input", "instructions", "text", "reasoning", "top_logprobs", "stream_options",
                            "response_format", "tools", "tool_choice", "n", "logprobs"})
        chat.erase(key);
    chat["messages"] = messages_of(body);
    if (const Json* tools = field(body, "tools")) {
        if (!tools->is_array()) expected("tools", "an array", *tools);
        for (const Json& tool : *tools) chat["tools"].push_back(nested("tools", tool));
    }
    if (const Json* choice = field(body, "tool_choice")) {
        if (choice->is_object() && choice->value("type", Json()) == "allowed_tools") {
            Json allowed{{"mode", choice->value("mode", Json())}, {"tools", Json::array()}};
            for (const Json& tool : choice->value("tools", Json::array()))
                allowed["tools"].push_back(nested("tool_choice", tool));
            chat["tool_choice"]["allowed_tools"] = std::move(allowed);
        } else {
            chat["tool_choice"] = choice->is_object() ? nested("tool_choice", *choice) : *choice;
        }
    }
    if (const Json* shape = field(body, "text")) {
        if (!shape->is_object()) expected("text", "an object", *shape);
        if (const Json* format = field(*shape, "format")) {
            if (!format->is_object()) expected("text.format", "an object", *format);
            chat["response_format"] = *format;
            if (format->value("type", Json()) == "json_schema")
                chat["response_format"]["json_schema"] = *format;
        }
    }
    if (const Json* reasoning = field(body, "reasoning")) {
        if (!reasoning->is_object()) expected("reasoning", "an object", *reasoning);
        if (const Json* effort = field(*reasoning, "effort")) chat["reasoning_effort"] = *effort;
    }
    const Json* const best = field(body, "top_logprobs");
    if (includes(body, "message.output_text.logprobs") || (best && *best != 0)) {
        chat["logprobs"] = true;
        if (best) chat["top_logprobs"] = *best;
    }
    return chat;
}

/// 0.7, not the digits that a float has behind it as a double.
double shortest(float value) { return std::stod(cat(value)); }

/// What a response says of its request: what was asked for, or what holds without it.
Json shown_of(const Json& body, const GenerateOptions& options) {
    const SamplingOptions& sampling = options.sampling;
    Json shown{{"background", false},
               {"instructions", nullptr},
               {"max_output_tokens", options.max_tokens ? Json(options.max_tokens) : Json()},
               {"metadata", Json::object()},
               {"parallel_tool_calls", true},
               {"previous_response_id", nullptr},
               {"reasoning", {{"effort", nullptr}, {"summary", nullptr}}},
               {"service_tier", "default"},
               {"store", false},
               {"temperature", shortest(sampling.temperature)},
               {"text", {{"format", {{"type", "text"}}}}},
               {"tool_choice", "auto"},
               {"tools", Json::array()},
               {"top_logprobs", options.logprobs.value_or(0)},
               {"top_p", shortest(sampling.top_p)},
               {"truncation", "disabled"}};
    for (const char* key : {"instructions", "metadata", "reasoning", "text", "tool_choice", "tools", "user",
                            "temperature", "top_p", "safety_identifier", "prompt_cache_key"})
        if (const Json* value = field(body, key)) shown[key] = *value;
    if (!shown["text"].contains("format")) shown["text"]["format"] = {{"type", "text"}};
    return shown;
}

}  // namespace

ResponseRequest parse_response(const Json& body, const AnswerDefaults& defaults, uint32_t tokens) {
    ResponseRequest request{parse_chat(chat_of(body), defaults, tokens), {}};
    request.shown = shown_of(body, request.answers.front());
    return request;
}

struct ResponseReply::ItemKind {
    const char *type, *part, *prefix;
};
const ResponseReply::ItemKind ResponseReply::message{"message", "output_text", "msg_"};
const ResponseReply::ItemKind ResponseReply::thought{"reasoning", "reasoning_text", "rs_"};

ResponseReply::ResponseReply(ReplyNames names, const Tokenizer& tokenizer, const ReplyForm& form,
                             size_t prompt_tokens, Json shown)
    : names_(std::move(names)), tokenizer_(tokenizer), parts_(form), shown_(std::move(shown)),
      prompt_tokens_(prompt_tokens) {}

std::string ResponseReply::event(std::string type, Json fields) {
    Json json{{"type", type}, {"sequence_number", events_++}};
    json.update(fields);
    return "event: " + type + "\n" + event_text(json);
}

std::string ResponseReply::event_of_item(std::string type, Json fields) {
    Json place{{"output_index", output_.size()}, {"item_id", item_->id}, {"content_index", 0}};
    place.update(fields);
    return event(std::move(type), std::move(place));
}

std::string ResponseReply::event_of_response(std::string type, const Json& response) {
    return event(std::move(type), {{"response", response}});
}

Json ResponseReply::response(const char* status) const {
    Json json{{"id", names_.id},          {"object", "response"}, {"created_at", names_.created},
              {"model", names_.model},    {"status", status},     {"error", nullptr},
              {"incomplete_details", {}}, {"output", output_},    {"usage", nullptr}};
    json.update(shown_);
    if (!done()) return json;
    if (status == std::string_view("incomplete"))
        json["incomplete_details"] = {{"reason", "max_output_tokens"}};
    json["usage"] = {{"input_tokens", prompt_tokens_},
                     {"input_tokens_details", {{"cached_tokens", reused_}, {"cache_write_tokens", 0}}},
                     {"output_tokens", tokens_},
                     {"output_tokens_details", {{"reasoning_tokens", thought_tokens_}}},
                     {"total_tokens", prompt_tokens_ + tokens_}};
    return json;
}

Json ResponseReply::part_of(const Item& item) const {
    Json part{{"type", item.kind->part}, {"text", item.text}};
    if (item.kind == &message) {
        part["annotations"] = Json::array();
        part["logprobs"] = item.logprobs;
    }
    return part;
}

Json ResponseReply::json_of(const Item& item, const char* status) {
    Json json{{"id", item.id}, {"type", item.kind->type}, {"status", status}, {"content", Json::array()}};
    if (item.kind == &message)
        json["role"] = "assistant";
    else
        json["summary"] = Json::array();
    return json;
}

std::string ResponseReply::open(const ItemKind& kind) {
    if (item_ && item_->kind == &kind) return {};
    std::string events = close("completed");
    item_ = Item{&kind, kind.prefix + random_id(24), {}};
    events += event("response.output_item.added",
                    {{"output_index", output_.size()}, {"item", json_of(*item_, "in_progress")}});
    return events + event_of_item("response.content_part.added", {{"part", part_of(*item_)}});
}

std::string ResponseReply::close(const char* status) {
    if (!item_) return {};
    const std::string part = cat("response.", item_->kind->part);
    Json whole_text{{"text", item_->text}};
    if (item_->kind == &message) whole_text["logprobs"] = item_->logprobs;
    std::string events = event_of_item(part + ".done", std::move(whole_text));
    events += event_of_item("response.content_part.done", {{"part", part_of(*item_)}});
    Json item = json_of(*item_, status);
    item["content"].push_back(part_of(*item_));
    events += event("response.output_item.done", {{"output_index", output_.size()}, {"item", item}});
    output_.push_back(std::move(item));
    item_.reset();
    return events;
}

std::string ResponseReply::call(const ReplyPart& part) {
    std::string events = close("completed");
    const std::string id = "fc_" + random_id(24);
    Json item{{"id", id},          {"type", "function_call"},  {"status", "in_progress"},
              {"name", part.name}, {"call_id", call_id(part)}, {"arguments", ""}};
    const Json place{{"output_index", output_.size()}, {"item_id", id}};
    const auto say = [&](const char* type, Json fields) {
        Json all = place;
        all.update(fields);
        events += event(type, std::move(all));
    };
    events += event("response.output_item.added", {{"output_index", output_.size()}, {"item", item}});
    say("response.function_call_arguments.delta", {{"delta", part.text}});
    say("response.function_call_arguments.done", {{"name", part.name}, {"arguments", part.text}});
    item["status"] = "completed";
    item["arguments"] = part.text;
    events += event("response.output_item.done", {{"output_index", output_.size()}, {"item", item}});
    output_.push_back(std::move(item));
    return events;
}

std::string ResponseReply::show(const ReplyPart& part, Json logprobs) {
    if (part.kind == ReplyPart::Kind::call) return call(part);
    const ItemKind& kind = part.kind == ReplyPart::Kind::thought ? thought : message;
    std::string events = open(kind);
    item_->text += part.text;
    Json fields{{"delta", part.text}};
    if (&kind == &message) {
        for (const Json& each : logprobs) item_->logprobs.push_back(each);
        fields["logprobs"] = std::move(logprobs);
    }
    return events + event_of_item(cat("response.", kind.part, ".delta"), std::move(fields));
}

std::string ResponseReply::begin() {
    const Json begun = response("in_progress");
    std::string events = event_of_response("response.created", begun);
    return events += event_of_response("response.in_progress", begun);
}

std::string ResponseReply::take(News news) {
    if (news.error) std::rethrow_exception(news.error);
    if (parts_.in_thought())
        thought_tokens_ += news.tokens;
    else
        logprobs_.insert(logprobs_.end(), news.logprobs.begin(), news.logprobs.end());
    std::string events;
    for (const ReplyPart& part : parts_of(news, parts_)) {
        const bool answers = part.kind == ReplyPart::Kind::content;
        if (part.kind == ReplyPart::Kind::call) logprobs_.clear();  // its own
        events += show(part, answers ? logprob_entries(tokenizer_, std::exchange(logprobs_, {})) : Json());
    }
    if (!news.result) return events;
    tokens_ = news.result->tokens.size();
    reused_ = news.result->reused;
    const StopReason reason = news.result->reason;
    const bool whole = reason == StopReason::end_of_generation || reason == StopReason::stop_string;
    events += close(whole ? "completed" : "incomplete");
    status_ = whole ? "completed" : reason == StopReason::cancelled ? "cancelled" : "incomplete";
    return events;
}

std::string ResponseReply::end() { return event_of_response(cat("response.", status_), response(status_)); }

std::string ResponseReply::failure(std::string_view problem) {
    Json failed = response("failed");
    failed["error"] = {{"code", "server_error"}, {"message", problem}};
    return event_of_response("response.failed", failed);
}

Json ResponseReply::whole() const { return response(status_); }

}  // namespace scoria::server
