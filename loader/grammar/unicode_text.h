// UTF-8 and hexadecimal digits, as far as grammars need them (the loader's rooms are out of reach here).
#pragma once

#include "grammar.h"

#include <optional>

namespace scoria::grammar {

void append_utf8(std::string& out, char32_t code);

struct Utf8Step {
    char32_t code;
    uint32_t bytes;
};
/// What `text`, not empty, begins with; nothing if that is not UTF-8 (no surrogates, no overlong forms).
std::optional<Utf8Step> utf8_step(std::string_view text);
/// The first character as it stands, for messages; '?' where it is none.
std::string first_character(std::string_view text);

std::optional<uint32_t> hex_digit(char byte);

}  // namespace scoria::grammar
