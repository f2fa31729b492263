// Embeddings of texts: what pooling makes of hidden states, and what the model's dense layers make of that.
#pragma once

#include "dense_layers.h"

namespace scoria {

class Session;

class Embedder {
  public:
    /// Reads the dense layers, if the model has any; keeps nothing else of it. Errors: bad_file.
    explicit Embedder(const Model& model);
    /// Of an embedding.
    uint32_t size() const { return layers_.empty() ? hidden_ : layers_.size(); }
    /// hidden: [tokens, hidden] after the final norm. Returns [size()], of length 1 if `normalise`. Summed in
    /// double. Thread-safe.
    std::vector<float> embedding(std::span<const float> hidden, Pooling pooling, bool normalise) const;
    /// The same of ids, which an empty session computes. Errors: Session's.
    std::vector<float> embedding(Session& session, std::span<const TokenId> ids, Pooling pooling,
                                 bool normalise) const;

  private:
    uint32_t hidden_;
    bool encodes_;  // an encoder-decoder
    DenseLayers layers_;
};

}  // namespace scoria
