#include "tokenizer/spellings.h"

#include "tokenizer/normalizer.h"

#include <algorithm>
#include <charconv>

namespace scoria {

Spellings::Spellings(std::vector<std::string> tokens) : tokens_(std::move(tokens)) {
    ids_.reserve(tokens_.size());
    for (size_t i = 0; i < tokens_.size(); ++i) {
        if (tokens_[i].empty()) continue;
        ids_.try_emplace(tokens_[i], static_cast<TokenId>(i));
        longest_ = std::max(longest_, tokens_[i].size());
    }
}

bool Spellings::words_are_apart() const {
    if (id(space_mark) < 0) return false;  // an unknown mark could join unknown neighbours
    return std::ranges::none_of(tokens_, [](std::string_view token) {
        size_t marks = 0;
        while (token.substr(marks).starts_with(space_mark)) marks += space_mark.size();
        return token.find(space_mark, marks) != token.npos;
    });
}

std::array<TokenId, 256> Spellings::byte_tokens() const {
    std::array<TokenId, 256> ids;
    constexpr std::string_view digits = "0123456789ABCDEF";
    for (size_t byte = 0; byte < 256; ++byte) {
        const char spelling[] = {'<', '0', 'x', digits[byte >> 4], digits[byte & 15], '>'};
        ids[byte] = id({spelling, sizeof spelling});
    }
    return ids;
}

std::optional<uint8_t> spelled_byte(std::string_view token) {
    if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
    uint8_t byte = 0;
    if (std::from_chars(token.data() + 3, token.data() + 5, byte, 16).ptr != token.data() + 5)
        return std::nullopt;
    return byte;
}

}  // namespace scoria
