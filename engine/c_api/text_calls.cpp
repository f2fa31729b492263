// Tokens and chat templates of the C interface.
#include "conversation.h"
#include "objects.h"

using namespace scoria;
using namespace scoria::c_api;

namespace {

static_assert(offsetof(scoria_chat_options, reserved) + 4 == sizeof(scoria_chat_options));

ChatPrompt render(const EngineUse& engine, const scoria_chat_options* given) {
    const auto options = versioned(given, scoria_chat_options{.size = sizeof(scoria_chat_options)});
    require(options.messages || !options.message_count, "messages for their count");
    require(!options.json || !options.message_count, "messages or json, not both");
    const ChatTemplate& chat_template = engine->model->chat_template;
    if (chat_template.empty())
        fail(Status::unsupported, "chat", "expected a chat template in the model, got none");
    Conversation conversation;
    if (options.json) conversation = parse_conversation("json", options.json);
    for (size_t i = 0; i < options.message_count; ++i) {
        const scoria_message& message = options.messages[i];
        require(message.role && message.content, "a role and a content for every message");
        conversation.messages.push_back({{"role", message.role}, {"content", message.content}});
    }
    conversation.add_generation_prompt = !options.no_generation_prompt;
    return chat_template.render(conversation);
}

}  // namespace

scoria_status scoria_tokenize(scoria_engine* engine, const char* text, size_t bytes, uint32_t flags,
                              int32_t* ids, size_t capacity, size_t* count) {
    return guarded([&] {
        const EngineUse use(engine);
        const std::string_view whole = text_of(text, bytes);
        require(flags <= (SCORIA_ADD_SPECIAL | SCORIA_PARSE_SPECIAL), "flags that this version knows");
        const EncodeOptions options{(flags & SCORIA_ADD_SPECIAL) != 0, (flags & SCORIA_PARSE_SPECIAL) != 0};
        const std::vector<TokenId> all = use.tokenizer().encode(whole, options);
        give_array(all.data(), all.size(), ids, capacity, count);
    });
}

scoria_status scoria_detokenize(scoria_engine* engine, const int32_t* ids, size_t count, int special,
                                char* text, size_t capacity, size_t* length) {
    return guarded([&] {
        const EngineUse use(engine);
        const Tokenizer& tokenizer = use.tokenizer();
        const std::span<const TokenId> all = ids_of(ids, count);
        for (const TokenId id : all)
            if (id < 0 || uint32_t(id) >= tokenizer.size())
                fail(Status::bad_argument, "tokens", "expected ids from 0 to ", tokenizer.size() - 1,
                     ", got ", id);
        give_text(tokenizer.decode(all, special != 0), text, capacity, length);
    });
}

scoria_status scoria_chat_text(scoria_engine* engine, const scoria_chat_options* options, char* text,
                               size_t capacity, size_t* length) {
    return guarded([&] { give_text(render(EngineUse(engine), options).text, text, capacity, length); });
}

scoria_status scoria_chat_tokens(scoria_engine* engine, const scoria_chat_options* options, int32_t* ids,
                                 size_t capacity, size_t* count) {
    return guarded([&] {
        const EngineUse use(engine);
        const std::vector<TokenId> all = encode_prompt(use.tokenizer(), render(use, options));
        give_array(all.data(), all.size(), ids, capacity, count);
    });
}
