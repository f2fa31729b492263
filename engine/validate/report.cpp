// Tables and JSON of check results.
#include "report.h"

#include "text_table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

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

std::string report_table(std::span<const CheckResult> results, bool every_case) {
    // Groups keep the order in which they were first run.
    std::vector<std::vector<const CheckResult*>> groups;
    for (const CheckResult& result : results) {
        const auto same = [&](const auto& group) {
            return group[0]->op == result.op && group[0]->variant == result.variant;
        };
        auto group = every_case ? groups.end() : std::find_if(groups.begin(), groups.end(), same);
        if (group == groups.end()) group = groups.insert(group, std::vector<const CheckResult*>{});
        group->push_back(&result);
    }
    TextTable table({"op", "variant", every_case ? "case" : "cases", "NMSE", "bound", "worst row", "bound",
                     "worst element", "bound", "verdict"});
    for (const auto& group : groups) {
        const auto failed =
            std::count_if(group.begin(), group.end(), [](const auto* result) { return !result->passed; });
        std::vector<std::string> row = {group[0]->op, group[0]->variant,
                                        every_case ? group[0]->shape : cat(group.size())};
        add_measures(row, group);
        row.push_back(failed == 0 ? "ok" : every_case ? "FAILED" : cat(failed, " FAILED"));
        table.add(std::move(row));
    }
    return table.text();
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

nlohmann::json report_json(std::span<const CheckResult> results) {
    nlohmann::json rows = nlohmann::json::array();
    size_t failed = 0;
    for (const CheckResult& result : results) {
        failed += !result.passed;
        rows.push_back({{"op", result.op},
                        {"variant", result.variant},
                        {"case", result.shape},
                        {"nmse", finite_or_text(result.nmse)},
                        {"worst_row", finite_or_text(result.worst_row)},
                        {"worst_element", finite_or_text(result.worst_element)},
                        {"bounds",
                         {{"nmse", finite_or_text(result.bounds.nmse)},
                          {"worst_row", finite_or_text(result.bounds.worst_row)},
                          {"worst_element", finite_or_text(result.bounds.worst_element)}}},
                        {"passed", result.passed},
                        {"detail", result.detail}});
    }
    return {
        {"passed", failed == 0}, {"cases", results.size()}, {"failed", failed}, {"results", std::move(rows)}};
}

bool all_passed(std::span<const CheckResult> results) {
    return std::all_of(results.begin(), results.end(),
                       [](const CheckResult& result) { return result.passed; });
}

}  // namespace scoria::validate
