// Values that flags take.
#pragma once

#include "fail.h"

#include <CLI/CLI.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace scoria::cli {

/// A finite number in decimal notation, all of `text`: CLI11 takes 0x10, nan and inf for numbers, too.
std::optional<double> decimal_number(std::string_view text);

/// Not "-", which a shell's user means stdout by.
CLI::Validator no_stdout();
/// A file that can be written, and not "-" either but with `or_stdout`: known before hours of work and not
/// after them.
CLI::Validator writable(bool or_stdout = false);

/// Of all options of `app`: whole numbers are decimal and fit 64 bits (CLI11 reads 010 as 8, and the largest
/// number for any that is larger), other numbers are decimal and finite, and no value is empty (as where a
/// shell's variable is not set), but for those that give a text by itself.
void check_values(CLI::App& app);

/// A flag, and others: each of those means nothing beside it, or it does without all of them.
using LoneFlag = std::pair<const char*, std::vector<const char*>>;
/// Errors: bad_argument, for two that were given.
void check_alone(const CLI::App& app, const std::vector<LoneFlag>& flags);
/// Errors: bad_argument, for a flag given without any of those that give it a meaning.
void check_company(const CLI::App& app, const std::vector<LoneFlag>& flags);

}  // namespace scoria::cli
