// What tokenizers ask of Unicode: normal forms (Unicode Standard Annex 15), classes of characters, lower
// case.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace scoria::utf8 {

enum class NormalForm : uint8_t { nfc, nfd, nfkc, nfkd };

/// `text` is valid UTF-8. Quick where every character is ASCII and, for NFC, below U+0300.
std::string normal_form(std::string_view text, NormalForm form);
inline std::string nfc(std::string_view text) { return normal_form(text, NormalForm::nfc); }

bool is_space(char32_t code);            // White_Space
bool is_punctuation(char32_t code);      // General_Category P, and the symbols of ASCII
bool is_number(char32_t code);           // General_Category N
bool is_mark(char32_t code);             // General_Category M
bool is_nonspacing_mark(char32_t code);  // General_Category Mn
bool is_other(char32_t code);            // General_Category Cc, Cf, Co

/// A number for the script as tokenizer.json's UnicodeScripts tells them apart; 0: of none.
uint8_t script_of(char32_t code);

void append_lower(std::string& out, char32_t code);

}  // namespace scoria::utf8
