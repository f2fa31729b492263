// The double array of a precompiled charsmap, as darts-clone writes it: units of 32 bits, walked from unit 0
// by exclusive or of offset and byte.
#include "tokenizer/normalizer.h"

#include "fail.h"
#include "tokenizer/utf8.h"

#include <cstring>

namespace scoria {
namespace {

constexpr size_t most_matches = 32;  // of one search in SentencePiece: longer ones are not seen

uint32_t offset(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }
uint32_t label(uint32_t unit) { return unit & ((1u << 31) | 0xFF); }
bool has_leaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t value(uint32_t unit) { return unit & ((1u << 31) - 1); }

}  // namespace

Charsmap::Charsmap(std::string_view bytes, std::string_view where) {
    if (bytes.empty()) return;
    uint32_t size = 0;
    if (bytes.size() >= sizeof size) std::memcpy(&size, bytes.data(), sizeof size);
    if (bytes.size() <= sizeof size || size > bytes.size() - sizeof size || size % sizeof(uint32_t) != 0 ||
        size == 0) {
        fail(Status::bad_file, where, "precompiled_charsmap: expected a table inside ", bytes.size(),
             " bytes, got ", size);
    }
    units_.resize(size / sizeof(uint32_t));
    std::memcpy(units_.data(), bytes.data() + sizeof size, size);
    replacements_ = bytes.substr(sizeof size + size);
    if (!utf8::is_valid(replacements_))
        fail(Status::bad_file, where, "precompiled_charsmap: expected replacements in UTF-8");
    if (replacements_.empty() || replacements_.back() != '\0') replacements_ += '\0';
}

Charsmap::Found Charsmap::find(std::string_view text, bool longest) const {
    Found found;
    if (units_.empty()) return found;
    size_t node = offset(units_[0]);  // every index is checked: a file may point anywhere
    size_t matches = 0;
    for (size_t i = 0; i < text.size() && text[i] != '\0'; ++i) {
        node ^= static_cast<uint8_t>(text[i]);
        if (node >= units_.size() || label(units_[node]) != static_cast<uint8_t>(text[i])) break;
        const uint32_t unit = units_[node];
        node ^= offset(unit);
        if (!has_leaf(unit)) continue;
        if (node >= units_.size()) break;
        const uint32_t first = value(units_[node]);
        if (first >= replacements_.size() || utf8::continues(replacements_[first])) break;
        if (i + 1 < text.size() && utf8::continues(text[i + 1])) continue;  // never a part of a character
        found = {std::string_view(replacements_.data() + first), i + 1};
        if (!longest || ++matches == most_matches) break;
    }
    return found;
}

}  // namespace scoria
