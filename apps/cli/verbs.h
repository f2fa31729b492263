// The verbs of the program. Each adds its flags to its subcommand and returns what to run after parsing;
// adding a verb is one function and its line in main.cpp.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace scoria::cli {

struct Common;

/// Returns the exit code.
using Action = std::function<int()>;

struct Verb {
    const char* name;
    const char* help;
    Action (*define)(CLI::App& app, const Common& common);
};

Action define_devices(CLI::App& app, const Common& common);
Action define_pull(CLI::App& app, const Common& common);
Action define_list(CLI::App& app, const Common& common);
Action define_rm(CLI::App& app, const Common& common);
Action define_run(CLI::App& app, const Common& common);
Action define_chat(CLI::App& app, const Common& common);
Action define_serve(CLI::App& app, const Common& common);
Action define_inspect(CLI::App& app, const Common& common);
Action define_plan(CLI::App& app, const Common& common);
Action define_tokenize(CLI::App& app, const Common& common);
Action define_detokenize(CLI::App& app, const Common& common);
Action define_template(CLI::App& app, const Common& common);
Action define_embed(CLI::App& app, const Common& common);
Action define_rank(CLI::App& app, const Common& common);
Action define_forward(CLI::App& app, const Common& common);
Action define_perplexity(CLI::App& app, const Common& common);
Action define_convert(CLI::App& app, const Common& common);
Action define_bench(CLI::App& app, const Common& common);
Action define_quantize(CLI::App& app, const Common& common);
Action define_imatrix(CLI::App& app, const Common& common);
Action define_look(CLI::App& app, const Common& common);
Action define_tune(CLI::App& app, const Common& common);
Action define_validate(CLI::App& app, const Common& common);

}  // namespace scoria::cli
