// Published byte-level tokenizers by the name that GGUF files give them.
#pragma once

#include <string_view>
#include <vector>

namespace scoria {

/// Expressions are applied one after the other: each splits every piece that those before it leave, and what
/// lies between two matches is a piece too. Oniguruma's syntax, as the makers wrote them.
struct GgufPreTokenizer {
    std::vector<std::string_view> names;  // tokenizer.ggml.pre
    std::vector<std::string_view> expressions;
    bool adds_bos = false;     // if the file does not say
    bool adds_sep = false;     // an end of sequence, as RoBERTa
    bool whole_words = false;  // a piece that is a token becomes it, whatever the merges say
    bool nfc = false;          // text is composed first
    bool plain = false;        // tokens are text with space marks, not bytes
};

/// Row of the table, or null.
const GgufPreTokenizer* gguf_pre_tokenizer(std::string_view name);

/// One name of each row.
std::vector<std::string_view> gguf_pre_tokenizer_names();

}  // namespace scoria
