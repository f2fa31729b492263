// scoria: one program, a table of verbs. Results on stdout, messages on stderr; exit code 0 for success,
// 1 for failure, 2 for wrong usage, 130 when Ctrl-C came before there was anything to show.
#include "common.h"
#include "io.h"
#include "values.h"
#include "verbs.h"

#include "console.h"
#include "log.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iterator>
#include <new>
#include <sstream>
#include <utility>
#include <vector>

namespace scoria::cli {
namespace {

constexpr int exit_failed = 1, exit_usage = 2, exit_interrupted = 130;

constexpr Verb verbs[] = {
    {"devices", "Vulkan devices: what each can do, which one is used", define_devices},
    {"pull", "fetch a model into the cache", define_pull},
    {"list", "models in the cache", define_list},
    {"rm", "remove a model from the cache", define_rm},
    {"run", "one answer, streamed", define_run},
    {"chat", "a conversation in the terminal", define_chat},
#ifdef SCORIA_SERVER
    {"serve", "the OpenAI API (and Anthropic's messages) over HTTP, and a page to chat in", define_serve},
#endif
    {"inspect", "architecture, tensors, tokenizer and size of a model file", define_inspect},
    {"plan", "where a model's bytes go on this device", define_plan},
    {"tokenize", "text to token ids, as JSON", define_tokenize},
    {"detokenize", "token ids to text", define_detokenize},
    {"template", "messages rendered by the model's chat template", define_template},
    {"embed", "sentence embeddings", define_embed},
    {"rank", "documents by how well they answer a query", define_rank},
    {"forward", "logits and hidden states of a token sequence, as safetensors", define_forward},
    {"perplexity", "how well a model predicts a text", define_perplexity},
    {"quantize", "rewrite a model in another type: smaller, or for exchange", define_quantize},
    {"imatrix", "how much each column of the weights counts on a text, for quantize", define_imatrix},
    {"convert", "rewrite a model with fewer key/value heads", define_convert},
    {"look", "inside a forward pass: attention maps, norms, logit lens", define_look},
    {"bench", "tokens per second of prompt and generation", define_bench},
    {"tune", "find the fastest variants for a model on this device", define_tune},
    {"validate", "compare every kernel on this device with the double-precision reference", define_validate},
};

int run(const std::vector<std::string>& arguments) {
    CLI::App app("Scoria runs transformer models on any GPU with a Vulkan driver.", "scoria");
    app.set_version_flag("--version", "scoria 0.1.0");
    app.require_subcommand(1);
    app.failure_message(CLI::FailureMessage::simple);
    app.allow_windows_style_options(false);  // on Windows, too, a path may begin with a slash
    Common common;
    std::vector<std::pair<CLI::App*, Action>> actions;
    for (const Verb& verb : verbs) {
        CLI::App* sub = app.add_subcommand(verb.name, verb.help);
        sub->failure_message(CLI::FailureMessage::simple);
        actions.emplace_back(sub, verb.define(*sub, common));
        add_common_flags(*sub, common);
        check_values(*sub);
    }
    // CLI11 would only say that a subcommand is missing.
    if (arguments.size() > 1 && !arguments[1].starts_with('-') &&
        std::none_of(std::begin(verbs), std::end(verbs),
                     [&](const Verb& verb) { return arguments[1] == verb.name; })) {
        note("scoria: expected a verb (scoria --help lists them), got '", arguments[1], "'");
        return exit_usage;
    }
    try {
        app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend() - !arguments.empty()));
    } catch (const CLI::ParseError& error) {
        std::ostringstream out, err;  // what is asked for is a result like any other
        const int code = app.exit(error, out, err);
        write_note(err.str());
        print(out.str());
        return code == 0 ? 0 : exit_usage;
    }
    for (const auto& [sub, action] : actions)
        if (sub->parsed()) return action();
    return exit_usage;
}

int exit_code(Status status) {
    switch (status) {
    case Status::bad_argument:
        return exit_usage;
    case Status::cancelled:
        return exit_interrupted;
    default:
        return exit_failed;
    }
}

int guarded(const std::vector<std::string>& arguments) {
    try {
        return run(arguments);
    } catch (const ClosedPipe&) {
        return exit_failed;
    } catch (const Error& error) {
        note("scoria: ", std::string_view(error.what()));
        return exit_code(error.status());
    } catch (const std::bad_alloc&) {
        note("scoria: out of host memory");
    } catch (const std::exception& error) {
        note("scoria: ", std::string_view(error.what()));
    }
    return exit_failed;
}

}  // namespace
}  // namespace scoria::cli

int main(int argc, char** argv) {
    const std::vector<std::string> arguments = scoria::start_program(argc, argv);
    scoria::set_log([](std::string_view line) { scoria::cli::note("scoria: ", line); });
    return scoria::cli::guarded(arguments);
}
