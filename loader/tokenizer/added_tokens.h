// Tokens that are found in a text before anything else is done to it, or after its normalization.
#pragma once

#include "tokenizer/normalizer.h"
#include "tokenizer/trie.h"

#include "text_range.h"

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace scoria {

struct AddedToken {
    std::string text;
    TokenId id = -1;
    bool special = false;                 // found only where special tokens are to be parsed
    bool single_word = false;             // not where it touches a letter or digit
    bool lstrip = false, rstrip = false;  // takes the spaces on this side with it
    bool normalized = false;              // compared with normalized text, itself normalized
};

class AddedTokens {
  public:
    AddedTokens() = default;
    /// Errors: bad_file, naming `where`, if a spelling is longer than any real one.
    AddedTokens(std::vector<AddedToken> tokens, const std::vector<NormalizerStep>& normalizer,
                std::string_view where);

    using OnText = std::function<void(std::string_view text)>;
    using OnToken = std::function<void(TokenId id)>;
    /// Calls in order for the stretches of `text` (valid UTF-8) and the tokens between them: the leftmost,
    /// and of those the longest. `normalized`: the text is. Special tokens are found if parse_special, and
    /// only outside the ranges `literal`.
    void find(std::string_view text, bool normalized, bool parse_special, std::span<const TextRange> literal,
              const OnText& on_text, const OnToken& on_token) const;
    bool any(bool normalized) const { return !(normalized ? normalized_ : raw_).empty; }

  private:
    struct Set {
        Trie trie;  // its ids are indices of tokens_
        bool empty = true;
    };
    std::vector<AddedToken> tokens_;
    Set raw_, normalized_;
};

}  // namespace scoria
