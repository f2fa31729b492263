// A vocabulary as a file states it, checked, and what every kind of tokenizer shares: special tokens,
// beginning and end of sequence, the bytes of a token.
#pragma once

#include "gguf.h"
#include "tokenizer/tokenizer.h"

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace scoria {

/// GGUF's tokenizer.ggml.token_type.
enum class TokenType : uint8_t { normal = 1, unknown, control, user_defined, unused, byte };

struct Vocabulary {
    std::string model, pre;           // "gpt2", "llama-bpe"; pre is empty if the file names none
    std::vector<std::string> tokens;  // as spelled in the file
    std::vector<TokenType> types;     // one per token
    std::vector<std::string> merges;  // "left right", best first
    std::vector<double> scores;       // one per token, or empty
    TokenId bos = -1, eos = -1, unknown = -1;
    std::optional<bool> add_bos, add_eos, add_space_prefix;
    std::vector<TokenId> ends;  // sorted: EOS and the tokens that end a turn

    bool is_special(TokenId id) const {  // written only on request
        const TokenType type = types[static_cast<size_t>(id)];
        return type == TokenType::control || type == TokenType::unknown;
    }
};

/// Errors: unsupported if the file has no vocabulary; bad_file, naming the key, if it contradicts itself.
Vocabulary read_vocabulary(const GgufMetadata& metadata);

/// Errors: unsupported, naming the kind; bad_file.
std::shared_ptr<const Tokenizer> make_tokenizer(Vocabulary vocabulary);

/// Finds spelled-out tokens in text: the leftmost, and of those the longest.
class SpellingTrie {
  public:
    void insert(std::string_view spelling, TokenId id);
    /// The longest spelling at the start of `text`: its id and length, or {-1, 0}.
    std::pair<TokenId, size_t> match(std::string_view text) const;

  private:
    struct Node {
        std::map<char, uint32_t> next;
        TokenId id = -1;
    };
    std::vector<Node> nodes_ = std::vector<Node>(1);
};

/// Base of the tokenizers made from a Vocabulary; a kind supplies encode_text() and the pieces.
class VocabularyTokenizer : public Tokenizer {
  public:
    explicit VocabularyTokenizer(Vocabulary vocabulary);
    std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options) const final;
    std::string piece(TokenId id, bool special) const override;
    std::string decode(std::span<const TokenId> ids, bool special) const override;
    uint32_t size() const final { return static_cast<uint32_t>(vocabulary_.tokens.size()); }
    TokenId bos() const final { return vocabulary_.bos; }
    TokenId eos() const final { return vocabulary_.eos; }
    bool adds_bos() const final { return vocabulary_.add_bos.value_or(false) && vocabulary_.bos >= 0; }
    bool ends_generation(TokenId id) const final;

  protected:
    /// Appends the tokens of `text`, which is valid UTF-8 and holds no special token.
    virtual void encode_text(std::string_view text, std::vector<TokenId>& out) const = 0;

    Vocabulary vocabulary_;
    std::vector<std::string> pieces_;  // bytes of each token; a kind may replace those of normal tokens

  private:
    SpellingTrie always_, special_;  // user-defined tokens; those and the special ones
};

}  // namespace scoria
