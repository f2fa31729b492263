// See proposers.h.
#include "proposers.h"

#include "fail.h"
#include "values.h"

#include <CLI/CLI.hpp>

namespace scoria::cli {

void add_speculation_flags(CLI::App& app, SpeculationFlags& flags) {
    CLI::Option* lookup =
        app.add_flag("--lookup", flags.lookup,
                     "guess what comes next from how the text so far goes on elsewhere, and compute several "
                     "tokens at a time: the same answer, sooner where it repeats its prompt");
    CLI::Option* mtp =
        app.add_option(
               "--mtp", flags.mtp,
               "guess it by the layer that the model has for that (multi-token prediction: DeepSeek V3, "
               "GLM 4.5, Qwen3-Next, Qwen3.5, MiMo), or that of a file of its own")
            ->expected(0, 1)
            ->excludes(lookup);
    app.add_option("--draft", flags.draft,
                   "guess it by a smaller model of the same vocabulary (a file, folder or pulled name)")
        ->excludes(lookup)
        ->excludes(mtp);
    app.add_option("--draft-tokens", flags.draft_tokens, "the longest guess in tokens, 1 to 63 (default: 15)")
        ->check(CLI::Range(1u, 63u));
}

void check_speculation_flags(const CLI::App& app) {
    check_company(app, {{"--draft-tokens", {"--lookup", "--mtp", "--draft"}}});
}

namespace {

Common common_of_draft(const SpeculationFlags& flags, Common common) {
    if (const std::string& other = flags.mtp ? *flags.mtp : flags.draft; !other.empty()) common.model = other;
    common.adapters.clear();
    return common;
}

}  // namespace

void open_draft(SpeculationFlags& flags, const std::shared_ptr<const Model>& target, const Common& common) {
    if (!flags.mtp && flags.draft.empty()) return;
    flags.model = load_model(common_of_draft(flags, common), flags.mtp ? ModelPart::ahead : ModelPart::whole);
    flags.model = with_target(flags.model, target);
}

void load_proposer(SpeculationFlags& flags, const Engine& engine, const Common& common) {
    if (flags.lookup) flags.proposer = std::make_shared<PromptLookup>();
    const std::shared_ptr<const Model>& model = flags.model;
    if (!model) return;
    check_draft(*model, engine.model());
    const Common of_draft = common_of_draft(flags, common);
    EngineOptions options = engine_options(of_draft);
    const Architecture& architecture = model->architecture;
    options.context = std::min(engine.memory_plan().context, architecture.context);
    if (const uint64_t most = architecture.most_positions())
        options.context = uint32_t(std::min<uint64_t>(options.context, most));
    // Of several devices, on the last one. What was set is for both.
    const std::vector<std::string> devices = device_list(options.device.select);
    options.device.select = devices.back();
    if (options.memory_budgets.size() == devices.size())
        options.memory_budget = options.memory_budgets.back();
    options.memory_budgets.clear();
    const uint64_t taken = engine.memory_plan().device_total();
    if (options.memory_budget) options.memory_budget -= std::min(options.memory_budget - 1, taken);
    flags.proposer = std::make_shared<DraftModel>(load_engine(model, options, of_draft), engine.model());
}

std::string speculation_text(uint32_t proposed, uint32_t accepted) {
    return cat(accepted, " of ", proposed, " guessed tokens came true");
}

}  // namespace scoria::cli
