// tokenize, detokenize, template: the text side of a model, without a device.
#include "common.h"
#include "io.h"
#include "messages.h"
#include "verbs.h"

#include "console.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

namespace scoria::cli {

Action define_tokenize(CLI::App& app, const Common& common) {
    struct Options {
        std::string text, file;
        bool special = false;
    };
    auto options = std::make_shared<Options>();
    app.add_option("-p,--prompt", options->text, "the text (-: stdin)");
    app.add_option("-f,--file", options->file, "a file with the text");
    app.add_flag("--special", options->special,
                 "add BOS/EOS as the vocabulary says; text that spells a special token is that token");
    return [options, &common] {
        const std::shared_ptr<const Tokenizer> tokenizer = load_tokenizer(common);
        const std::string text = prompt_text("tokenize", options->text, options->file);
        print(nlohmann::json(tokenizer->encode(text, {options->special, options->special})).dump(), '\n');
        return 0;
    };
}

Action define_detokenize(CLI::App& app, const Common& common) {
    struct Options {
        std::string ids, file;
        bool special = false;
    };
    auto options = std::make_shared<Options>();
    app.add_option("--ids", options->ids, "ids, e.g. 1,2,3 or [1,2,3]; without it they are read from stdin");
    app.add_option("-f,--file", options->file, "a file with the ids");
    app.add_flag("--special", options->special, "write special tokens too");
    return [options, &common] {
        const std::shared_ptr<const Tokenizer> tokenizer = load_tokenizer(common);
        const std::vector<TokenId> ids =
            parse_ids("detokenize", prompt_text("detokenize", options->ids, options->file));
        for (const TokenId id : ids)
            if (id < 0 || uint32_t(id) >= tokenizer->size())
                fail(Status::bad_argument, "detokenize", "expected ids below ", tokenizer->size(), ", got ",
                     id);
        // Exactly the text where it goes to a file or a pipe.
        print(tokenizer->decode(ids, options->special), is_terminal(stdout) ? "\n" : "");
        return 0;
    };
}

Action define_template(CLI::App& app, const Common& common) {
    struct Options {
        std::string file, messages;
        bool no_generation_prompt = false;
    };
    auto options = std::make_shared<Options>();
    app.add_option("--template", options->file, "a file with a chat template, instead of the model's");
    app.add_option("--messages", options->messages,
                   "JSON file: [{\"role\": ..., \"content\": ...}, ...] (-: stdin)")
        ->required();
    app.add_flag("--no-generation-prompt", options->no_generation_prompt,
                 "do not open the assistant's answer");
    return [options, &common] {
        const std::vector<Message> messages = parse_messages(options->messages, read_text(options->messages));
        const ChatTemplate chat = options->file.empty() ? load_model(common)->chat_template
                                                        : ChatTemplate(read_text(options->file));
        if (chat.empty())
            fail(Status::unsupported, "template", "expected a chat template in the model, got none");
        print(chat.render(messages, !options->no_generation_prompt));
        return 0;
    };
}

}  // namespace scoria::cli
