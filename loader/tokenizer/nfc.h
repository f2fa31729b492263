// Normalization Form C (Unicode Standard Annex 15): some tokenizers compose their text first.
#pragma once

#include <string>
#include <string_view>

namespace scoria::utf8 {

/// `text` is valid UTF-8. Quick where every character is below U+0300: nothing to compose there.
std::string nfc(std::string_view text);

}  // namespace scoria::utf8
