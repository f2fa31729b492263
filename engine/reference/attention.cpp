// See attention.h.
#include "attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace scoria::reference {

void attention(std::span<const double> q, std::span<const double> keys, std::span<const double> values,
               const Attention& shape, size_t position, std::span<double> out) {
    const size_t head_dim = shape.head_dim, row = shape.kv_heads * head_dim;
    const size_t first = shape.window && position >= shape.window ? position - shape.window + 1 : 0;
    std::vector<double> weights(position + 1 - first);
    for (size_t head = 0; head < shape.heads; ++head) {
        const size_t kv = head / (shape.heads / shape.kv_heads) * head_dim;
        for (size_t i = 0; i < weights.size(); ++i) {
            double dot = 0;
            for (size_t d = 0; d < head_dim; ++d) dot += q[head * head_dim + d] * keys[(first + i) * row + kv + d];
            weights[i] = dot * shape.scale;
        }
        const double most = *std::ranges::max_element(weights);
        double sum = 0;
        for (double& weight : weights) sum += weight = std::exp(weight - most);
        for (size_t d = 0; d < head_dim; ++d) {
            double value = 0;
            for (size_t i = 0; i < weights.size(); ++i) value += weights[i] * values[(first + i) * row + kv + d];
            out[head * head_dim + d] = value / sum;
        }
    }
}

}  // namespace scoria::reference
