// The step that turns a piece of text into tokens: six ways, all of which know their vocabulary by spelling.
#pragma once

#include "tokenizer/spellings.h"
#include "tokenizer/trie.h"

#include <array>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace scoria {

class TokenModel {
  public:
    virtual ~TokenModel() = default;
    /// Appends the tokens of `piece`, which is valid UTF-8. Thread-safe. n log n in the bytes of the piece.
    virtual void encode(std::string_view piece, std::vector<TokenId>& out) const = 0;
};

/// Byte-pair encoding by a list of merges, best first (Sennrich et al. 2016).
class RankBpe final : public TokenModel {
  public:
    struct Options {
        TokenId unknown = -1;       // -1: characters that are no token are dropped
        bool fuse_unknown = false;  // neighbours become one
        bool byte_fallback = false;
        bool whole_words = false;    // a piece that is a token becomes it, whatever the merges say
        bool spell_bytes = false;    // pieces are bytes, spellings GPT-2's characters
        std::string prefix, suffix;  // of characters after the first; of the last
    };
    struct Merge {
        std::string_view left, right;
    };
    /// Errors: bad_file, naming `where`, if a merge is not made of tokens.
    RankBpe(std::vector<std::string> tokens, const std::vector<Merge>& merges, Options options,
            std::string_view where);
    void encode(std::string_view piece, std::vector<TokenId>& out) const override;
    const Spellings& spellings() const { return spellings_; }

  private:
    struct Ranked {
        uint32_t rank;
        TokenId result;
    };
    /// With prefix and suffix, which `room` holds then.
    std::string_view spell(std::string_view character, bool first, bool last, std::string& room) const;
    TokenId character(std::string_view spelling) const;

    Spellings spellings_;
    Options options_;
    std::unordered_map<uint64_t, Ranked> merges_;  // key: left id << 32 | right id
    std::array<TokenId, 128> ascii_;
    std::array<TokenId, 256> byte_tokens_;
};

/// SentencePiece's byte-pair encoding (Kudo & Richardson 2018): the best-scored token that two neighbours
/// join to.
class ScoreBpe final : public TokenModel {
  public:
    struct Options {
        TokenId unknown = -1;
        bool byte_fallback = true;
        bool fuse_unknown = false;
    };
    /// `unused`: tokens that join but are taken apart again. `user_defined`: found first and never joined.
    ScoreBpe(std::vector<std::string> tokens, std::vector<float> scores, const std::vector<bool>& unused,
             const std::vector<bool>& user_defined, const Options& options);
    void encode(std::string_view piece, std::vector<TokenId>& out) const override;
    const Spellings& spellings() const { return spellings_; }

  private:
    void encode_between(std::string_view text, std::vector<TokenId>& out) const;

    Spellings spellings_;
    std::vector<float> scores_;
    std::vector<bool> unused_;
    Trie user_defined_;
    bool any_unused_;
    Options options_;
    std::array<TokenId, 256> byte_tokens_;
};

/// The likeliest sequence of tokens (Kudo 2018), by Viterbi's algorithm.
class Unigram final : public TokenModel {
  public:
    struct Options {
        TokenId unknown = -1;  // -1: characters that are no token are dropped
        bool byte_fallback = false;
        bool bytes_are_text = false;   // a text that spells a byte token becomes it
        bool single_precision = true;  // SentencePiece's sums; tokenizer.json's are double
        // Of sequences that are as likely the one whose first tokens are longest, not its last (PLaMo 2).
        bool first_longest = false;
    };
    /// Log probabilities; `user_defined` tokens count by their length instead, and what is no token less than
    /// `least_score`, or with first_longest as that.
    Unigram(std::vector<std::string> tokens, std::vector<double> scores,
            const std::vector<bool>& user_defined, double least_score, const Options& options);
    void encode(std::string_view piece, std::vector<TokenId>& out) const override;
    const Spellings& spellings() const { return spellings_; }

  private:
    template <class Real> void encode_in(std::string_view piece, std::vector<TokenId>& out) const;
    void encode_from_end(std::string_view piece, std::vector<TokenId>& out) const;
    bool has_bytes(std::string_view text) const;  // as tokens

    Spellings spellings_;
    std::vector<double> scores_;
    double unknown_score_;
    Trie trie_;
    Options options_;
    std::array<TokenId, 256> byte_tokens_;
};

/// The longest token first (Wu et al. 2016; as BERT does it).
class WordPiece final : public TokenModel {
  public:
    struct Options {
        TokenId unknown = -1;
        std::string prefix = "##";     // of tokens inside a word
        size_t most_characters = 100;  // longer words are unknown
    };
    WordPiece(std::vector<std::string> tokens, Options options);
    void encode(std::string_view piece, std::vector<TokenId>& out) const override;

  private:
    Trie starts_, insides_;
    Options options_;
};

/// The longest token first, of bytes, words or not (RWKV World). A byte that begins none is unknown.
class LongestMatch final : public TokenModel {
  public:
    LongestMatch(const std::vector<std::string>& tokens, TokenId unknown);
    void encode(std::string_view piece, std::vector<TokenId>& out) const override;

  private:
    Trie trie_;
    TokenId unknown_;
};

/// A piece is a token or unknown.
class WordLevel final : public TokenModel {
  public:
    WordLevel(std::vector<std::string> tokens, TokenId unknown)
        : spellings_(std::move(tokens)), unknown_(unknown) {}
    void encode(std::string_view piece, std::vector<TokenId>& out) const override;

  private:
    Spellings spellings_;
    TokenId unknown_;
};

/// SentencePiece's words: each begins at a space mark; unknown neighbours become one, or their bytes.
class MarkedWords final : public TokenModel {
  public:
    MarkedWords(std::vector<std::string> tokens, TokenId unknown, bool byte_fallback)
        : spellings_(std::move(tokens)), unknown_(unknown), byte_fallback_(byte_fallback),
          byte_tokens_(spellings_.byte_tokens()) {}
    void encode(std::string_view piece, std::vector<TokenId>& out) const override;

  private:
    Spellings spellings_;
    TokenId unknown_;
    bool byte_fallback_;
    std::array<TokenId, 256> byte_tokens_;
};

}  // namespace scoria
