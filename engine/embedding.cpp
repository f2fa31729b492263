// See embedding.h.
#include "embedding.h"

#include "session.h"

#include <algorithm>
#include <cmath>

namespace scoria {

Embedder::Embedder(const Model& model)
    : hidden_(model.architecture.output_width()), encodes_(!model.architecture.encoder.empty()),
      layers_(*model.tensors, model.dense) {}

std::vector<float> Embedder::embedding(std::span<const float> hidden, Pooling pooling, bool normalise) const {
    const std::vector<double> vector = layers_(pooled(hidden, hidden_, pooling));
    double squares = 0;
    for (const double value : vector) squares += value * value;
    const double scale = normalise && squares > 0 ? 1 / std::sqrt(squares) : 1;
    std::vector<float> result(vector.size());
    std::ranges::transform(vector, result.begin(), [&](double value) { return float(value * scale); });
    return result;
}

std::vector<float> Embedder::embedding(Session& session, std::span<const TokenId> ids, Pooling pooling,
                                       bool normalise) const {
    const Outputs wanted = pooling == Pooling::last ? Outputs::last_hidden : Outputs::hidden;
    const ForwardResult result = encodes_ ? session.encode(ids) : session.forward(ids, false, {}, {}, wanted);
    return embedding(result.last_hidden, pooling, normalise);
}

}  // namespace scoria
