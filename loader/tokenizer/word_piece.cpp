#include "tokenizer/normalizer.h"
#include "tokenizer/token_model.h"
#include "tokenizer/utf8.h"

#include <algorithm>

namespace scoria {

WordPiece::WordPiece(std::vector<std::string> tokens, Options options) : options_(std::move(options)) {
    std::vector<std::pair<std::string_view, TokenId>> starts, insides;
    for (size_t i = 0; i < tokens.size(); ++i) {
        const std::string_view token = tokens[i];
        if (!utf8::is_valid(token)) continue;
        starts.push_back({token, static_cast<TokenId>(i)});
        if (token.starts_with(options_.prefix))
            insides.push_back({token.substr(options_.prefix.size()), static_cast<TokenId>(i)});
    }
    starts_ = Trie(std::move(starts));
    insides_ = Trie(std::move(insides));
}

void WordPiece::encode(std::string_view piece, std::vector<TokenId>& out) const {
    const auto unknown = [&] {
        if (options_.unknown >= 0) out.push_back(options_.unknown);
    };
    size_t characters = 0;
    for (const char byte : piece) characters += (static_cast<uint8_t>(byte) & 0xC0) != 0x80;
    if (characters > options_.most_characters) return unknown();
    const size_t first = out.size();
    for (size_t i = 0; i < piece.size();) {
        const auto [id, bytes] = (i == 0 ? starts_ : insides_).longest(piece.substr(i));
        if (id < 0) {
            out.resize(first);
            return unknown();
        }
        out.push_back(id);
        i += bytes;
    }
}

LongestMatch::LongestMatch(const std::vector<std::string>& tokens, TokenId unknown) : unknown_(unknown) {
    std::vector<std::pair<std::string_view, TokenId>> entries;
    for (size_t i = 0; i < tokens.size(); ++i) entries.push_back({tokens[i], static_cast<TokenId>(i)});
    trie_ = Trie(std::move(entries));
}

void LongestMatch::encode(std::string_view piece, std::vector<TokenId>& out) const {
    while (!piece.empty()) {
        const auto [id, bytes] = trie_.longest(piece);
        if (id >= 0 || unknown_ >= 0) out.push_back(id >= 0 ? id : unknown_);
        piece.remove_prefix(std::max<size_t>(bytes, 1));
    }
}

void WordLevel::encode(std::string_view piece, std::vector<TokenId>& out) const {
    const TokenId id = spellings_.id(piece);
    if (id >= 0 || unknown_ >= 0) out.push_back(id >= 0 ? id : unknown_);
}

void MarkedWords::encode(std::string_view piece, std::vector<TokenId>& out) const {
    PartWriter writer{byte_fallback_ ? &byte_tokens_ : nullptr, unknown_, true, out};
    while (!piece.empty()) {
        const std::string_view word = piece.substr(0, piece.find(space_mark, 1));
        piece.remove_prefix(word.size());
        const TokenId id = spellings_.id(word);
        const auto byte = spelled_byte(word);
        writer.add(word, byte && byte_tokens_[*byte] == id ? -1 : id);  // bytes are no text
    }
}

}  // namespace scoria
