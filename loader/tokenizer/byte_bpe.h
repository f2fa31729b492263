// Byte-level byte-pair encoding (Sennrich et al. 2016; over bytes, Radford et al. 2019): the "gpt2" model
// of GGUF files.
#pragma once

#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/vocabulary.h"

#include <array>
#include <unordered_map>

namespace scoria {

class ByteBpe final : public VocabularyTokenizer {
  public:
    /// Errors: unsupported, naming an unknown pre-tokenizer; bad_file, naming a merge that is not made of
    /// tokens.
    explicit ByteBpe(Vocabulary vocabulary);
    std::string_view kind() const override { return kind_name_; }

  protected:
    void encode_text(std::string_view text, std::vector<TokenId>& out) const override;

  private:
    struct Merge {
        uint32_t rank;
        TokenId result;
    };
    void encode_piece(std::string_view piece, std::vector<TokenId>& out) const;
    void read_merges();

    const PreTokenizerKind& pre_kind_;
    PreTokenizer pre_tokenizer_;
    std::string kind_name_;
    std::array<TokenId, 256> byte_tokens_;                           // -1: the vocabulary lacks this byte
    std::unordered_map<uint64_t, Merge> merges_;                     // key: left id << 32 | right id
    std::unordered_map<std::string_view, TokenId> tokens_by_bytes_;  // of normal tokens; views into pieces_
};

}  // namespace scoria
