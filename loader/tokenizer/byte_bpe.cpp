#include "tokenizer/byte_bpe.h"

#include "fail.h"
#include "tokenizer/merging.h"
#include "tokenizer/nfc.h"
#include "tokenizer/utf8.h"

namespace scoria {
namespace {

/// GPT-2 spells bytes as printable characters: those of Latin-1 that print stand for themselves, the others
/// take U+0100 onwards in order.
std::array<char32_t, 256> byte_spellings() {
    std::array<char32_t, 256> spellings{};
    char32_t next = 0x100;
    for (uint32_t byte = 0; byte < 256; ++byte) {
        const bool prints = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
        spellings[byte] = prints ? byte : next++;
    }
    return spellings;
}

/// Bytes that `token` spells; text that is no such spelling (an added token) stays as it is.
std::string token_bytes(const std::string& token) {
    static const std::array<char32_t, 256> spellings = byte_spellings();
    static const std::array<int16_t, 0x144> bytes = [] {
        std::array<int16_t, 0x144> inverse;
        inverse.fill(-1);
        for (int16_t byte = 0; byte < 256; ++byte) inverse[spellings[static_cast<size_t>(byte)]] = byte;
        return inverse;
    }();
    std::string out;
    for (std::string_view rest = token; !rest.empty();) {
        const utf8::Step step = utf8::step(rest);
        if (step.kind != utf8::Step::Kind::valid || step.code >= bytes.size() || bytes[step.code] < 0)
            return token;
        out += static_cast<char>(bytes[step.code]);
        rest.remove_prefix(step.bytes);
    }
    return out;
}

const PreTokenizerKind& known_kind(const Vocabulary& vocabulary) {
    const PreTokenizerKind* kind = pre_tokenizer_kind(vocabulary.pre);
    if (kind == nullptr) {
        fail(Status::unsupported, "gguf", "tokenizer.ggml.pre: this build does not know ",
             vocabulary.pre.empty() ? "a vocabulary that names none" : vocabulary.pre);
    }
    return *kind;
}

uint64_t merge_key(TokenId left, TokenId right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

}  // namespace

ByteBpe::ByteBpe(Vocabulary vocabulary)
    : VocabularyTokenizer(std::move(vocabulary)), pre_kind_(known_kind(vocabulary_)),
      pre_tokenizer_(pre_kind_), kind_name_(cat("gpt2 (", vocabulary_.pre, ")")) {
    if (!vocabulary_.add_bos) vocabulary_.add_bos = pre_kind_.adds_bos;
    read_merges();
    byte_tokens_.fill(-1);
    for (size_t i = 0; i < pieces_.size(); ++i) {
        const TokenType type = vocabulary_.types[i];
        if (type != TokenType::normal && type != TokenType::unused) continue;
        pieces_[i] = token_bytes(pieces_[i]);
        tokens_by_bytes_.try_emplace(pieces_[i], static_cast<TokenId>(i));
    }
    for (uint32_t byte = 0; byte < 256; ++byte) {
        const char text = static_cast<char>(byte);
        const auto found = tokens_by_bytes_.find(std::string_view(&text, 1));
        if (found != tokens_by_bytes_.end()) byte_tokens_[byte] = found->second;
    }
}

void ByteBpe::read_merges() {
    std::unordered_map<std::string_view, TokenId> ids;
    ids.reserve(vocabulary_.tokens.size());
    for (size_t i = 0; i < vocabulary_.tokens.size(); ++i)
        ids.try_emplace(vocabulary_.tokens[i], static_cast<TokenId>(i));
    merges_.reserve(vocabulary_.merges.size());
    std::string joined;
    for (size_t rank = 0; rank < vocabulary_.merges.size(); ++rank) {
        const std::string_view merge = vocabulary_.merges[rank];
        const size_t space = merge.find(' ', 1);  // a token may begin with a space, none ends in one
        const auto left = ids.find(merge.substr(0, space));
        const auto right = ids.find(space == merge.npos ? std::string_view() : merge.substr(space + 1));
        joined.assign(merge);
        if (space != merge.npos) joined.erase(space, 1);
        const auto result = ids.find(joined);
        if (left == ids.end() || right == ids.end() || result == ids.end()) {
            fail(Status::bad_file, "gguf",
                 "tokenizer.ggml.merges: expected two tokens that join to a token, got \"", merge, "\" at ",
                 rank);
        }
        merges_.try_emplace(merge_key(left->second, right->second),
                            Merge{static_cast<uint32_t>(rank), result->second});
    }
    vocabulary_.merges = {};
}

void ByteBpe::encode_text(std::string_view text, std::vector<TokenId>& out) const {
    std::string composed;
    if (pre_kind_.nfc) text = composed = utf8::nfc(text);
    SeenWords seen;
    const auto encode_new = [this](std::string_view word, std::vector<TokenId>& ids) {
        encode_piece(word, ids);
    };
    pre_tokenizer_.split(text, [&](std::string_view piece) { seen.append(piece, out, encode_new); });
}

void ByteBpe::encode_piece(std::string_view piece, std::vector<TokenId>& out) const {
    if (pre_kind_.whole_words) {
        const auto found = tokens_by_bytes_.find(piece);
        if (found != tokens_by_bytes_.end()) return out.push_back(found->second);
    }
    std::vector<Symbol> symbols;
    symbols.reserve(piece.size());
    for (const char byte : piece) {
        const TokenId id = byte_tokens_[static_cast<uint8_t>(byte)];
        if (id < 0) continue;  // as the reference does with a byte that its training never saw
        const int32_t index = static_cast<int32_t>(symbols.size());
        symbols.push_back({id, static_cast<uint32_t>(index), 1, index - 1, index + 1});
    }
    if (symbols.empty()) return;
    symbols.back().next = -1;
    merge_symbols(symbols, [&](const Symbol& left, const Symbol& right) -> std::optional<FoundMerge> {
        const auto found = merges_.find(merge_key(left.id, right.id));
        if (found == merges_.end()) return std::nullopt;
        return FoundMerge{static_cast<double>(found->second.rank), found->second.result};
    });
    for (int32_t i = 0; i >= 0; i = symbols[static_cast<size_t>(i)].next)
        out.push_back(symbols[static_cast<size_t>(i)].id);
}

}  // namespace scoria
