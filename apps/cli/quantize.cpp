// quantize: a model file rewritten in other types.
#include "common.h"
#include "io.h"
#include "models.h"
#include "values.h"
#include "verbs.h"

#include "console.h"
#include "file.h"
#include "quantise/convert.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <optional>

namespace scoria::cli {
namespace {

struct QuantizeOptions {
    std::string in, out, type, importance;
    uint32_t threads = 0;
    bool pure = false, force = false;
};

std::string recipe_names() {
    std::string names;
    for (const Recipe& recipe : recipes()) names += cat(names.empty() ? "" : ", ", recipe.name);
    return names;
}

std::string tensors(uint32_t count) { return cat("scoria: ", count, count == 1 ? " tensor" : " tensors"); }

void report(const ConvertReport& done, const QuantizeOptions& options, const Recipe& recipe, bool json) {
    const double bits = 8 * double(done.weight_bytes) / double(done.weights);
    if (done.fallbacks > 0)
        note(tensors(done.fallbacks), " with rows that are no multiple of ", recipe.name,
             "'s blocks got the next type that fits");
    if (done.requantised > 0)
        note(tensors(done.requantised),
             " had been quantised before; from the original weights the result would be better");
    if (done.unmeasured > 0)
        note(tensors(done.unmeasured),
             " not in the importance matrix, quantised without (embeddings never are in one)");
    if (json) {
        print(json_text(nlohmann::json{{"file", options.out},
                                       {"type", recipe.name},
                                       {"bytes", done.file_bytes},
                                       {"weights", done.weights},
                                       {"bits_per_weight", bits},
                                       {"tensors", done.tensors_of_type},
                                       {"fallbacks", done.fallbacks},
                                       {"requantised", done.requantised},
                                       {"unmeasured", done.unmeasured}},
                        1),
              '\n');
        return;
    }
    std::string types;
    for (const auto& [name, count] : done.tensors_of_type)
        types += cat(types.empty() ? "" : ", ", count, ' ', name);
    print(options.out, ": ", recipe.name, ", ", bytes_text(done.file_bytes), ", ", fixed(bits, 2),
          " bits per weight (tensors: ", types, ")\n");
}

int quantize(const QuantizeOptions& options, const Common& common) {
    const Recipe* recipe = find_recipe(options.type);
    if (recipe == nullptr)
        fail(Status::bad_argument, "quantize", "expected a type (", recipe_names(), "), got ", options.type);
    if (std::filesystem::exists(path_of(options.out)) && !options.force)
        fail(Status::bad_argument, "quantize", options.out, " exists: expected a new name, or --force");
    const std::unique_ptr<const ConversionSource> source = open_conversion_source(resolve_model(options.in));
    std::optional<ImportanceMatrix> importance;
    if (!options.importance.empty()) importance = read_importance(options.importance);

    const std::atomic<bool>& interrupted = install_interrupt_flag();
    Progress progress("quantizing");
    const ConvertReport done = convert(*source, options.out,
                                       {.recipe = recipe,
                                        .pure = options.pure,
                                        .importance = importance ? &*importance : nullptr,
                                        .threads = options.threads,
                                        .progress = [&](uint64_t bytes, uint64_t total) {
                                            progress.update(bytes, total);
                                            return !interrupted;
                                        }});
    progress.finish();
    report(done, options, *recipe, common.json);
    return 0;
}

}  // namespace

Action define_quantize(CLI::App& app, const Common& common) {
    auto options = std::make_shared<QuantizeOptions>();
    app.add_option("in", options->in,
                   "GGUF file (any part of a split one), Hugging Face folder or name of a pulled model")
        ->required();
    app.add_option("out", options->out, "GGUF file to write")->required()->check(no_stdout());
    app.add_option("-t,--type", options->type, "one of " + recipe_names())->required();
    app.add_option("--imatrix", options->importance, "importance matrix (GGUF or the older .dat)");
    app.add_option("--threads", options->threads, "default: one per processor")->check(CLI::Range(0u, 256u));
    app.add_flag("--pure", options->pure, "the same type for all tensors: no wider ones for the sensitive");
    app.add_flag("--force", options->force, "replace OUT if it exists");
    app.footer(
        "Vectors, norms and routers stay as they are. Rows that are no multiple of a type's block of 256\n"
        "get Q5_0 for Q4_K, Q5_1 for Q5_K, Q8_0 for Q6_K, Q4_0 for Q3_K and Q2_K.\n"
        "INT8 is int8 with one scale per row, stored as Q8_0 so that everything can read it.\n"
        "OUT appears when it is whole; until then OUT.partial grows beside it.");
    return [options, &common] {
        if (!common.adapters.empty())
            fail(Status::unsupported, "quantize", "expected no --lora: adapters are not merged into files");
        if (!common.model.empty())
            fail(Status::bad_argument, "quantize", "expected no --model beside IN, got ", common.model);
        return quantize(*options, common);
    };
}

}  // namespace scoria::cli
