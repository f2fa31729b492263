// Values that flags take.
#pragma once

#include "fail.h"

#include <CLI/CLI.hpp>

#include <string>
#include <utility>
#include <vector>

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

/// Not "-", which a shell's user means stdout by.
CLI::Validator no_stdout();
/// A file that can be written, and not "-" either but with `or_stdout`: known before hours of work and not
/// after them.
CLI::Validator writable(bool or_stdout = false);

/// Of all options of `app`: whole numbers are decimal and fit 64 bits (CLI11 reads 010 as 8, and the largest
/// number for any that is larger), and no value is empty (as where a shell's variable is not set), but for
/// those that give a text by itself.
void check_values(CLI::App& app);

/// A flag, and those that mean nothing beside it.
using LoneFlag = std::pair<const char*, std::vector<const char*>>;
/// Errors: bad_argument, for two that were given.
void check_alone(const CLI::App& app, const std::vector<LoneFlag>& flags);

}  // namespace scoria::cli
