// Python's operators on values, and its ways to write them.
#pragma once

#include "jinja/runtime.h"

namespace scoria::jinja {

enum class Operator : uint8_t { add, subtract, multiply, divide, floor_divide, modulo, power };
Value arithmetic(Runtime& runtime, Operator op, const Value& left, const Value& right);
Value negate(Runtime& runtime, const Value& value);

enum class Comparison : uint8_t { equal, not_equal, less, less_equal, greater, greater_equal, in, not_in };
bool compare(Runtime& runtime, Comparison op, const Value& left, const Value& right);
bool equal(Runtime& runtime, const Value& left, const Value& right);
bool less(Runtime& runtime, const Value& left, const Value& right);
bool contains(Runtime& runtime, const Value& container, const Value& item);

/// Where `needle` begins in `text`, at or after byte `from`, or npos; as many steps as it takes are spent.
size_t search(Runtime& runtime, std::string_view text, std::string_view needle, size_t from = 0);

/// value[from:to:step]; undefined bounds are absent.
Value slice(Runtime& runtime, const Value& value, const Value* from, const Value* to, const Value* step);
/// Where character `index` of a string begins; clamps to its end.
size_t byte_of(const Str& str, size_t index);
size_t length_of(const Str& str);  // in characters

/// str(value) and repr(value).
Text to_text(Runtime& runtime, const Value& value);
void write_str(Writer& out, Runtime& runtime, const Value& value);
void write_repr(Writer& out, Runtime& runtime, const Value& value);

struct JsonStyle {
    std::optional<std::string> indent;
    std::optional<std::pair<std::string, std::string>> separators;  // between items, after a key
    bool ensure_ascii = false, sort_keys = false;
};
Text to_json(Runtime& runtime, const Value& value, const JsonStyle& style);

std::string integer_text(Integer value);
std::string float_repr(double value);
/// Python's int(text, base) and float(text); nothing where it would raise.
std::optional<Integer> parse_integer(std::string_view text, int64_t base = 10);
std::optional<double> parse_float(std::string_view text);
/// Rounded to nearest, ties to even digits, as Python's round().
double round_to(double value, int64_t digits);

/// `"..." % values` and "...".format(...).
Text percent_format(Runtime& runtime, const Text& format, const Value& values);
Text brace_format(Runtime& runtime, const Text& format, const Arguments& arguments);
Text escape_html(Runtime& runtime, const Text& text);

}  // namespace scoria::jinja
