// Tables and JSON of check results.
#include "report.h"

#include "system.h"
#include "text_table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

namespace scoria::validate {
namespace {

struct Measure {
    double CheckResult::*value;
    double Bounds::*bound;
};
constexpr Measure measures[] = {{&CheckResult::nmse, &Bounds::nmse},
                                {&CheckResult::worst_row, &Bounds::worst_row},
                                {&CheckResult::worst_element, &Bounds::worst_element}};

std::string scientific(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1e", value);
    return text;
}

/// How much of its bound a value uses; NaN counts as beyond all bounds.
double share(const CheckResult& result, const Measure& measure) {
    const double value = result.*measure.value, bound = result.bounds.*measure.bound;
    if (!std::isfinite(value)) return HUGE_VAL;
    if (value == 0) return 0;
    return bound > 0 ? value / bound : HUGE_VAL;
}

void add_measures(std::vector<std::string>& row, std::span<const CheckResult* const> results) {
    for (const Measure& measure : measures) {
        const CheckResult* worst =
            *std::max_element(results.begin(), results.end(), [&](const auto* a, const auto* b) {
                return share(*a, measure) < share(*b, measure);
            });
        row.push_back(scientific(worst->*measure.value));
        row.push_back(scientific(worst->bounds.*measure.bound));
    }
}

nlohmann::json finite_or_text(double value) {
    return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(std::isnan(value) ? "nan" : "inf");
}

}  // namespace

size_t count_failed(std::span<const CheckResult> results) {
    return size_t(std::ranges::count_if(results, [](const CheckResult& result) { return !result.passed; }));
}

size_t Group::failed() const {
    return size_t(std::ranges::count_if(results, [](const CheckResult* result) { return !result->passed; }));
}

const CheckResult& Group::worst() const {
    return **std::ranges::max_element(results, {}, [](const CheckResult* result) { return result->share(); });
}

std::vector<Group> group_results(std::span<const CheckResult> results) {
    std::vector<Group> groups;
    std::map<std::pair<std::string_view, std::string_view>, size_t> found;
    for (const CheckResult& result : results) {
        const auto [at, fresh] = found.try_emplace({result.op, result.variant}, groups.size());
        if (fresh) groups.push_back({result.op, result.variant, {}});
        groups[at->second].results.push_back(&result);
    }
    return groups;
}

std::string percent(double share) {
    if (!std::isfinite(share)) return "beyond";
    return share < 1e4 ? cat(std::lround(100 * share), " %") : scientific(100 * share) + " %";
}

std::string report_table(std::span<const CheckResult> results, bool every_case) {
    std::vector<Group> groups;
    if (every_case)
        for (const CheckResult& result : results) groups.push_back({result.op, result.variant, {&result}});
    else
        groups = group_results(results);
    TextTable table({"op", "variant", every_case ? "case" : "cases", "NMSE", "bound", "worst row", "bound",
                     "worst element", "bound", "verdict"});
    for (const Group& group : groups) {
        std::vector<std::string> row = {group.op, group.variant,
                                        every_case ? group.results[0]->shape : cat(group.results.size())};
        add_measures(row, group.results);
        const size_t failed = group.failed();
        row.push_back(failed == 0 ? "ok" : every_case ? "FAILED" : cat(failed, " FAILED"));
        table.add(std::move(row));
    }
    return table.text();
}

std::string comparison_table(std::span<const Run> runs) {
    std::vector<std::string> header{"op", "variant"};
    for (size_t i = 0; i < runs.size(); ++i) header.push_back(cat("#", i));
    std::vector<std::pair<std::string, std::string>> order;
    std::map<std::pair<std::string, std::string>, std::vector<std::string>> cells;
    for (size_t i = 0; i < runs.size(); ++i)
        for (const Group& group : group_results(runs[i].results)) {
            auto& row = cells[{group.op, group.variant}];
            if (row.empty()) order.emplace_back(group.op, group.variant);
            row.resize(runs.size(), "-");
            const size_t failed = group.failed();
            row[i] = failed ? cat(failed, " of ", group.results.size(), " FAILED")
                            : cat(group.results.size(), " ok, ", percent(group.worst().share()));
        }
    TextTable table(header);
    for (const auto& key : order) {
        std::vector<std::string> row{key.first, key.second};
        row.insert(row.end(), cells[key].begin(), cells[key].end());
        table.add(std::move(row));
    }
    std::string text;
    for (size_t i = 0; i < runs.size(); ++i)
        text += cat("#", i, " ", runs[i].facts.value("device", "?"), ", ", runs[i].facts.value("driver", "?"),
                    "\n");
    return text + table.text();
}

std::string failure_text(std::span<const CheckResult> results) {
    std::string text;
    for (const CheckResult& result : results)
        if (!result.passed)
            text += cat(result.op, ' ', result.variant, " (", result.shape, "): NMSE ",
                        scientific(result.nmse), ", row ", scientific(result.worst_row), ", element ",
                        scientific(result.worst_element), "; ", result.detail, '\n');
    return text;
}

namespace {

nlohmann::ordered_json result_json(const CheckResult& result) {
    nlohmann::ordered_json ulps = nlohmann::ordered_json::array();
    for (const uint32_t count : result.ulps) ulps.push_back(count);
    while (!ulps.empty() && ulps.back() == 0) ulps.erase(ulps.size() - 1);
    return {{"op", result.op},
            {"variant", result.variant},
            {"case", result.shape},
            {"passed", result.passed},
            {"nmse", finite_or_text(result.nmse)},
            {"worst_row", finite_or_text(result.worst_row)},
            {"worst_element", finite_or_text(result.worst_element)},
            {"bounds",
             {{"nmse", finite_or_text(result.bounds.nmse)},
              {"worst_row", finite_or_text(result.bounds.worst_row)},
              {"worst_element", finite_or_text(result.bounds.worst_element)},
              {"floor", result.bounds.floor}}},
            {"worst_row_at", result.worst_row_at},
            {"worst_element_at", {result.row_at, result.col_at}},
            {"expected_there", finite_or_text(result.expected_there)},
            {"actual_there", finite_or_text(result.actual_there)},
            {"ulps", std::move(ulps)},
            {"incomparable", result.incomparable},
            {"detail", result.detail}};
}

}  // namespace

nlohmann::ordered_json report_json(std::span<const Run> runs, const nlohmann::ordered_json& facts) {
    size_t cases = 0, failed = 0;
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Run& run : runs) {
        const size_t failed_here = count_failed(run.results);
        nlohmann::ordered_json one = run.facts;
        one["passed"] = failed_here == 0;
        one["cases"] = run.results.size();
        one["failed"] = failed_here;
        one["results"] = nlohmann::ordered_json::array();
        for (const CheckResult& result : run.results) one["results"].push_back(result_json(result));
        list.push_back(std::move(one));
        cases += run.results.size();
        failed += failed_here;
    }
    nlohmann::ordered_json json = {{"schema", report_schema}};
    json.update(facts);
    json.update({{"passed", failed == 0}, {"cases", cases}, {"failed", failed}, {"runs", std::move(list)}});
    return json;
}

