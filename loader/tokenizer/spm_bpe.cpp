#include "tokenizer/spm_bpe.h"

#include "fail.h"
#include "tokenizer/merging.h"
#include "tokenizer/utf8.h"

#include <algorithm>
#include <charconv>

namespace scoria {
namespace {

constexpr std::string_view space_mark = "\u2581";

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
    std::string out;
    for (size_t found; (found = text.find(from)) != text.npos; text.remove_prefix(found + from.size())) {
        out += text.substr(0, found);
        out += to;
    }
    return out += text;
}

/// Bytes of the space marks that `text` begins with.
size_t leading_marks(std::string_view text) {
    size_t bytes = 0;
    while (text.substr(bytes).starts_with(space_mark)) bytes += space_mark.size();
    return bytes;
}

/// The byte that "<0x0A>" spells.
uint8_t spelled_byte(std::string_view token, TokenId id) {
    uint8_t byte = 0;
    const bool framed = token.size() == 6 && token.starts_with("<0x") && token.back() == '>';
    if (!framed || std::from_chars(token.data() + 3, token.data() + 5, byte, 16).ptr != token.data() + 5) {
        fail(Status::bad_file, "gguf", "tokenizer.ggml.tokens: expected a byte token <0xXX>, got \"", token,
             "\" at ", id);
    }
    return byte;
}

}  // namespace

SpmBpe::SpmBpe(Vocabulary vocabulary) : VocabularyTokenizer(std::move(vocabulary)) {
    if (vocabulary_.scores.empty()) fail(Status::bad_file, "gguf", "tokenizer.ggml.scores is missing");
    if (!vocabulary_.add_bos) vocabulary_.add_bos = true;
    if (!vocabulary_.add_space_prefix) vocabulary_.add_space_prefix = true;
    byte_tokens_.fill(-1);
    for (size_t i = 0; i < pieces_.size(); ++i) {
        const std::string& token = vocabulary_.tokens[i];
        const TokenId id = static_cast<TokenId>(i);
        if (vocabulary_.types[i] == TokenType::byte) {
            const uint8_t byte = spelled_byte(token, id);
            byte_tokens_[byte] = id;
            pieces_[i] = std::string(1, static_cast<char>(byte));
        } else if (!vocabulary_.is_special(id)) {
            tokens_by_text_.try_emplace(token, id);
            longest_ = std::max(longest_, token.size());
            words_merge_ |= token.find(space_mark, leading_marks(token)) != token.npos;
            if (vocabulary_.types[i] != TokenType::user_defined)
                pieces_[i] = replace_all(token, space_mark, " ");
        }
    }
}

void SpmBpe::encode_text(std::string_view text, std::vector<TokenId>& out) const {
    std::string marked = *vocabulary_.add_space_prefix ? std::string(space_mark) : std::string();
    marked += replace_all(text, " ", space_mark);
    if (marked.size() > UINT32_MAX / 2)
        fail(Status::bad_argument, "tokenizer", "expected less than 2 GiB of text");
    if (words_merge_) return encode_word(marked, out);

    // No token holds a mark behind anything else, so no merge crosses from a character to a mark.
    SeenWords seen;
    const auto encode_new = [this](std::string_view word, std::vector<TokenId>& ids) {
        encode_word(word, ids);
    };
    for (std::string_view rest = marked; !rest.empty();) {
        const size_t end = std::min(rest.find(space_mark, leading_marks(rest)), rest.size());
        seen.append(rest.substr(0, end), out, encode_new);
        rest.remove_prefix(end);
    }
}

void SpmBpe::encode_word(std::string_view marked, std::vector<TokenId>& out) const {
    const auto token_of = [&](uint32_t first, uint32_t size) {
        const auto found = tokens_by_text_.find(marked.substr(first, size));
        return found == tokens_by_text_.end() ? -1 : found->second;
    };
    std::vector<Symbol> symbols;
    for (uint32_t first = 0; first < marked.size();) {
        const uint32_t size = utf8::step(marked.substr(first)).bytes;
        const int32_t index = static_cast<int32_t>(symbols.size());
        symbols.push_back({token_of(first, size), first, size, index - 1, index + 1});
        first += size;
    }
    if (symbols.empty()) return;
    symbols.back().next = -1;
    merge_symbols(symbols, [&](const Symbol& left, const Symbol& right) -> std::optional<FoundMerge> {
        if (left.size + right.size > longest_) return std::nullopt;
        const TokenId id = token_of(left.first, left.size + right.size);
        if (id < 0) return std::nullopt;
        return FoundMerge{-vocabulary_.scores[static_cast<size_t>(id)], id};
    });
    for (int32_t i = 0; i >= 0; i = symbols[static_cast<size_t>(i)].next) {
        const Symbol& symbol = symbols[static_cast<size_t>(i)];
        if (symbol.id >= 0) {
            out.push_back(symbol.id);
            continue;
        }
        for (const char byte : marked.substr(symbol.first, symbol.size)) {
            const TokenId id = byte_tokens_[static_cast<uint8_t>(byte)];
            if (id >= 0)
                out.push_back(id);
            else if (vocabulary_.unknown >= 0)
                out.push_back(vocabulary_.unknown);
        }
    }
}

std::string SpmBpe::decode(std::span<const TokenId> ids, bool special) const {
    std::string text = VocabularyTokenizer::decode(ids, special);
    const bool prefixed =
        *vocabulary_.add_space_prefix && !ids.empty() && piece(ids[0], special).starts_with(' ');
    if (prefixed) text.erase(0, 1);
    return text;
}

}  // namespace scoria
