// validate: every kernel, every variant this device supports, against the double-precision reference.
#include "common.h"
#include "io.h"
#include "verbs.h"

#include "validate/report.h"

#include <CLI/CLI.hpp>

#include <algorithm>

namespace scoria::cli {
namespace {

struct ValidateOptions {
    std::string op, tier = "quick";
    uint64_t seed = 1;
};

std::string op_names() {
    std::string names;
    for (const validate::OpCheck& check : validate::op_checks()) names += cat(names.empty() ? "" : ", ", check.op);
    return names;
}

std::vector<validate::CheckResult> check_ops(vk::Device& device, const ValidateOptions& options, const Common& common) {
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
    if (!found) fail(Status::bad_argument, "validate", "expected --op to be one of {", op_names(), "}, got '", options.op, "'");
    pipelines.save_cache();
    return std::move(context.results());
}

int validate_ops(const ValidateOptions& options, const Common& common) {
    vk::Device device(device_options(common));
    note("validating on ", device.caps().name, ", ", device.caps().driver_info);
    const std::vector<validate::CheckResult> results = check_ops(device, options, common);
    if (common.json) {
        nlohmann::json report = validate::report_json(results);
        report["device"] = device.caps().name;
        report["driver"] = device.caps().driver_info;
        report["tier"] = options.tier;
        print(report.dump(1, ' ', false, nlohmann::json::error_handler_t::replace), '\n');
    } else {
        print(validate::report_table(results, common.verbose));
    }
    write_note(validate::failure_text(results));
    const bool passed = validate::all_passed(results);
    note(results.size(), " cases, ", std::count_if(results.begin(), results.end(), [](const auto& r) { return !r.passed; }),
         " failed");
    const int silent = finish(device);
    return passed ? silent : 1;
}

}  // namespace

Action define_validate(CLI::App& app, const Common& common) {
    auto options = std::make_shared<ValidateOptions>();
    app.add_option("--op", options->op, "only this op");
    app.add_option("--tier", options->tier, "quick or full (default: quick)")->check(CLI::IsMember({"quick", "full"}));
    app.add_option("--seed", options->seed, "seed of the inputs (default: 1)");
    return [options, &common] { return validate_ops(*options, common); };
}

}  // namespace scoria::cli
