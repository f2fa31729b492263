// See reply_parts.h.
#include "reply_parts.h"

#include "tokenizer/json.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <span>

namespace scoria {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view space = " \t\r\n";
constexpr Markers thought_markers[] = {
    {"<think>", "</think>"}, {"<seed:think>", "</seed:think>"}, {"[THINK]", "[/THINK]", true}};
constexpr Markers call_markers[] = {{"<tool_call>", "</tool_call>"},
                                    {"<TOOLCALL>", "</TOOLCALL>"},
                                    {"<seed:tool_call>", "</seed:tool_call>"},
                                    {"<|tool_call_start|>", "<|tool_call_end|>", true, "<|tool_list_start|>"},
                                    {"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", true},
                                    {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", true},
                                    {"[TOOL_CALLS]", "", true, "[ARGS]"}};  // up to the next, or the end
/// Spellings by which templates teach a model to call by JSON alone, or behind a control token: Llama 3,
/// Mistral, Granite.
constexpr std::string_view bare_calls[] = {"\"parameters\": dictionary", "[TOOL_CALLS]", "<|tool_call|>"};

/// Of channels: around a message's header and behind its body.
constexpr std::string_view header_ends = "<|message|>", recipient_begins = "to=functions.";
constexpr std::string_view body_ends[] = {"<|end|>", "<|return|>", "<|call|>", "<|start|>"};

/// Calls that are no JSON: a name, then keys and values.
struct TaggedForm {
    std::string_view name_begins, name_ends, key_begins, value_begins, value_ends;
};
constexpr TaggedForm tagged_forms[] = {
    {"<function=", ">", "<parameter=", ">", "</parameter>"},             // Qwen3-Coder, Seed-OSS
    {"", "\n", "<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>"},  // GLM 4.5
};

/// Calls of a name and JSON behind it, one after the other.
struct NamedForm {
    std::string_view begins, name_ends, ends;
};
constexpr NamedForm named_forms[] = {
    {"<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"},  // Kimi K2
    {"<｜tool▁call▁begin｜>function<｜tool▁sep｜>", "\n```json\n",
     "\n```<｜tool▁call▁end｜>"},                                        // DeepSeek V3 and R1
    {"<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"},  // DeepSeek V3.1
    {"", "[ARGS]", ""},                                                  // Mistral
};

/// Bytes at the end of a text by which a marker may have begun.
size_t begun(std::string_view text, std::string_view marker) {
    size_t length = std::min(text.size(), marker.size() - 1);
    while (length > 0 && !text.ends_with(marker.substr(0, length))) --length;
    return length;
}

/// Whether the text begins as a message does behind <|start|>assistant, as far as it goes.
bool begins_header(std::string_view text) {
    for (const std::string_view sign : {std::string_view("<|"), std::string_view(" to=")})
        if (text.starts_with(sign.substr(0, text.size()))) return true;
    return false;
}

std::string_view trimmed(std::string_view text) {
    const size_t first = text.find_first_not_of(space);
    if (first == text.npos) return {};
    return text.substr(first, text.find_last_not_of(space) - first + 1);
}

std::optional<ReplyPart> json_call(const Json& json) {
    if (!json.is_object() || !json.contains("name") || !json["name"].is_string()) return std::nullopt;
    for (const char* key : {"arguments", "parameters"}) {
        if (!json.contains(key)) continue;
        const Json& arguments = json[key];
        if (arguments.is_object()) return ReplyPart{ReplyPart::Kind::call, arguments.dump(), json["name"]};
        if (arguments.is_string()) return ReplyPart{ReplyPart::Kind::call, arguments, json["name"]};
    }
    return std::nullopt;
}

/// Takes what lies between `before` and `after` from the text; nothing if it is not there.
std::optional<std::string_view> between(std::string_view& text, std::string_view before,
                                        std::string_view after) {
    const size_t first = text.find(before);
    if (first == text.npos) return std::nullopt;
    const size_t begin = first + before.size(), end = text.find(after, begin);
    if (end == text.npos) return std::nullopt;
    const std::string_view found = text.substr(begin, end - begin);
    text.remove_prefix(end + after.size());
    return found;
}

/// Values are text or JSON by the tool's types, and where these are not known, JSON if they can be.
Json value_of(std::string_view text, const ReplyForm& form, const std::string& function,
              const std::string& key) {
    if (text.starts_with('\n')) text.remove_prefix(1);
    if (text.ends_with('\n')) text.remove_suffix(1);
    const std::map<std::string, std::string>& types = form.tools.at(function);
    const auto type = types.find(key);
    const Json parsed =
        type != types.end() && type->second == "string" ? Json(Json::value_t::discarded) : shallow_json(text);
    return parsed.is_discarded() ? Json(text) : parsed;
}

/// Of a function that there is.
std::optional<ReplyPart> tagged_call(std::string_view text, const TaggedForm& tags, const ReplyForm& form) {
    const std::string line = std::string(text) + "\n";
    std::string_view rest = line;
    const std::optional<std::string_view> name = between(rest, tags.name_begins, tags.name_ends);
    const std::string function(name ? trimmed(*name) : "");
    if (!form.tools.count(function)) return std::nullopt;
    Json arguments = Json::object();
    while (const std::optional<std::string_view> key = between(rest, tags.key_begins, tags.value_begins)) {
        const std::optional<std::string_view> value = between(rest, "", tags.value_ends);
        if (!value) return std::nullopt;
        arguments[std::string(*key)] = value_of(*value, form, function, std::string(*key));
    }
    return ReplyPart{ReplyPart::Kind::call, arguments.dump(), function};
}

constexpr std::string_view space_of_names = "functions.";

/// "functions.NAME:0" of Kimi K2, "NAME[CALL_ID]..." of Mistral: the name.
std::string plain_name(std::string_view text) {
    text = trimmed(text.substr(0, text.find("[CALL_ID]")));
    if (text.starts_with(space_of_names)) text.remove_prefix(space_of_names.size());
    return std::string(text.substr(0, text.rfind(':')));
}

/// Calls of functions that there are; none, if one is wrong.
std::vector<ReplyPart> named_calls(std::string_view text, const NamedForm& form, const ReplyForm& reply) {
    std::vector<ReplyPart> calls;
    for (; !text.empty(); text = trimmed(text)) {
        if (!text.starts_with(form.begins)) return {};
        const std::optional<std::string_view> name = between(text, form.begins, form.name_ends);
        if (!name) return {};
        const size_t end = form.ends.empty() ? text.npos : text.find(form.ends);
        const Json arguments = shallow_json(text.substr(0, end));
        if (!arguments.is_object() || !reply.tools.count(plain_name(*name))) return {};
        const std::string_view id = trimmed(*name);
        calls.push_back({ReplyPart::Kind::call, arguments.dump(), plain_name(id),
                         std::string(id.starts_with(space_of_names) ? id : "")});
        text = end == text.npos ? "" : text.substr(end + form.ends.size());
    }
    return calls;
}

/// Takes a Python value, up to the comma or bracket behind it, and gives it back as JSON, if it can be: what
/// is no literal is not valid there either.
std::string python_value(std::string_view& text) {
    constexpr std::pair<std::string_view, std::string_view> words[] = {
        {"True", "true"}, {"False", "false"}, {"None", "null"}};
    std::string json;
    char quote = 0;
    for (size_t depth = 0; !text.empty(); text.remove_prefix(1)) {
        const char c = text.front();
        if (quote) {
            if (c == '\\' && text.size() > 1) {
                text.remove_prefix(1);
                const char escaped = text.front();
                if (escaped == 'x')
                    json += "\\u00";
                else if (escaped != '\'')
                    json += {'\\', escaped};
                else
                    json += escaped;
            } else if (c == quote) {
                json += '"';
                quote = 0;
            } else if (c == '"') {
                json += "\\\"";
            } else if (static_cast<uint8_t>(c) < 0x20) {  // which JSON has no other way
                char code[7];
                std::snprintf(code, sizeof code, "\\u%04x", c);
                json += code;
            } else {
                json += c;
            }
            continue;
        }
        if (depth == 0 && (c == ',' || c == ')')) return json;
        if (const auto word =
                std::ranges::find_if(words, [&](auto& each) { return text.starts_with(each.first); });
            word != std::end(words)) {
            json += word->second;
            text.remove_prefix(word->first.size() - 1);
            continue;
        }
        depth += c == '[' || c == '{';
        depth -= depth && (c == ']' || c == '}');
        if (c == '"' || c == '\'') quote = c;
        json += quote ? '"' : c;
    }
    return json;
}

bool is_identifier(std::string_view text) {
    return !text.empty() && std::ranges::all_of(text, [](char c) {
        return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    });
}

/// "[f(a=1, b='x'), g()]" of LFM2: calls of functions that there are, or none.
std::vector<ReplyPart> python_calls(std::string_view text, const ReplyForm& form) {
    if (text.starts_with('[') && text.ends_with(']')) text = trimmed(text.substr(1, text.size() - 2));
    std::vector<ReplyPart> calls;
    do {
        const std::optional<std::string_view> name = between(text, "", "(");
        const std::string function(name ? trimmed(*name) : "");
        if (!form.tools.count(function)) return {};
        Json arguments = Json::object();
        while (!(text = trimmed(text)).starts_with(')')) {
            const std::optional<std::string_view> key = between(text, "", "=");
            if (!key || !is_identifier(trimmed(*key))) return {};
            const Json value = shallow_json(python_value(text));
            if (value.is_discarded() || text.empty()) return {};
            arguments[std::string(trimmed(*key))] = value;
            if (text.front() == ',') text.remove_prefix(1);
        }
        calls.push_back({ReplyPart::Kind::call, arguments.dump(), function});
        text = trimmed(text.substr(1));
        if (!text.empty() && text.front() != ',') return {};
        if (!text.empty()) text = trimmed(text.substr(1));
    } while (!text.empty());
    return calls;
}

/// The calls that a text is made of; none if it is something else.
std::vector<ReplyPart> calls_in(std::string_view text, const ReplyForm& form) {
    text = trimmed(text);
    for (const std::string_view sign : bare_calls)
        if (form.bare_calls && text.starts_with(sign)) text.remove_prefix(sign.size());
    std::vector<ReplyPart> calls;
    if (form.call.special) {
        for (const NamedForm& named : named_forms)
            if (calls = named_calls(text, named, form); !calls.empty()) return calls;
        if (calls = python_calls(text, form); !calls.empty()) return calls;
    } else {
        for (const TaggedForm& tags : tagged_forms)
            if (const std::optional<ReplyPart> call = tagged_call(text, tags, form)) return {*call};
    }
    const Json json = shallow_json(text);
    for (const Json& each : json.is_array() ? json : Json::array({json})) {
        const std::optional<ReplyPart> call = json_call(each);
        if (!call) return {};
        calls.push_back(*call);
    }
    return calls;
}

}  // namespace

Json shallow_json(std::string_view text) try {
    return parse_shallow<Json>(text, "JSON");
} catch (const Error&) {
    return Json(Json::value_t::discarded);
}

ReplyForm reply_form(std::string_view chat_template, std::string_view prompt, const Json& tools) {
    const auto has = [&](std::string_view text) { return chat_template.find(text) != chat_template.npos; };
    const auto found = [&](std::span<const Markers> all) {
        for (const Markers& each : all)
            if (each.sign.empty() ? has(each.begin) || has(each.end) : has(each.sign)) return each;
        return Markers();
    };
    ReplyForm form;
    form.channels = has("<|channel|>") && has(header_ends);
    if (form.channels) return form;
    form.thought = found(thought_markers);
    form.opens_thought = !form.thought.begin.empty() && trimmed(prompt).ends_with(form.thought.begin);
    if (!tools.is_array() || tools.empty()) return form;
    form.call = found(call_markers);
    form.bare_calls = form.call.begin.empty() && std::ranges::any_of(bare_calls, has);
    for (const Json& tool : tools) {
        const Json function = tool.is_object() ? tool.value("function", Json()) : Json();
        if (!function.is_object() || !function.contains("name") || !function["name"].is_string()) continue;
        auto& types = form.tools[function["name"]];
        const auto properties = Json::json_pointer("/parameters/properties");
        if (!function.contains(properties) || !function[properties].is_object()) continue;
        for (const auto& [key, schema] : function[properties].items())
            if (schema.is_object() && schema.contains("type") && schema["type"].is_string())
                types[key] = schema["type"];
    }
    return form;
}

ReplyParts::ReplyParts(ReplyForm form)
    : form_(std::move(form)), state_(form_.opens_thought ? State::thought : State::start) {}

std::vector<ReplyParts::Turn> ReplyParts::turns() const {
    if (state_ == State::thought) return {{form_.thought.end, State::content}};
    if (state_ == State::call && form_.call.end.empty()) return {{form_.call.begin, State::call}};
    if (state_ == State::call) return {{form_.call.end, State::content}};
    std::vector<Turn> all;
    if (state_ == State::start && !form_.thought.begin.empty())
        all.push_back({form_.thought.begin, State::thought});
    if (!form_.call.begin.empty()) all.push_back({form_.call.begin, State::call});
    return all;
}

void ReplyParts::take_text(std::string_view text, std::vector<ReplyPart>& parts) {
    const size_t last = text.find_last_not_of(space);
    if (last == text.npos) {
        if (began_) space_ += text;
        return;
    }
    if (!began_) text.remove_prefix(text.find_first_not_of(space));
    const std::string_view shown = trimmed(text);
    const size_t end = size_t(shown.data() - text.data()) + shown.size();
    const auto kind = state_ == State::thought ? ReplyPart::Kind::thought : ReplyPart::Kind::content;
    parts.push_back({kind, space_ + std::string(text.substr(0, end))});
    space_ = text.substr(end);
    began_ = true;
    if (state_ == State::start) state_ = State::content;
}

void ReplyParts::take_call(std::string_view text, std::vector<ReplyPart>& parts) {
    const std::vector<ReplyPart> calls = calls_in(text, form_);
    parts.insert(parts.end(), calls.begin(), calls.end());
    if (calls.empty())
        parts.push_back({ReplyPart::Kind::content,
                         std::string(form_.call.begin) + std::string(text) + std::string(form_.call.end)});
}

void ReplyParts::drop_held(size_t bytes) {
    held_.erase(0, bytes);
    searched_ -= std::min(searched_, bytes);
}

/// Whether `held_` had a marker.
bool ReplyParts::take_marker(std::vector<ReplyPart>& parts) {
    size_t at = std::string::npos;
    Turn found{};
    size_t keep = 0;
    for (const Turn& turn : turns()) {
        keep = std::max(keep, begun(held_, turn.marker));
        if (const size_t here = held_.find(turn.marker, searched_); here < at) {
            at = here;
            found = turn;
        }
    }
    if (at == std::string::npos) {
        searched_ = held_.size() - keep;
        return false;
    }
    const std::string before = held_.substr(0, at);
    drop_held(at + found.marker.size());
    if (state_ == State::call) {
        take_call(before, parts);
    } else {
        take_text(before, parts);
        // Thoughts come first: behind other text the marker is text.
        if (found.to == State::thought && state_ != State::start) {
            take_text(found.marker, parts);
            return true;
        }
    }
    state_ = found.to;
    space_.clear();
    began_ = false;
    return true;
}

void ReplyParts::take_header(std::string_view header) {
    recipient_.clear();
    if (const size_t to = header.find(recipient_begins); to != header.npos) {
        const std::string_view name = header.substr(to + recipient_begins.size());
        recipient_ = name.substr(0, name.find_first_of(" \t\r\n<"));
    }
    const bool thinks = header.find("<|channel|>analysis") != header.npos;
    state_ = !recipient_.empty() ? State::call : thinks ? State::thought : State::content;
}

void ReplyParts::take_body(const std::string& text, std::vector<ReplyPart>& parts) {
    if (text.empty()) return;
    if (state_ == State::call)
        parts.push_back({ReplyPart::Kind::call, text, recipient_});
    else
        parts.push_back(
            {state_ == State::thought ? ReplyPart::Kind::thought : ReplyPart::Kind::content, text});
}

void ReplyParts::take_channels(std::vector<ReplyPart>& parts) {
    while (true) {
        // What has no header is an answer: a grammar made the model write it.
        if (state_ == State::start && !held_.empty() && !begins_header(held_)) state_ = State::content;
        if (state_ == State::start) {
            const size_t end = held_.find(header_ends, searched_);
            if (end == held_.npos) {
                searched_ = held_.size() - begun(held_, header_ends);
                return;
            }
            take_header(std::string_view(held_).substr(0, end));
            drop_held(end + header_ends.size());
        }
        size_t end = held_.npos, length = 0, keep = 0;
        for (const std::string_view marker : body_ends) {
            if (const size_t at = held_.find(marker, searched_); at < end) end = at, length = marker.size();
            keep = std::max(keep, begun(held_, marker));
        }
        const bool ended = end != held_.npos;
        if (!ended) end = held_.size() - keep;
        searched_ = end;
        if (!ended && state_ == State::call) return;  // which is given away as a whole
        take_body(held_.substr(0, end), parts);
        drop_held(end + length);
        if (!ended) return;
        state_ = State::start;
    }
}

std::vector<ReplyPart> ReplyParts::push(std::string_view text) {
    std::vector<ReplyPart> parts;
    if (form_.channels) {
        held_ += text;
        take_channels(parts);
        return parts;
    }
    if (form_.thought.begin.empty() && form_.call.begin.empty() && !form_.bare_calls) {
        if (!text.empty()) parts.push_back({ReplyPart::Kind::content, std::string(text)});
        return parts;
    }
    held_ += text;
    while (take_marker(parts)) {
    }
    if (state_ == State::call) return parts;
    if (may_be_call()) {
        drop_held(std::min(held_.find_first_not_of(space), held_.size()));
        if (held_.empty() || held_.front() == '{' || held_.front() == '[') return parts;  // finish() tells
    }
    const std::string certain = held_.substr(0, searched_);
    drop_held(searched_);
    take_text(certain, parts);
    return parts;
}

std::vector<ReplyPart> ReplyParts::finish() {
    std::vector<ReplyPart> parts;
    if (form_.channels) {
        if (state_ != State::start || !begins_header(held_)) {
            if (state_ == State::start) state_ = State::content;
            take_body(held_, parts);
        }
        return parts;
    }
    if (state_ == State::call) {
        const std::vector<ReplyPart> calls = calls_in(held_, form_);  // of which the end was left out
        if (!calls.empty()) return calls;
        return {{ReplyPart::Kind::content, std::string(form_.call.begin) + held_}};
    }
    if (may_be_call())
        if (const std::vector<ReplyPart> calls = calls_in(held_, form_); !calls.empty()) return calls;
    take_text(held_, parts);
    if (began_ && state_ != State::thought && !space_.empty())
        parts.push_back({ReplyPart::Kind::content, space_});
    return parts;
}

}  // namespace scoria
