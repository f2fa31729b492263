// Readers of tokenizer files other than GGUF. All input is untrusted; sizes are checked before anything is
// allocated for them.
#pragma once

#include "tokenizer/pipeline.h"

#include <string_view>

namespace scoria {

/// tokenizer.json. Errors: bad_file, naming the field; unsupported, naming the piece.
Pipeline read_tokenizer_json(std::string_view text);

/// What tokenizer_config.json adds: which tokens begin and end a text, and whether they are put there where
/// the tokenizer's own file does not say. Errors: bad_file.
void apply_tokenizer_config(Pipeline& pipeline, std::string_view text);

/// SentencePiece's tokenizer.model, kinds BPE and unigram. Errors: as above.
Pipeline read_sentencepiece(std::string_view bytes);

/// BERT's vocab.txt, one token a line. `lowercase`: the model is uncased.
Pipeline read_vocab_txt(std::string_view text, bool lowercase);

}  // namespace scoria
