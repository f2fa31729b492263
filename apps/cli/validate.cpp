// validate: every kernel, every variant this device supports, against the double-precision reference.
#include "common.h"
#include "compile_report.h"
#include "io.h"
#include "messages.h"
#include "verbs.h"

#include "validate/model_check.h"
#include "validate/report.h"

#include <CLI/CLI.hpp>

#include <algorithm>

namespace scoria::cli {
namespace {

struct ValidateOptions {
    std::string op, tier = "quick", ids, text;
    uint64_t seed = 1;
    bool compile_only = false;
};

std::string op_names() {
    std::string names;
    for (const validate::OpCheck& check : validate::op_checks())
        names += cat(names.empty() ? "" : ", ", check.op);
    return names;
}

std::vector<validate::CheckResult> check_ops(vk::Device& device, const ValidateOptions& options,
                                             const Common& common) {
    vk::Pipelines pipelines(device);
    const validate::Tier tier = options.tier == "full" ? validate::Tier::full : validate::Tier::quick;
    validate::CheckContext context(device, pipelines, tier, options.seed);
    bool found = false;
    for (const validate::OpCheck& check : validate::op_checks()) {
        if (!options.op.empty() && options.op != check.op) continue;
        found = true;
        if (common.verbose) note("checking ", check.op);
        check.run(context);
    }
    if (!found)
        fail(Status::bad_argument, "validate", "expected --op to be one of {", op_names(), "}, got '",
             options.op, "'");
    pipelines.save_cache();
    return std::move(context.results());
}

/// Prints the report with `facts` of where it was made; returns the exit code.
int report(std::span<const validate::CheckResult> results, const nlohmann::json& facts,
           const Common& common) {
    if (common.json) {
        nlohmann::json json = validate::report_json(results);
        json.update(facts);
        print(json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace), '\n');
    } else {
        print(validate::report_table(results, common.verbose));
    }
    write_note(validate::failure_text(results));
    note(results.size(), " cases, ",
         std::count_if(results.begin(), results.end(), [](const auto& r) { return !r.passed; }), " failed");
    return validate::all_passed(results) ? 0 : 1;
}

nlohmann::json device_facts(const vk::Device& device) {
    return {{"device", device.caps().name}, {"driver", device.caps().driver_info}};
}

int validate_ops(const ValidateOptions& options, const Common& common) {
    vk::Device device(device_options(common));
    note("validating on ", device.caps().name, ", ", device.caps().driver_info);
    const std::vector<validate::CheckResult> results = check_ops(device, options, common);
    nlohmann::json facts = device_facts(device);
    facts["tier"] = options.tier;
    const int code = report(results, facts, common);
    return std::max(code, finish(device));
}

std::vector<TokenId> check_ids(const Model& model, const ValidateOptions& options) {
    if (!options.ids.empty()) return parse_ids("validate", options.ids);
    if (model.tokenizer && !options.text.empty()) return model.tokenizer->encode(options.text);
    // Ids of no meaning serve as well: both executors get the same.
    std::vector<TokenId> ids;
    for (uint32_t i = 0; i < 7; ++i) ids.push_back(TokenId((i * 7919u + 11) % model.architecture.vocab));
    return ids;
}

int validate_model(const ValidateOptions& options, const Common& common) {
    const std::shared_ptr<const Model> model = load_model(common);
    const std::vector<TokenId> ids = check_ids(*model, options);
    const EngineOptions flags = engine_options(common);
    const std::unique_ptr<Engine> engine = load_engine(model, flags, common);
    const validate::ModelCheck check = validate::check_model(*engine, ids);
    nlohmann::json facts = device_facts(engine->device());
    facts["model"] = model->name;
    facts["precision"] = precision_name(flags.precision);
    facts["fused_away"] = check.fused_away;
    const int code = report(check.ops, facts, common);
    if (check.first_diverging) {
        const validate::CheckResult& first = check.ops[*check.first_diverging];
        note("scoria: the first tensor that diverges: ", first.op, " -> ", first.variant);
    }
    if (check.fused_away > 0) note(check.fused_away, " tensors are fused away (--no-fusion stores them)");
    return std::max(code, finish(engine->device()));
}

}  // namespace

Action define_validate(CLI::App& app, const Common& common) {
    auto options = std::make_shared<ValidateOptions>();
    app.add_option("--op", options->op, "only this op");
    app.add_option("--tier", options->tier, "quick or full (default: quick)")
        ->check(CLI::IsMember({"quick", "full"}));
    app.add_flag("--compile-only", options->compile_only,
                 "only make the pipelines and report what the driver's compiler says of them");
    app.add_option("--seed", options->seed, "seed of the inputs (default: 1)");
    app.add_option("--ids", options->ids, "tokens for -m, e.g. 1,2,3 (default: seven)");
    app.add_option("-p,--prompt", options->text, "text for -m instead of --ids");
    app.footer("With -m the whole model runs on the device and in the reference, and every stored tensor is "
               "compared.");
    return [options, &common] {
        if (options->compile_only) return compile_only(common, options->op);
        return common.model.empty() ? validate_ops(*options, common) : validate_model(*options, common);
    };
}

}  // namespace scoria::cli
