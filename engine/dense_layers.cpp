// See dense_layers.h.
#include "dense_layers.h"

#include "reference/elementwise.h"
#include "reference/norm.h"
#include "reference/weights.h"

namespace scoria {

DenseLayers::DenseLayers(const TensorSource& tensors, std::span<const Dense> layers) {
    const auto floats = [&](const std::optional<TensorView>& tensor) {
        const std::vector<double> values =
            tensor ? reference::values_of(tensors, *tensor) : std::vector<double>{};
        return std::vector<float>(values.begin(), values.end());
    };
    for (const Dense& layer : layers)
        layers_.push_back({layer.weight.rows, floats(layer.weight), floats(layer.bias),
                           layer.norm ? reference::values_of(tensors, *layer.norm) : std::vector<double>{},
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
        if (!layer.norm.empty())
            reference::norm(next, NormKind::layer, next.size(), layer.norm, {}, layer.epsilon, next);
        features = std::move(next);
    }
    return features;
}

}  // namespace scoria
