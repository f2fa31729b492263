// The ChatML family: templates are recognised by their text, which a rendering rule then replaces.
#include "chat_template.h"

#include "fail.h"

namespace scoria {

ChatTemplate::ChatTemplate(std::string source, std::string bos, std::string eos)
    : source_(std::move(source)), bos_(std::move(bos)), eos_(std::move(eos)) {}

namespace {

// "<|im_start|>role\ncontent<|im_end|>\n" per message (OpenAI's ChatML), after a default system message where
// the conversation does not begin with one. SmolLM2 and Qwen2 share this source but for that message; the
// whole source is compared, since a part could not prove that nothing else is rendered.
constexpr std::string_view before_default = "{% for message in messages %}{% if loop.first and "
                                            "messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n";
constexpr std::string_view after_default =
    "<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

/// The default system message of a ChatML template with one, or nothing if the template is another.
std::optional<std::string_view> default_system(std::string_view source) {
    if (!source.starts_with(before_default) || !source.ends_with(after_default)) return std::nullopt;
    if (source.size() < before_default.size() + after_default.size()) return std::nullopt;
    source.remove_prefix(before_default.size());
    source.remove_suffix(after_default.size());
    // Anything that ends or escapes the string literal would make it another template.
    if (source.find_first_of("'\\") != source.npos) return std::nullopt;
    return source;
}

void append_message(std::string& out, std::string_view role, std::string_view content) {
    out += cat("<|im_start|>", role, "\n", content, "<|im_end|>\n");
}

}  // namespace

std::string ChatTemplate::render(std::span<const Message> messages, bool add_generation_prompt) const {
    const std::optional<std::string_view> system = default_system(source_);
    if (!system)
        fail(Status::unsupported, "chat template",
             "this build renders ChatML templates only, and this is another");
    std::string out;
    if (!messages.empty() && messages.front().role != "system") append_message(out, "system", *system);
    for (const Message& message : messages) append_message(out, message.role, message.content);
    if (add_generation_prompt) out += "<|im_start|>assistant\n";
    return out;
}

}  // namespace scoria
