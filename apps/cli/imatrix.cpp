// imatrix: how much each column of a model's weights counts on a text, for `quantize --imatrix`.
#include "common.h"
#include "io.h"
#include "models.h"
#include "values.h"
#include "verbs.h"

#include "console.h"
#include "file.h"
#include "instruments/activation_sums.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <filesystem>

namespace scoria::cli {
namespace {

struct ImatrixOptions {
    std::string file, out;
    uint32_t tokens = 0, window = 512;
    bool force = false;
};

int imatrix(const ImatrixOptions& options, const Common& common) {
    if (std::filesystem::exists(path_of(options.out)) && !options.force)
        fail(Status::bad_argument, "imatrix", options.out, " exists: expected a new name, or --force");
    check_no_model("imatrix", common.model, options.out);
    const std::shared_ptr<const Model> model = load_model(common);
    const Tokenizer& tokenizer = tokenizer_of(*model);
    std::vector<TokenId> ids = tokenizer.encode(prompt_text("imatrix", "", options.file),
                                                {.add_special = true, .parse_special = false});
    if (options.tokens > 0 && options.tokens < ids.size()) ids.resize(options.tokens);
    if (ids.empty()) fail(Status::bad_argument, "imatrix", "expected a text, got an empty one");

    const std::unique_ptr<Engine> engine = load_engine(model, engine_options(common), common);
    ActivationMeter meter(*engine);
    const uint32_t window = meter.window(options.window);
    begin_windows(ids, window, tokenizer);
    Progress progress("measuring");  // the text's tokens at 4 bytes, as they stand in memory
    ImportanceText text{options.file, 0, window};
    for (size_t first = 0; first < ids.size(); first += window, ++text.windows) {
        meter.add(std::span(ids).subspan(first, std::min<size_t>(window, ids.size() - first)));
        progress.update(sizeof(TokenId) * std::min<size_t>(first + window, ids.size()),
                        sizeof(TokenId) * ids.size());
    }
    progress.finish();
    if (meter.sums().empty()) fail(Status::unsupported, "imatrix", "expected linear layers, found none");
    write_importance(options.out, meter.sums(), text);

    size_t idle = 0;  // experts that no token reached
    for (const auto& [name, sums] : meter.sums()) idle += size_t(std::ranges::count(sums.counts, 0u));
    if (idle > 0)
        note("scoria: ", idle,
             " matrices of experts met no token: all their columns count alike; "
             "a longer text would reach more");
    if (common.json)
        print(json_text(nlohmann::json{{"file", options.out},
                                       {"tensors", meter.sums().size()},
                                       {"tokens", ids.size()},
                                       {"windows", text.windows},
                                       {"window", window},
                                       {"unreached_experts", idle}},
                        1),
              '\n');
    else
        print(options.out, ": ", meter.sums().size(), " tensors, ", ids.size(), " tokens in windows of ",
              window, '\n');
    return finish(engine->device());
}

}  // namespace

Action define_imatrix(CLI::App& app, const Common& common) {
    auto options = std::make_shared<ImatrixOptions>();
    app.add_option("-f,--file", options->file, "a file with the text (-: stdin)")->required();
    app.add_option("-o,--output", options->out, "GGUF file to write")->required()->check(writable());
    app.add_option("-n,--tokens", options->tokens, "only the first N tokens");
    app.add_option("--window", options->window, "tokens of a sequence (default: 512)")
        ->check(CLI::Range(1u, 1u << 20));
    app.add_flag("--force", options->force, "replace the output if it exists");
    app.footer(
        "A text of some 10000 tokens or more, of the kinds that the model is for. The output matrix and\n"
        "embeddings are left out: they are better off in a wide type.");
    return [options, &common] {
        if (!common.adapters.empty())
            fail(Status::unsupported, "imatrix", "expected no --lora: adapters are not merged into files");
        return imatrix(*options, common);
    };
}

}  // namespace scoria::cli
