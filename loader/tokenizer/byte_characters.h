// GPT-2 spells bytes as printable characters: those of Latin-1 that print stand for themselves, the others
// take U+0100 onwards in order (Radford et al. 2019, encoder.py).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace scoria {

std::string to_byte_characters(std::string_view bytes);

/// The bytes that `characters` spell, or nothing if one of them spells none.
std::optional<std::string> from_byte_characters(std::string_view characters);

}  // namespace scoria
