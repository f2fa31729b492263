// See dense_layers.h.
#include "dense_layers.h"

#include "reference/elementwise.h"
#include "reference/weights.h"

#include <cmath>
#include <numeric>

namespace scoria {
namespace {

void normalise(std::vector<double>& x, std::span<const float> weight, double epsilon) {
    const double mean = std::accumulate(x.begin(), x.end(), 0.0) / double(x.size());
    double squares = 0;
    for (const double value : x) squares += (value - mean) * (value - mean);
    const double scale = 1 / std::sqrt(squares / double(x.size()) + epsilon);
    for (size_t i = 0; i < x.size(); ++i) x[i] = (x[i] - mean) * scale * double(weight[i]);
}

}  // namespace

DenseLayers::DenseLayers(const TensorSource& tensors, std::span<const Dense> layers) {
    const auto floats = [&](const std::optional<TensorView>& tensor) {
        const std::vector<double> values =
            tensor ? reference::values_of(tensors, *tensor) : std::vector<double>{};
        return std::vector<float>(values.begin(), values.end());
    };
    for (const Dense& layer : layers)
        layers_.push_back({layer.weight.rows, floats(layer.weight), floats(layer.bias), floats(layer.norm),
                           layer.activation, layer.epsilon});
}

std::vector<double> DenseLayers::operator()(std::vector<double> features) const {
    for (const Layer& layer : layers_) {
        std::vector<double> next(layer.bias.begin(), layer.bias.end());
        next.resize(layer.rows);
        for (size_t row = 0; row < next.size(); ++row) {
            const float* weight = layer.weight.data() + row * features.size();
            for (size_t i = 0; i < features.size(); ++i) next[row] += double(weight[i]) * features[i];
            next[row] = reference::activate(next[row], layer.activation);
        }
        if (!layer.norm.empty()) normalise(next, layer.norm, layer.epsilon);
        features = std::move(next);
    }
    return features;
}

}  // namespace scoria
