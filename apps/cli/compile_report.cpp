// See compile_report.h.
#include "compile_report.h"

#include "common.h"
#include "io.h"

#include "text_table.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>

namespace scoria::cli {
namespace {

/// A column of the table and what drivers call it: RADV, ANV, NVK, Turnip, Honeykrisp. Amounts of one row add
/// up.
struct Statistic {
    const char* column;
    std::vector<const char*> names;
};
const std::vector<Statistic>& statistics_table() {
    static const std::vector<Statistic> table = {
        {"instructions", {"Instructions", "Instruction Count", "Instruction count"}},
        {"registers", {"VGPRs", "GRF registers", "Number of GPRs", "Registers used", "GPRs"}},
        {"spills", {"Spilled VGPRs", "Spilled SGPRs", "Spills to memory", "Spills", "STP Count"}},
        {"occupancy", {"Subgroups per SIMD", "Max warps/SM", "Max Waves Per Core", "Threads"}},
        {"shared", {"LDS size", "Workgroup Memory Size"}},
    };
    return table;
}

/// -1: the driver does not say.
double amount(const vk::PipelineReport& report, const Statistic& statistic) {
    double sum = -1;
    for (const auto& [name, value] : report.statistics)
        if (std::ranges::find(statistic.names, name) != statistic.names.end())
            sum = std::max(sum, 0.0) + value;
    return sum;
}

nlohmann::ordered_json report_as_json(const vk::PipelineReport& report) {
    nlohmann::ordered_json row = {
        {"module", report.module}, {"executable", report.executable}, {"subgroup", report.subgroup}};
    for (const vk::Constant& constant : report.constants) row["constants"][cat(constant.id)] = constant.value;
    for (const Statistic& statistic : statistics_table())
        if (const double value = amount(report, statistic); value >= 0) row[statistic.column] = value;
    for (const auto& [name, value] : report.statistics) row["statistics"][name] = value;
    return row;
}

std::string table_of(const std::vector<vk::PipelineReport>& reports) {
    std::vector<std::string> heads = {"kernel", "constants", "executable", "subgroup"};
    for (const Statistic& statistic : statistics_table()) heads.push_back(statistic.column);
    TextTable table(heads);
    for (const vk::PipelineReport& report : reports) {
        std::string constants;
        for (const vk::Constant& constant : report.constants)
            constants += cat(constants.empty() ? "" : " ", constant.id, "=", constant.value);
        std::vector<std::string> row = {report.module, constants, report.executable, cat(report.subgroup)};
        for (const Statistic& statistic : statistics_table()) {
            const double value = amount(report, statistic);
            row.push_back(value < 0 ? "" : cat(int64_t(value)));
        }
        table.add(std::move(row));
    }
    return table.text();
}

using Failures = std::map<std::string, std::string>;  // what failed: why

int report_all(const std::string& json, const vk::Device& device, const vk::Pipelines& pipelines,
               const Failures& failures) {
    const std::vector<vk::PipelineReport> reports = pipelines.reports();
    if (!json.empty()) {
        nlohmann::ordered_json out = {{"device", device.caps().name},
                                      {"driver", device.caps().driver_info},
                                      {"pipelines", pipelines.created()},
                                      {"seconds", pipelines.seconds_compiling()},
                                      {"failures", failures},
                                      {"executables", nlohmann::ordered_json::array()}};
        for (const vk::PipelineReport& report : reports) out["executables"].push_back(report_as_json(report));
        write_text(json, json_text(out, 1));
    }
    if (json != "-") print(table_of(reports));
    for (const auto& [name, why] : failures) note("scoria: ", name, ": ", why);
    note(device.caps().name, ": ", pipelines.created(), " pipelines, ", failures.size(), " failures");
    return failures.empty() ? 0 : 1;
}

int compile_ops(const Common& common, validate::Tier tier, const std::string& op, const std::string& json) {
    vk::DeviceOptions options = device_options(common);
    options.capture_statistics = true;
    vk::Device device(options);
    vk::Pipelines pipelines(device);
    validate::CheckContext context(device, pipelines, tier, 1);
    Failures failures;
    for (const validate::OpCheck& check : validate::op_checks()) {
        if (!op.empty() && op != check.op) continue;
        if (common.verbose) note("compiling ", check.op);
        try {
            check.run(context);
        } catch (const Error& error) {
            failures[check.op] = error.what();
        }
    }
    return report_all(json, device, pipelines, failures);
}

int compile_model(const Common& common, const std::string& json) {
    const std::shared_ptr<const Model> model = load_model(common);
    EngineOptions options = engine_options(common);
    options.device.capture_statistics = true;
    const std::unique_ptr<Engine> engine = load_engine(model, options, common);
    Failures failures;
    for (const uint32_t tokens : {1u, 4u, 32u, 256u}) {
        try {
            Session session(*engine);
            session.append(std::vector<TokenId>(std::min(tokens, session.capacity() - 2)));
            GenerateOptions two;
            two.max_tokens = 2;
            session.generate(two);
        } catch (const Error& error) {
            // A device that does not compute has no finite logit, or samples a token that there is not.
            const bool nonsense = error.status() == Status::non_finite ||
                                  std::string_view(error.what()).starts_with("[sampler]");
            if (!nonsense) failures[cat(tokens, " tokens")] = error.what();
        }
    }
    return report_all(json, engine->device(), engine->pipelines(), failures);
}

}  // namespace

int compile_only(const Common& common, validate::Tier tier, const std::string& op, const std::string& json) {
    if (common.model.empty()) return compile_ops(common, tier, op, json);
    Common loading = common;
    loading.json = json == "-";
    return compile_model(loading, json);
}

}  // namespace scoria::cli
