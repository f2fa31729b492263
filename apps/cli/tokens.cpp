// tokenize, detokenize, template: the text side of a model, without a device.
#include "common.h"
#include "io.h"
#include "messages.h"
#include "values.h"
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
        std::string file, messages, tools, variables, now, bos, eos;
        bool no_generation_prompt = false;
    };
    auto options = std::make_shared<Options>();
    app.add_option("--template", options->file, "a file with a chat template, instead of the model's");
    app.add_option(
           "--messages", options->messages,
           "JSON file: [{\"role\": ..., \"content\": ...}, ...], or an object with \"messages\" and, if "
           "wanted, \"tools\", \"documents\" and \"variables\" (-: stdin)")
        ->required();
    app.add_option("--tools", options->tools, "JSON file: an array of tools");
    app.add_option("--variables", options->variables,
                   "JSON: more variables, e.g. {\"enable_thinking\": false}");
    app.add_option("--now", options->now, "the time that the template sees, e.g. 2026-03-14T09:26:53");
    app.add_option("--bos", options->bos, "the text of the BOS token, with --template");
    app.add_option("--eos", options->eos, "the text of the EOS token, with --template");
    app.add_flag("--no-generation-prompt", options->no_generation_prompt,
                 "do not open the assistant's answer");
    return [options, &app, &common] {
        check_alone(app, {{"--template", {"--model"}}});
        check_company(app, {{"--bos", {"--template"}}, {"--eos", {"--template"}}});
        scoria::Conversation conversation =
            parse_conversation(options->messages, read_text(options->messages));
        if (!options->tools.empty()) {
            conversation.tools = parse_json(options->tools, read_text(options->tools));
            if (!conversation.tools.is_array())
                fail(Status::bad_file, options->tools, "expected an array of tools, got ",
                     conversation.tools.type_name());
        }
        if (!options->variables.empty()) {
            const nlohmann::ordered_json more = parse_json("--variables", options->variables);
            if (!more.is_object())
                fail(Status::bad_argument, "--variables", "expected a JSON object, got ", more.type_name());
            conversation.variables.update(more);
        }
        if (!options->now.empty()) conversation.now = parse_time("--now", options->now);
        conversation.add_generation_prompt = !options->no_generation_prompt;
        const ChatTemplate chat = options->file.empty()
                                      ? load_model(common)->chat_template
                                      : ChatTemplate(read_text(options->file), options->bos, options->eos);
        if (chat.empty())
            fail(Status::unsupported, "template", "expected a chat template in the model, got none");
        print(chat.render(conversation).text);
        return 0;
    };
}

}  // namespace scoria::cli
