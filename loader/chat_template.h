// Renders a conversation as the text a model was trained on. The interface is what the full Jinja
// interpreter will fill; today it recognises the templates of the models that are run (ChatML).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace scoria {

struct Message {
    std::string role;  // "system", "user", "assistant"
    std::string content;
};

class ChatTemplate {
  public:
    ChatTemplate() = default;
    explicit ChatTemplate(std::string source, std::string bos = {}, std::string eos = {});
    bool empty() const { return source_.empty(); }
    const std::string& source() const { return source_; }
    /// Errors: unsupported, when the template is one this build cannot render; failed, when the
    /// template itself refuses the messages.
    std::string render(std::span<const Message> messages, bool add_generation_prompt = true) const;

  private:
    std::string source_, bos_, eos_;
};

}  // namespace scoria
