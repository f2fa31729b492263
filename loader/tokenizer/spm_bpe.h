// SentencePiece's byte-pair encoding with byte fallback (Kudo & Richardson 2018): the "llama" model of GGUF
// files. White space is U+2581 inside tokens; characters that are no token become byte tokens.
#pragma once

#include "tokenizer/vocabulary.h"

#include <array>
#include <unordered_map>

namespace scoria {

class SpmBpe final : public VocabularyTokenizer {
  public:
    /// Errors: bad_file, if there are no scores or a byte token is misspelt.
    explicit SpmBpe(Vocabulary vocabulary);
    std::string_view kind() const override { return "llama (SentencePiece BPE)"; }
    /// The space put before a text when encoding is taken away again.
    std::string decode(std::span<const TokenId> ids, bool special) const override;

  protected:
    void encode_text(std::string_view text, std::vector<TokenId>& out) const override;

  private:
    void encode_word(std::string_view marked, std::vector<TokenId>& out) const;

    std::unordered_map<std::string_view, TokenId> tokens_by_text_;  // views into vocabulary_.tokens
    std::array<TokenId, 256> byte_tokens_;                          // -1: the vocabulary lacks this byte
    size_t longest_ = 0;                                            // bytes of a token
    bool words_merge_ = false;  // a token has a space mark behind another character
};

}  // namespace scoria
