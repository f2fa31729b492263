// JSON values of one kind as grammar expressions: characters of strings, patterns, dates, ranges of integers.
#pragma once

#include "grammar.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

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

/// The inside of a string of a JSON Schema format: date, time, date-time, duration (RFC 3339), uuid, email,
/// hostname (of ASCII letters, and shorter than they may be), ipv4, ipv6.
std::optional<Expr> json_format(std::string_view format);

/// An end of a range of decimal numbers.
struct Bound {
    bool negative = false;
    uint64_t whole = 0;      // before the point
    std::string fraction{};  // the digits behind it; no 0 ends them
    bool open = false;       // the range is without it
    /// The number nearest to it in the range, above it or below (`up` says which), of whole numbers of
    /// 10^-decimals. Errors: unsupported, beyond 18 digits.
    int64_t scaled(uint32_t decimals, bool up) const;
};

/// [least, most], with sides of at most 16 digits where there are none.
std::pair<int64_t, int64_t> closed_range(std::optional<int64_t> least, std::optional<int64_t> most);

/// Decimal integers of [least, most], without leading zeros; a side that is not there is open, but has at
/// most 16 digits.
Expr json_integers(std::optional<int64_t> least, std::optional<int64_t> most);
/// Decimal numbers between the bounds, at least one of which is there, with a fraction or without; nothing if
/// there are none.
std::optional<Expr> json_numbers(const std::optional<Bound>& least, const std::optional<Bound>& most);
using NewRule = std::function<uint32_t(Expr body)>;
/// Multiples of divisor / 10^decimals in [least, most] / 10^decimals, by rules of their own; nothing if there
/// are none. Errors: unsupported, for a divisor that takes too many.
std::optional<Expr> json_multiples(uint64_t divisor, uint32_t decimals, std::optional<int64_t> least,
                                   std::optional<int64_t> most, const NewRule& new_rule);

}  // namespace scoria::grammar
