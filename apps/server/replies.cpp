// See replies.h.
#include "replies.h"

#include "grammar/unicode_text.h"

#include <algorithm>
#include <random>

namespace scoria::server {
namespace {

const char* reason_name(StopReason reason) {
    return reason == StopReason::end_of_generation || reason == StopReason::stop_string ? "stop" : "length";
}

}  // namespace

std::string random_id(size_t length) {
    constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyz0123456789";
    std::random_device random;
    std::string id;
    while (id.size() < length) id += letters[random() % letters.size()];
    return id;
}

std::string call_id(const ReplyPart& call) { return call.id.empty() ? random_id(9) : call.id; }

namespace {

/// A token's bytes, of which JSON's text cannot show all.
Json bytes_of(std::string_view piece) {
    Json bytes = Json::array();
    for (const char c : piece) bytes.push_back(uint8_t(c));
    return bytes;
}

}  // namespace

std::vector<ReplyPart> parts_of(const News& news, ReplyParts& parts) {
    std::vector<ReplyPart> all = parts.push(news.text);
    if (news.result)
        for (ReplyPart& part : parts.finish()) all.push_back(std::move(part));
    return all;
}

Json token_list(const Tokenizer& tokenizer, std::span<const TokenId> ids, bool with_pieces) {
    const auto is_utf8 = [](std::string_view text) {
        while (const auto step = text.empty() ? std::nullopt : grammar::utf8_step(text))
            text.remove_prefix(step->bytes);
        return text.empty();
    };
    Json list = Json::array();
    for (const TokenId id : ids) {
        if (!with_pieces) {
            list.push_back(id);
            continue;
        }
        const std::string piece = tokenizer.piece(id, true);
        const Json shown = is_utf8(piece) ? Json(piece) : bytes_of(piece);
        list.push_back({{"id", id}, {"piece", shown}});
    }
    return list;
}

Json error_json(std::string_view message, std::string_view type, const Json& code) {
    return {{"error", {{"message", message}, {"type", type}, {"param", nullptr}, {"code", code}}}};
}

std::string event_text(const Json& json) { return "data: " + json_text(json) + "\n\n"; }

Json logprob_entries(const Tokenizer& tokenizer, const std::vector<TokenLogprobs>& tokens) {
    const auto entry = [&](TokenId id, float logprob) {
        const std::string piece = tokenizer.piece(id, true);
        return Json{{"token", piece}, {"logprob", logprob}, {"bytes", bytes_of(piece)}};
    };
    Json entries = Json::array();
    for (const TokenLogprobs& token : tokens) {
        entries.push_back(entry(token.token, token.logprob));
        entries.back()["top_logprobs"] = Json::array();
        for (const auto& [id, logprob] : token.best)
            entries.back()["top_logprobs"].push_back(entry(id, logprob));
    }
    return entries;
}

ChoicesReply::ChoicesReply(ReplyNames names, const Tokenizer& tokenizer, size_t answers,
                           const std::optional<ReplyForm>& form, size_t prompt_tokens, bool usage_at_end)
    : names_(std::move(names)), tokenizer_(tokenizer), chat_(form.has_value()), choices_(answers),
      prompt_tokens_(prompt_tokens), usage_at_end_(usage_at_end) {
    if (form)
        for (Choice& choice : choices_) choice.parts.emplace(*form);
}

Json ChoicesReply::frame(const char* kind) const {
    return {{"id", names_.id}, {"object", kind}, {"created", names_.created}, {"model", names_.model}};
}

std::string ChoicesReply::event(Json choice) const {
    Json json = frame(chat_ ? "chat.completion.chunk" : "text_completion");
    json["choices"] = Json::array({std::move(choice)});
    if (usage_at_end_) json["usage"] = nullptr;
    return event_text(json);
}

/// Of a chat an array of entries. Of completions four arrays side by side.
Json ChoicesReply::logprobs_of(const std::vector<TokenLogprobs>& tokens) const {
    if (chat_) return {{"content", logprob_entries(tokenizer_, tokens)}};
    const auto piece = [&](TokenId id) { return tokenizer_.piece(id, true); };
    Json all{{"tokens", Json::array()}, {"token_logprobs", Json::array()}, {"top_logprobs", Json::array()}};
    for (const TokenLogprobs& token : tokens) {
        all["tokens"].push_back(piece(token.token));
        all["token_logprobs"].push_back(token.logprob);
        Json best = Json::object();
        for (const auto& [id, logprob] : token.best) best[piece(id)] = logprob;
        all["top_logprobs"].push_back(std::move(best));
    }
    return all;
}

/// The delta of a chunk, which the whole answer takes in, too.
Json ChoicesReply::delta(Choice& choice, const ReplyPart& part) {
    switch (part.kind) {
    case ReplyPart::Kind::content:
        choice.text += part.text;
        return {{"content", part.text}};
    case ReplyPart::Kind::thought:
        choice.thought += part.text;
        return {{"reasoning_content", part.text}};
    case ReplyPart::Kind::call:
        break;
    }
    const size_t index = choice.calls.size();
    choice.calls.push_back({{"id", call_id(part)},
                            {"type", "function"},
                            {"function", {{"name", part.name}, {"arguments", part.text}}}});
    Json call = choice.calls.back();
    call["index"] = index;
    return {{"tool_calls", Json::array({std::move(call)})}};
}

std::string ChoicesReply::take(News news) {
    if (news.error) std::rethrow_exception(news.error);
    Choice& choice = choices_[news.answer];
    std::string events;
    const auto say = [&](Json change, Json logprobs) {
        Json each{{"index", news.answer}};
        if (chat_ && !choice.begun) change["role"] = "assistant";
        choice.begun = true;
        if (chat_)
            each["delta"] = std::move(change);
        else
            each["text"] = change.value("content", "");
        each["logprobs"] = std::move(logprobs);
        each["finish_reason"] = choice.reason.empty() ? Json() : Json(choice.reason);
        events += event(std::move(each));
    };
    Json logprobs;
    if (!news.logprobs.empty()) {
        choice.logprobs.insert(choice.logprobs.end(), news.logprobs.begin(), news.logprobs.end());
        logprobs = logprobs_of(news.logprobs);
    }
    std::vector<ReplyPart> parts;
    if (choice.parts)
        parts = parts_of(news, *choice.parts);
    else if (!news.text.empty())
        parts.push_back({ReplyPart::Kind::content, std::move(news.text)});
    for (const ReplyPart& part : parts) say(delta(choice, part), std::exchange(logprobs, Json()));
    if (!logprobs.is_null()) say(Json::object(), std::move(logprobs));
    if (news.result) {
        tokens_ += news.result->tokens.size();
        reused_ = std::max<size_t>(reused_, news.result->reused);
        choice.reason = choice.calls.empty() ? reason_name(news.result->reason) : "tool_calls";
        say(Json::object(), Json());
    }
    return events;
}

bool ChoicesReply::done() const {
    return std::ranges::none_of(choices_, [](const Choice& choice) { return choice.reason.empty(); });
}

Json ChoicesReply::usage() const {
    return {{"prompt_tokens", prompt_tokens_},
            {"completion_tokens", tokens_},
            {"total_tokens", prompt_tokens_ + tokens_},
            {"prompt_tokens_details", {{"cached_tokens", reused_}}}};
}

std::string ChoicesReply::failure(std::string_view problem) {
    return event_text(error_json(problem, "server_error"));
}

std::string ChoicesReply::end() {
    const std::string last = "data: [DONE]\n\n";
    if (!usage_at_end_) return last;
    Json json = frame(chat_ ? "chat.completion.chunk" : "text_completion");
    json["choices"] = Json::array();
    json["usage"] = usage();
    return event_text(json) + last;
}

Json ChoicesReply::whole() const {
    Json json = frame(chat_ ? "chat.completion" : "text_completion");
    json["choices"] = Json::array();
    for (const Choice& choice : choices_) {
        Json each{{"index", json["choices"].size()}};
        if (chat_) {
            const bool only_calls = choice.text.empty() && !choice.calls.empty();
            each["message"] = {{"role", "assistant"}, {"content", only_calls ? Json() : Json(choice.text)}};
            if (!choice.thought.empty()) each["message"]["reasoning_content"] = choice.thought;
            if (!choice.calls.empty()) each["message"]["tool_calls"] = choice.calls;
        } else {
            each["text"] = choice.text;
        }
        each["logprobs"] = choice.logprobs.empty() ? Json() : logprobs_of(choice.logprobs);
        each["finish_reason"] = choice.reason;
        json["choices"].push_back(std::move(each));
    }
    json["usage"] = usage();
    return json;
}

}  // namespace scoria::server
