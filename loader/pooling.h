// How the hidden states of a text become one embedding (Reimers & Gurevych 2019).
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace scoria {

enum class Pooling : uint8_t {
    mean,   // of all tokens
    first,  // the classifier token that BERT's kin put in front
    last,   // of decoders
};

/// By 1_Pooling/config.json of a sentence-transformers folder; `otherwise` if there is none. Errors:
/// bad_file, unsupported (a mode that is none of these, or several).
Pooling read_pooling(const std::filesystem::path& folder, Pooling otherwise);

/// hidden: [tokens, size] after the final norm. Returns [size], of length 1 if `normalise`. Summed in double.
std::vector<float> pooled(std::span<const float> hidden, uint32_t size, Pooling pooling, bool normalise);

}  // namespace scoria
