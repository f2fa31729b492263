#include "tokenizer/token_model.h"
#include "tokenizer/utf8.h"

#include <algorithm>

namespace scoria {

namespace {
constexpr double unknown_penalty = 10;  // kUnkPenalty of SentencePiece's unigram_model.cc
}

Unigram::Unigram(std::vector<std::string> tokens, std::vector<double> scores,
                 const std::vector<bool>& user_defined, double least_score, const Options& options)
    : spellings_(std::move(tokens)), scores_(std::move(scores)),
      unknown_score_(options.first_longest ? least_score : least_score - unknown_penalty), options_(options) {
    std::vector<std::pair<std::string_view, TokenId>> entries;
    for (size_t i = 0; i < scores_.size(); ++i) {
        const std::string& token = spellings_.tokens()[i];
        if (!utf8::is_valid(token) || (!options_.bytes_are_text && spelled_byte(token))) continue;
        entries.push_back({token, static_cast<TokenId>(i)});
        // So that a user-defined token beats any other way to write it (unigram_model.cc,
        // GetUserDefinedScore).
        if (user_defined[i]) scores_[i] = static_cast<float>(0.1 * (static_cast<double>(token.size()) - 1));
    }
    trie_ = Trie(std::move(entries));
    byte_tokens_ = spellings_.byte_tokens();
}

bool Unigram::has_bytes(std::string_view text) const {
    return std::ranges::all_of(text,
                               [&](char byte) { return byte_tokens_[static_cast<uint8_t>(byte)] >= 0; });
}

void Unigram::encode(std::string_view piece, std::vector<TokenId>& out) const {
    if (options_.first_longest)
        encode_from_end(piece, out);
    else if (options_.single_precision)
        encode_in<float>(piece, out);
    else
        encode_in<double>(piece, out);
}

void Unigram::encode_from_end(std::string_view piece, std::vector<TokenId>& out) const {
    struct Node {  // the best way to go on from a place: its first token and that token's bytes
        TokenId id = -1;
        size_t bytes = 0;
        double score = 0;
    };
    std::vector<Node> nodes(piece.size() + 1);
    std::vector<size_t> starts;
    for (size_t start = 0; start < piece.size(); start += utf8::step(piece.substr(start)).bytes)
        starts.push_back(start);
    size_t after = piece.size();
    for (size_t i = starts.size(); i-- > 0; after = starts[i]) {
        const size_t start = starts[i], character = after - start;
        Node& node = nodes[start] = {-1, character, unknown_score_ + nodes[after].score};
        trie_.each_prefix(piece.substr(start), [&](TokenId id, size_t bytes) {
            const double score = scores_[static_cast<size_t>(id)] + nodes[start + bytes].score;
            if (score >= node.score) node = {id, bytes, score};
        });
    }
    for (size_t start = 0; start < piece.size(); start += nodes[start].bytes)
        if (const Node& node = nodes[start]; node.id >= 0)
            out.push_back(node.id);
        else if (const std::string_view character = piece.substr(start, node.bytes);
                 options_.byte_fallback && has_bytes(character))
            for (const char byte : character) out.push_back(byte_tokens_[static_cast<uint8_t>(byte)]);
        else if (options_.unknown >= 0)
            out.push_back(options_.unknown);
}

template <class Real> void Unigram::encode_in(std::string_view piece, std::vector<TokenId>& out) const {
    struct Node {  // the best way to reach a place: the last token of it and that token's bytes
        TokenId id = -1;
        uint32_t bytes = 0;  // 0: not reached
        Real score = 0;
    };
    std::vector<Node> nodes(piece.size() + 1);
    for (size_t start = 0, character = 0; start < piece.size(); start += character) {
        character = utf8::step(piece.substr(start)).bytes;
        const Real so_far = nodes[start].score;
        const auto consider = [&](TokenId id, size_t bytes, Real score) {
            Node& target = nodes[start + bytes];
            const Real candidate = score + so_far;
            if (target.bytes == 0 || candidate > target.score)
                target = {id, static_cast<uint32_t>(bytes), candidate};
        };
        bool whole_character = false;
        trie_.each_prefix(piece.substr(start), [&](TokenId id, size_t bytes) {
            consider(id, bytes, static_cast<Real>(scores_[static_cast<size_t>(id)]));
            whole_character |= bytes == character;
        });
        if (!whole_character) consider(-1, character, static_cast<Real>(unknown_score_));
    }
    const size_t first = out.size();
    bool after_unknown = false;
    for (size_t end = piece.size(); end > 0; end -= nodes[end].bytes) {
        const Node& node = nodes[end];
        const bool unknown = node.id < 0;
        if (!unknown) {
            out.push_back(node.id);
        } else if (const std::string_view text = piece.substr(end - node.bytes, node.bytes);
                   options_.byte_fallback && has_bytes(text)) {
            for (size_t i = text.size(); i-- > 0;) out.push_back(byte_tokens_[static_cast<uint8_t>(text[i])]);
        } else if (options_.unknown >= 0 && !after_unknown) {
            out.push_back(options_.unknown);  // neighbours become one
        }
        after_unknown = unknown;
    }
    std::reverse(out.begin() + static_cast<std::ptrdiff_t>(first), out.end());
}

}  // namespace scoria
