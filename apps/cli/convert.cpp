// convert: a model rewritten with another structure.
#include "common.h"
#include "io.h"
#include "models.h"
#include "values.h"
#include "verbs.h"

#include "console.h"
#include "file.h"
#include "quantise/pool_heads.h"

#include <CLI/CLI.hpp>

namespace scoria::cli {

Action define_convert(CLI::App& app, const Common& common) {
    struct Options {
        std::string in, out;
        uint32_t kv_heads = 0;
    };
    auto options = std::make_shared<Options>();
    app.add_option("in", options->in, "a Hugging Face folder")->required();
    app.add_option("out", options->out, "the folder to write")->required()->check(no_stdout());
    app.add_option("--gqa", options->kv_heads, "key/value heads: each the mean of those it replaces")
        ->required()
        ->check(CLI::Range(1u, 1u << 16));
    app.footer("The model needs training after this to be as good as it was (Ainslie et al. 2023).");
    return [options, &common] {
        if (!common.model.empty())
            fail(Status::bad_argument, "convert", "expected no --model beside IN, got ", common.model);
        const std::atomic<bool>& interrupted = install_interrupt_flag();
        Progress progress("converting");
        pool_heads(path_of(options->in), path_of(options->out), options->kv_heads,
                   [&](uint64_t done, uint64_t total) {
                       progress.update(done, total);
                       return !interrupted;
                   });
        progress.finish();
        print(options->out, ": ", options->kv_heads, " key/value heads\n");
        return 0;
    };
}

}  // namespace scoria::cli
