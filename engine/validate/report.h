// CheckResults for people and for programs.
#pragma once

#include "check.h"

#include <nlohmann/json.hpp>

#include <span>
#include <string>

namespace scoria::validate {

/// One line per op and variant: how many cases, and of each measure the value nearest to (or furthest
/// over) its bound, with that bound. With `every_case`, one line per case.
std::string report_table(std::span<const CheckResult> results, bool every_case = false);

/// One line per failed case, with the detail.
std::string failure_text(std::span<const CheckResult> results);

/// {"passed", "cases", "failed", "results": [...]}; a measure that is not finite is a string.
nlohmann::json report_json(std::span<const CheckResult> results);

bool all_passed(std::span<const CheckResult> results);

}  // namespace scoria::validate
