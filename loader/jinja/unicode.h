// Characters as Python's str knows them. All texts here are valid UTF-8.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace scoria::jinja {

enum class Property : uint8_t {
    printable,
    alpha,
    decimal,
    digit,
    numeric,
    upper,
    lower,
    title,
    cased,
    case_ignorable
};
bool has(Property property, char32_t code);
bool is_space(char32_t code);

/// The code point at byte `at`, which moves past it.
char32_t next_code(std::string_view text, size_t& at);
/// The code point that ends at byte `at` (not 0), which moves to its beginning.
char32_t previous_code(std::string_view text, size_t& at);
size_t count_codes(std::string_view text);
bool is_ascii(std::string_view text);

std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string title(std::string_view text);       // the first letter of every word, the others lowered
std::string capitalize(std::string_view text);  // the first character, the others lowered
std::string swap_case(std::string_view text);

}  // namespace scoria::jinja
