// On the host: a product with a vector, once per text.
#include "embedding.h"

#include "reference/elementwise.h"
#include "reference/weights.h"
#include "session.h"

#include <algorithm>
#include <cmath>

namespace scoria {

Embedder::Embedder(const Model& model)
    : hidden_(model.architecture.output_width()), encodes_(!model.architecture.encoder.empty()) {
    const auto floats = [&](const TensorView& tensor) {
        const std::vector<double> values = reference::values_of(*model.tensors, tensor);
        return std::vector<float>(values.begin(), values.end());
    };
    for (const Dense& dense : model.dense)
        layers_.push_back({dense.weight.rows, floats(dense.weight),
                           dense.bias ? floats(*dense.bias) : std::vector<float>{}, dense.activation});
}

std::vector<float> Embedder::embedding(std::span<const float> hidden, Pooling pooling, bool normalise) const {
    std::vector<double> vector = pooled(hidden, hidden_, pooling);
    for (const Layer& layer : layers_) {
        std::vector<double> next(layer.bias.begin(), layer.bias.end());
        next.resize(layer.rows);
        for (size_t row = 0; row < next.size(); ++row) {
            const float* weight = layer.weight.data() + row * vector.size();
            for (size_t i = 0; i < vector.size(); ++i) next[row] += double(weight[i]) * vector[i];
            next[row] = reference::activate(next[row], layer.activation);
        }
        vector = std::move(next);
    }
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
