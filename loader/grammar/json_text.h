// JSON values of one kind as grammar expressions: characters of strings, patterns, dates, ranges of integers.
#pragma once

#include "grammar.h"

#include <cstdint>
#include <optional>
#include <string_view>

namespace scoria::grammar {

/// `set` inside a JSON string, escaped where JSON wants it.
Expr json_characters(const CodeSet& set);
/// Any one character of a JSON string, in every spelling; surrogates only as pairs.
Expr json_any_character();
/// The characters of `text` as one spelling inside quotes.
Expr json_literal(std::string_view text);

/// The inside of a string that a regular expression matches somewhere (ECMA 262: ^ and $ only around a whole
/// alternative of the outermost level). `any` is one character of a string. Errors: unsupported, naming what
/// the expression has that is not.
Expr json_pattern(std::string_view expression, const Expr& any);

/// The inside of a string of a JSON Schema format: date, time, date-time (RFC 3339), uuid.
std::optional<Expr> json_format(std::string_view format);

/// Decimal integers of [least, most], without leading zeros; a side that is not there is open, but has at
/// most 16 digits.
Expr json_integers(std::optional<int64_t> least, std::optional<int64_t> most);
/// Decimal numbers of [least, most], at least one of which is there, with a fraction or without.
Expr json_numbers(std::optional<int64_t> least, std::optional<int64_t> most);

}  // namespace scoria::grammar
