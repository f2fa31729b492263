// UTF-8 as Unicode 15 table 3-7 defines it: no surrogates, no overlong forms, nothing above U+10FFFF.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace scoria::utf8 {

constexpr char32_t replacement = 0xFFFD;

struct Step {
    enum class Kind : uint8_t { valid, invalid, incomplete } kind;
    uint8_t bytes;  // length of the sequence, or of the maximal ill-formed part (at least 1)
    char32_t code;  // if valid
};
/// What `text` begins with; it is not empty. Incomplete: a prefix of a valid sequence, cut by the end.
Step step(std::string_view text);

void append(std::string& out, char32_t code);

/// `text` with every maximal ill-formed part replaced by U+FFFD, as browsers and Python do.
std::string valid(std::string_view text);
bool is_valid(std::string_view text);

/// A byte inside a sequence, not its first.
inline bool continues(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) == 0x80; }

}  // namespace scoria::utf8
