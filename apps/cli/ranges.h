// Ranges of numbers that flags take.
#pragma once

#include "fail.h"

#include <CLI/CLI.hpp>

#include <string>

namespace scoria::cli {

/// CLI11's own Range lets NaN through.
inline CLI::Validator finite_in(double least, double most) {
    const auto check = [least, most](std::string& text) -> std::string {
        double value = 0;
        if (!CLI::detail::lexical_cast(text, value) || !(value >= least && value <= most))
            return cat("expected a number from ", least, " to ", most, ", got '", text, "'");
        return {};
    };
    return CLI::Validator(check, "");
}

}  // namespace scoria::cli
