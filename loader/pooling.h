// How the hidden states of a text become one embedding (Reimers & Gurevych 2019).
#pragma once

#include "architecture.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace scoria {

enum class Pooling : uint8_t {
    mean,   // of all tokens
    first,  // the classifier token that BERT's kin put in front
    last,   // of decoders
};

/// What an embedding goes through behind pooling, and what a classifier is: activation(W x + b), then a layer
/// norm.
struct Dense {
    TensorView weight;
    std::optional<TensorView> bias;  // [1, rows of weight]
    Activation activation = Activation::identity;
    std::optional<TensorView> norm;  // likewise; its bias is none
    double epsilon = 0;              // of the norm
};

/// The modules of a sentence-transformers folder behind its model.
struct EmbeddingModules {
    std::optional<Pooling> pooling;
    struct Dense {
        std::string path;  // inside the folder
        uint32_t in = 0, out = 0;
        bool bias = true;
        Activation activation = Activation::identity;
    };
    std::vector<Dense> dense;
    std::vector<int32_t> answers;  // of LogitScore: the tokens of yes and, if there is one, of no
};
/// By modules.json; without it by 1_Pooling/config.json, and nothing without that. Errors: bad_file,
/// unsupported (another module, a pooling that is none of these, or several).
EmbeddingModules read_embedding_modules(const std::filesystem::path& folder);

/// hidden: [tokens, size] after the final norm. Returns [size].
std::vector<double> pooled(std::span<const float> hidden, uint32_t size, Pooling pooling);

}  // namespace scoria
