// Renders a conversation as the text a model was trained on, by the Jinja template that its makers wrote.
#pragma once

#include "text_range.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace scoria {

namespace jinja {
class Template;
}

struct Message {
    std::string role;  // "system", "user", "assistant"
    std::string content;
};

/// A conversation with all that a template may ask for, in the order in which the user wrote it.
struct Conversation {
    nlohmann::ordered_json messages = nlohmann::ordered_json::array();
    nlohmann::ordered_json tools, documents;  // arrays, or null
    nlohmann::ordered_json variables =
        nlohmann::ordered_json::object();  // more of them: enable_thinking, ...
    bool add_generation_prompt = true;
    std::optional<int64_t>
        now;  // civil time for strftime_now, as seconds since 1970; default: the local time
};

struct ChatPrompt {
    std::string text;
    /// Bytes that came from messages, tools and variables, not from the template: EncodeOptions::literal, so
    /// that a message cannot spell control tokens.
    std::vector<TextRange> input;
};

class ChatTemplate {
  public:
    ChatTemplate() = default;
    /// Never fails: a template that is not valid fails when it is rendered.
    explicit ChatTemplate(std::string source, std::string bos = {}, std::string eos = {});
    bool empty() const { return source_.empty(); }
    const std::string& source() const { return source_; }
    /// Thread-safe. Errors: unsupported, when the template needs what this build has not; bad_file, when it
    /// is not valid; failed, when it refuses the messages, cannot do what it tries or exceeds the limits of
    /// jinja::Limits. "[template] line N: expected X, got Y".
    ChatPrompt render(const Conversation& conversation) const;
    ChatPrompt render(std::span<const Message> messages, bool add_generation_prompt = true) const;

  private:
    std::string source_, bos_, eos_;
    std::shared_ptr<const jinja::Template> parsed_;  // null: problem_ says why
    std::exception_ptr problem_;
};

}  // namespace scoria