nlohmann::ordered_json build_facts() {
    return {{"scoria", SCORIA_VERSION}, {"compiler", __VERSION__}, {"system", system_name()}};
}

namespace {

const std::string& driver_of(const vk::Caps& caps) {
    return caps.driver_info.empty() ? caps.driver_name : caps.driver_info;
}

/// "A and B".
template <class Fact> std::string joined(std::span<vk::Device* const> devices, const Fact& fact) {
    std::string all;
    for (const vk::Device* device : devices) all += cat(all.empty() ? "" : " and ", fact(device->caps()));
    return all;
}

}  // namespace

std::string device_names(std::span<vk::Device* const> devices) {
    return joined(devices, [](const vk::Caps& caps) { return caps.name; });
}

nlohmann::ordered_json device_facts(const vk::Device& device) {
    const vk::Caps& caps = device.caps();
    return {{"device", caps.name},
            {"driver", driver_of(caps)},
            {"driver_name", caps.driver_name},
            {"vulkan", vk::version_text(caps.api_version)},
            {"vendor_id", caps.vendor_id},
            {"device_id", caps.device_id},
            {"driver_version", caps.driver_version},
            {"validation_layer", device.options().validation},
            {"races", device.options().races},
            {"caps", nlohmann::ordered_json::parse(vk::to_json(caps))}};
}

nlohmann::ordered_json device_facts(std::span<vk::Device* const> devices) {
    nlohmann::ordered_json facts = device_facts(*devices.back());
    facts["device"] = device_names(devices);
    facts["driver"] = joined(devices, driver_of);
    return facts;
}

}  // namespace scoria::validate
