#include "chat_template.h"

#include "fail.h"
#include "jinja/template.h"
#include "system.h"

#include <exception>

namespace scoria {

ChatTemplate::ChatTemplate(std::string source, std::string bos, std::string eos)
    : source_(std::move(source)), bos_(std::move(bos)), eos_(std::move(eos)) {
    try {
        parsed_ = std::make_shared<const jinja::Template>(source_);
    } catch (const Error&) {
        problem_ = std::current_exception();
    }
}

ChatPrompt ChatTemplate::render(const Conversation& conversation) const {
    if (empty()) fail(Status::unsupported, "template", "expected a chat template in the model, got none");
    if (!parsed_) std::rethrow_exception(problem_);
    std::vector<jinja::Variable> variables = {{"bos_token", bos_, false},
                                              {"eos_token", eos_, false},
                                              {"messages", conversation.messages},
                                              {"tools", conversation.tools},
                                              {"documents", conversation.documents},
                                              {"add_generation_prompt", conversation.add_generation_prompt}};
    for (const auto& [name, value] : conversation.variables.items()) variables.push_back({name, value});
    const jinja::Text text = parsed_->render(variables, conversation.now ? *conversation.now : local_time());
    return {text.bytes(), text.input()};
}

ChatPrompt ChatTemplate::render(std::span<const Message> messages, bool add_generation_prompt) const {
    Conversation conversation{.add_generation_prompt = add_generation_prompt};
    for (const Message& message : messages)
        conversation.messages.push_back({{"role", message.role}, {"content", message.content}});
    return render(conversation);
}

}  // namespace scoria
