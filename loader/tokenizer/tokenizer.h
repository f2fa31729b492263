// Text to token ids and back. One interface for all kinds; immutable after loading, so thread-safe.
#pragma once

#include "text_range.h"

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace scoria {

using TokenId = int32_t;

struct EncodeOptions {
    bool add_special = true;    // BOS / EOS as the vocabulary says
    bool parse_special = true;  // text that spells a special token becomes that token
    // Sorted ranges of the text that were not written by whoever may write control tokens: what spells one
    // there, wholly or in part, is text. Valid UTF-8 only: ranges count the bytes that are given.
    std::span<const TextRange> literal{};
};

/// Two texts in one sequence, as cross-encoders take them.
struct EncodedPair {
    std::vector<TokenId> ids;
    std::vector<TokenId> types;  // one per token: 0 in the first text, as a rule 1 in the second
    std::array<std::pair<size_t, size_t>, 2> texts{};  // the first token of each, and one past its last
};

class Tokenizer {
  public:
    virtual ~Tokenizer() = default;
    virtual std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options = {}) const = 0;
    virtual EncodedPair encode_pair(std::string_view first, std::string_view second,
                                    const EncodeOptions& options = {}) const;
    /// Bytes of one token; not always whole UTF-8 sequences. Special tokens are empty unless `special`.
    virtual std::string piece(TokenId id, bool special) const = 0;
    virtual std::string decode(std::span<const TokenId> ids, bool special) const = 0;
    virtual uint32_t size() const = 0;  // tokens in the vocabulary
    virtual TokenId bos() const = 0;    // -1: none
    virtual TokenId eos() const = 0;
    virtual bool adds_bos() const = 0;
    virtual bool ends_generation(TokenId id) const = 0;  // EOS, EOT, <|im_end|> and their kin
    virtual std::string_view kind() const = 0;           // "gpt2 (smollm)"
};

/// Turns a stream of tokens into text without ever emitting half a UTF-8 sequence. Bytes that can
/// never become valid are replaced by U+FFFD.
class StreamDecoder {
  public:
    explicit StreamDecoder(const Tokenizer& tokenizer, bool special = false)
        : tokenizer_(&tokenizer), special_(special) {}
    std::string push(TokenId id);  // the text that became complete
    std::string finish();          // what was held back, as U+FFFD

  private:
    const Tokenizer* tokenizer_;
    bool special_;
    std::string held_;
};

/// Tokens by which published vocabularies end a turn, a message or a file, known by their spelling; sorted.
std::vector<TokenId> find_ends(const std::vector<std::string>& tokens);

}  // namespace scoria
