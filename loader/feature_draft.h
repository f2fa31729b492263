// Models of Ahead::features (EAGLE-3): one layer that guesses for a larger model, by the streams of three of
// its layers, with a vocabulary of the commonest tokens, in folders and GGUF files of its own.
#pragma once

#include "families.h"
#include "tokenizer/tokenizer.h"

namespace scoria {

/// Calls such a file's tensors what those of a llama of one layer are called, and what is its own "ahead.
/// ...".
void name_feature_draft(Settings::Format format, std::vector<StoredTensor>& tensors);

/// What such a file says beside a llama's. The vocabulary is 0 where it has no embedding.
void read_feature_draft(Reading& reading);

/// The target's ids of its logits. Errors: bad_file.
std::vector<TokenId> output_ids(Settings::Format format, Catalog& catalog, const GatheredTensors& tensors,
                                uint32_t outputs);

}  // namespace scoria
