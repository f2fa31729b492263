// Both kinds of byte-pair encoding: merges by rank, merges by score.
#include "fail.h"
#include "tokenizer/byte_characters.h"
#include "tokenizer/merging.h"
#include "tokenizer/token_model.h"
#include "tokenizer/utf8.h"

#include <algorithm>

namespace scoria {
namespace {

constexpr size_t most_piece_bytes = UINT32_MAX / 2;

uint64_t merge_key(TokenId left, TokenId right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

void check_size(std::string_view piece) {
    if (piece.size() > most_piece_bytes)
        fail(Status::bad_argument, "tokenizer", "expected less than 2 GiB of text");
}

/// The linked list that merging works on.
class SymbolList {
  public:
    void add(TokenId id, size_t first, size_t bytes) {
        const int32_t index = static_cast<int32_t>(symbols.size());
        symbols.push_back(
            {id, static_cast<uint32_t>(first), static_cast<uint32_t>(bytes), index - 1, index + 1});
    }
    template <class Find> void merge(const Find& find) {
        if (symbols.empty()) return;
        symbols.back().next = -1;
        merge_symbols(symbols, find);
    }
    template <class Visit> void each(const Visit& visit) const {
        for (int32_t i = symbols.empty() ? -1 : 0; i >= 0; i = symbols[static_cast<size_t>(i)].next)
            visit(symbols[static_cast<size_t>(i)]);
    }
    std::vector<Symbol> symbols;
};

}  // namespace

RankBpe::RankBpe(std::vector<std::string> tokens, const std::vector<Merge>& merges, Options options,
                 std::string_view where)
    : spellings_(std::move(tokens)), options_(std::move(options)) {
    merges_.reserve(merges.size());
    std::string joined;
    for (size_t rank = 0; rank < merges.size(); ++rank) {
        const auto [left, right] = merges[rank];
        joined.assign(left);
        joined += right.substr(right.starts_with(options_.prefix) ? options_.prefix.size() : 0);
        const TokenId a = spellings_.id(left), b = spellings_.id(right), result = spellings_.id(joined);
        if (a < 0 || b < 0 || result < 0) {
            fail(Status::bad_file, where, "expected two tokens that join to a token, got \"", left,
                 right.empty() ? "" : " ", right, "\" at ", rank);
        }
        merges_.try_emplace(merge_key(a, b), Ranked{static_cast<uint32_t>(rank), result});
    }
    for (size_t code = 0; code < ascii_.size(); ++code) {
        const char text = static_cast<char>(code);
        ascii_[code] = spellings_.id({&text, 1});
    }
    byte_tokens_ = spellings_.byte_tokens();
}

std::string_view RankBpe::spell(std::string_view character, bool first, bool last, std::string& room) const {
    if (options_.prefix.empty() && options_.suffix.empty()) return character;
    room = first ? "" : options_.prefix;
    room += character;
    if (last) room += options_.suffix;
    return room;
}

TokenId RankBpe::character(std::string_view spelling) const {
    const auto byte = static_cast<uint8_t>(spelling[0]);
    return spelling.size() == 1 && byte < 0x80 ? ascii_[byte] : spellings_.id(spelling);
}

void RankBpe::encode(std::string_view piece, std::vector<TokenId>& out) const {
    check_size(piece);
    std::string spelled;
    if (options_.spell_bytes) piece = spelled = to_byte_characters(piece);
    if (options_.whole_words) {
        if (const TokenId id = spellings_.id(piece); id >= 0) return out.push_back(id);
    }
    SymbolList list;
    list.symbols.reserve(piece.size());
    // Unknown characters wait for the next token that is none of bytes: those of later characters overtake
    // them.
    size_t unknown_bytes = 0;
    const auto add_unknown = [&](size_t end) {
        if (unknown_bytes > 0) list.add(options_.unknown, end - unknown_bytes, unknown_bytes);
        unknown_bytes = 0;
    };
    std::string room;
    for (size_t i = 0, bytes = 0; i < piece.size(); i += bytes) {
        bytes = utf8::step(piece.substr(i)).bytes;
        const std::string_view text = spell(piece.substr(i, bytes), i == 0, i + bytes == piece.size(), room);
        if (const TokenId id = character(text); id >= 0) {
            add_unknown(i);
            list.add(id, i, bytes);
            continue;
        }
        const auto has_token = [&](char byte) { return byte_tokens_[static_cast<uint8_t>(byte)] >= 0; };
        if (options_.byte_fallback && std::ranges::all_of(text, has_token)) {  // prefix and suffix included
            for (const char byte : text) list.add(byte_tokens_[static_cast<uint8_t>(byte)], i, 1);
        } else if (options_.unknown >= 0) {
            if (!options_.fuse_unknown) add_unknown(i);
            unknown_bytes += bytes;
        }
    }
    add_unknown(piece.size());
    list.merge([&](const Symbol& left, const Symbol& right) -> std::optional<FoundMerge> {
        const auto found = merges_.find(merge_key(left.id, right.id));
        if (found == merges_.end()) return std::nullopt;
        return FoundMerge{static_cast<double>(found->second.rank), found->second.result};
    });
    list.each([&](const Symbol& symbol) { out.push_back(symbol.id); });
}

ScoreBpe::ScoreBpe(std::vector<std::string> tokens, std::vector<float> scores,
                   const std::vector<bool>& unused, const std::vector<bool>& user_defined,
                   const Options& options)
    : spellings_(std::move(tokens)), scores_(std::move(scores)), unused_(unused),
      any_unused_(std::ranges::find(unused, true) != unused.end()), options_(options) {
    std::vector<std::pair<std::string_view, TokenId>> fixed;
    for (size_t i = 0; i < user_defined.size(); ++i) {
        const std::string& token = spellings_.tokens()[i];
        if (user_defined[i] && utf8::is_valid(token)) fixed.push_back({token, static_cast<TokenId>(i)});
    }
    user_defined_ = Trie(std::move(fixed));
    byte_tokens_ = spellings_.byte_tokens();
}

void ScoreBpe::encode(std::string_view piece, std::vector<TokenId>& out) const {
    check_size(piece);
    size_t start = 0;
    for (size_t i = 0; i < piece.size();) {
        const auto [id, bytes] = user_defined_.longest(piece.substr(i));
        if (id < 0) {
            ++i;
            continue;
        }
        if (i > start) encode_between(piece.substr(start, i - start), out);
        out.push_back(id);
        start = i += bytes;
    }
    if (start < piece.size()) encode_between(piece.substr(start), out);
}

void ScoreBpe::encode_between(std::string_view text, std::vector<TokenId>& out) const {
    SymbolList list;
    for (size_t first = 0; first < text.size();) {
        const size_t bytes = utf8::step(text.substr(first)).bytes;
        list.add(spellings_.id(text.substr(first, bytes)), first, bytes);
        first += bytes;
    }
    std::unordered_map<std::string_view, size_t> joints;  // of unused tokens: bytes of their left half
    list.merge([&](const Symbol& left, const Symbol& right) -> std::optional<FoundMerge> {
        const size_t bytes = size_t{left.size} + right.size;
        if (bytes > spellings_.longest()) return std::nullopt;
        const std::string_view joined = text.substr(left.first, bytes);
        const TokenId id = spellings_.id(joined);
        if (id < 0 || (bytes == 6 && spelled_byte(joined))) return std::nullopt;  // bytes are no text
        if (unused_[static_cast<size_t>(id)]) joints[joined] = left.size;
        return FoundMerge{-static_cast<double>(scores_[static_cast<size_t>(id)]), id};
    });
    PartWriter writer{options_.byte_fallback ? &byte_tokens_ : nullptr, options_.unknown,
                      options_.fuse_unknown, out};
    const auto give = [&](const auto& self, std::string_view part, TokenId id) -> void {
        if (any_unused_ && id >= 0 && unused_[static_cast<size_t>(id)]) {
            if (const auto joint = joints.find(part); joint != joints.end()) {
                const size_t left = joint->second;
                self(self, part.substr(0, left), spellings_.id(part.substr(0, left)));
                self(self, part.substr(left), spellings_.id(part.substr(left)));
                return;
            }
        }
        writer.add(part, id);
    };
    list.each([&](const Symbol& symbol) { give(give, text.substr(symbol.first, symbol.size), symbol.id); });
}

}  // namespace scoria
