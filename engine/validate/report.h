// CheckResults for people and for programs; the page to attach to a bug is in report_html.h. What the JSON
// holds is told in tools/validate.md.
#pragma once

#include "check.h"

#include <nlohmann/json.hpp>

#include <span>
#include <string>
#include <vector>

namespace scoria::validate {

/// The version of report_json()'s layout: a change that breaks readers makes it larger.
inline constexpr const char* report_schema = "scoria.validate/2";

/// What one device, or one model on it, gave. `facts`: what is known of it, strings and numbers by name
/// ("device" and "driver" at least).
struct Run {
    nlohmann::ordered_json facts;
    std::vector<CheckResult> results;
};

/// The results of one op and variant in one run.
struct Group {
    std::string op, variant;
    std::vector<const CheckResult*> results;
    size_t failed() const;
    const CheckResult& worst() const;  // of the largest share
};
/// In the order in which they were first run.
std::vector<Group> group_results(std::span<const CheckResult> results);

/// One line per op and variant: how many cases, and of each measure the value nearest to (or furthest
/// over) its bound, with that bound. With `every_case`, one line per case.
std::string report_table(std::span<const CheckResult> results, bool every_case = false);

/// One line per op and variant, one column per run: how many cases, how much of a bound the worst one uses.
std::string comparison_table(std::span<const Run> runs);

/// One line per failed case, with the detail.
std::string failure_text(std::span<const CheckResult> results);

/// `facts` (of all runs) and {"schema", "passed", "cases", "failed", "runs": [...]}; a measure that is not
/// finite is a string.
nlohmann::ordered_json report_json(std::span<const Run> runs, const nlohmann::ordered_json& facts);

size_t count_failed(std::span<const CheckResult> results);
std::string percent(double share);  // "31 %"; "beyond" where it has no measure

/// What built this program and where it runs: version, compiler, system.
nlohmann::ordered_json build_facts();
/// What reports tell of a device.
nlohmann::ordered_json device_facts(const vk::Device& device);
/// "A and B": of devices that share a model's layers.
std::string device_names(std::span<vk::Device* const> devices);
/// Of devices that share a model's layers: names and drivers of all, else what is known of the last.
nlohmann::ordered_json device_facts(std::span<vk::Device* const> devices);

}  // namespace scoria::validate
