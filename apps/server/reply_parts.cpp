// See reply_parts.h.
#include "reply_parts.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>

namespace scoria::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view space = " \t\r\n";
constexpr std::string_view thought_begins = "<think>", thought_ends = "</think>";
constexpr std::string_view call_begins = "<tool_call>", call_ends = "</tool_call>";
/// Spellings by which templates teach the model to call a function by JSON alone: Llama 3, Mistral.
constexpr std::string_view bare_calls[] = {"\"parameters\": dictionary", "[TOOL_CALLS]"};

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

/// <function=NAME> <parameter=KEY> value </parameter> ... </function>, values without their outer line ends.
std::optional<ReplyPart> tagged_call(std::string_view text, const ReplyForm& form) {
    const std::optional<std::string_view> name = between(text, "<function=", ">");
    const size_t end = text.rfind("</function>");
    if (!name || end == text.npos) return std::nullopt;
    text = text.substr(0, end);
    const auto known = form.types.find(std::string(*name));
    Json arguments = Json::object();
    while (const std::optional<std::string_view> key = between(text, "<parameter=", ">")) {
        const size_t close = text.find("</parameter>");
        if (close == text.npos) return std::nullopt;
        std::string_view value = text.substr(0, close);
        text.remove_prefix(close);
        if (value.starts_with('\n')) value.remove_prefix(1);
        if (value.ends_with('\n')) value.remove_suffix(1);
        const std::string parameter(*key);
        const bool is_text = known != form.types.end() && known->second.count(parameter) &&
                             known->second.at(parameter) == "string";
        const Json parsed = is_text ? Json() : Json::parse(value, nullptr, false);
        arguments[parameter] = is_text || parsed.is_discarded() ? Json(value) : parsed;
    }
    return ReplyPart{ReplyPart::Kind::call, arguments.dump(), std::string(*name)};
}

/// The calls that a text is made of; none if it is something else.
std::vector<ReplyPart> calls_in(std::string_view text, const ReplyForm& form) {
    text = trimmed(text);
    if (text.starts_with("<function=")) {
        const std::optional<ReplyPart> call = tagged_call(text, form);
        return call ? std::vector{*call} : std::vector<ReplyPart>();
    }
    const Json json = Json::parse(text, nullptr, false);
    std::vector<ReplyPart> calls;
    for (const Json& each : json.is_array() ? json : Json::array({json})) {
        const std::optional<ReplyPart> call = json_call(each);
        if (!call) return {};
        calls.push_back(*call);
    }
    return calls;
}

}  // namespace

ReplyForm reply_form(std::string_view chat_template, std::string_view prompt, const Json& tools) {
    const auto has = [&](std::string_view text) { return chat_template.find(text) != chat_template.npos; };
    ReplyForm form;
    form.thinks = has(thought_begins) || has(thought_ends);
    form.opens_thought = form.thinks && trimmed(prompt).ends_with(thought_begins);
    if (!tools.is_array() || tools.empty()) return form;
    if (has(call_begins))
        form.calls = ReplyForm::Calls::marked;
    else if (std::ranges::any_of(bare_calls, has))
        form.calls = ReplyForm::Calls::bare;
    for (const Json& tool : tools) {
        const Json function = tool.is_object() ? tool.value("function", Json()) : Json();
        if (!function.is_object() || !function.contains("name") || !function["name"].is_string()) continue;
        const auto properties = Json::json_pointer("/parameters/properties");
        if (!function.contains(properties) || !function[properties].is_object()) continue;
        for (const auto& [key, schema] : function[properties].items())
            if (schema.is_object() && schema.contains("type") && schema["type"].is_string())
                form.types[function["name"]][key] = schema["type"];
    }
    return form;
}

ReplyParts::ReplyParts(ReplyForm form)
    : form_(std::move(form)), state_(form_.opens_thought ? State::thought : State::start) {}

std::vector<ReplyParts::Marker> ReplyParts::markers() const {
    std::vector<Marker> all;
    if (state_ == State::thought) return {{thought_ends, State::content}};
    if (state_ == State::call) return {{call_ends, State::content}};
    if (state_ == State::start && form_.thinks) all.push_back({thought_begins, State::thought});
    if (form_.calls == ReplyForm::Calls::marked) all.push_back({call_begins, State::call});
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
                         std::string(call_begins) + std::string(text) + std::string(call_ends)});
}

/// Whether `held_` had a marker.
bool ReplyParts::take_marker(std::vector<ReplyPart>& parts) {
    size_t at = std::string::npos;
    Marker found{};
    for (const Marker& marker : markers())
        if (const size_t here = held_.find(marker.text); here < at) {
            at = here;
            found = marker;
        }
    if (at == std::string::npos) return false;
    const std::string before = held_.substr(0, at);
    held_.erase(0, at + found.text.size());
    if (state_ == State::call) {
        take_call(before, parts);
    } else {
        take_text(before, parts);
        // Thoughts come first: behind other text the marker is text.
        if (found.to == State::thought && state_ != State::start) {
            take_text(found.text, parts);
            return true;
        }
    }
    state_ = found.to;
    space_.clear();
    began_ = false;
    return true;
}

std::vector<ReplyPart> ReplyParts::push(std::string_view text) {
    std::vector<ReplyPart> parts;
    if (form_.calls == ReplyForm::Calls::none && !form_.thinks) {
        if (!text.empty()) parts.push_back({ReplyPart::Kind::content, std::string(text)});
        return parts;
    }
    held_ += text;
    while (take_marker(parts)) {
    }
    if (state_ == State::call) return parts;
    if (state_ == State::start && form_.calls == ReplyForm::Calls::bare) {
        const std::string_view begin = trimmed(held_);
        if (begin.empty() || begin.front() == '{' || begin.front() == '[') return parts;  // finish() tells
    }
    size_t keep = 0;
    for (const Marker& marker : markers())
        for (size_t length = std::min(held_.size(), marker.text.size() - 1); length > keep; --length)
            if (held_.ends_with(marker.text.substr(0, length))) keep = length;
    const std::string certain = held_.substr(0, held_.size() - keep);
    held_.erase(0, certain.size());
    take_text(certain, parts);
    return parts;
}

std::vector<ReplyPart> ReplyParts::finish() {
    std::vector<ReplyPart> parts;
    if (state_ == State::call) {
        const std::vector<ReplyPart> calls = calls_in(held_, form_);  // of which the end was left out
        if (!calls.empty()) return calls;
        return {{ReplyPart::Kind::content, std::string(call_begins) + held_}};
    }
    if (state_ == State::start && form_.calls == ReplyForm::Calls::bare)
        if (const std::vector<ReplyPart> calls = calls_in(held_, form_); !calls.empty()) return calls;
    take_text(held_, parts);
    if (began_ && state_ != State::thought && !space_.empty())
        parts.push_back({ReplyPart::Kind::content, space_});
    return parts;
}

}  // namespace scoria::server
