// Grouped-query causal attention over a contiguous cache: out[t] = softmax(q[t] . K^T * scale) V, per head
// (Vaswani et al. 2017, eq. 1; Ainslie et al. 2023).
#pragma once

#include "architecture.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace scoria::reference {

/// q, out: [tokens, heads * head_dim], row t at position first + t. keys, values: [first + tokens,
/// kv_heads * head_dim], all positions so far. With a window, position i sees keys j > i - window.
inline void attention(std::span<const double> q, std::span<const double> keys, std::span<const double> values,
                      size_t first, const scoria::Attention& shape, std::span<double> out) {
    const size_t dim = shape.head_dim, q_cols = shape.heads * dim, kv_cols = shape.kv_heads * dim;
    std::fill(out.begin(), out.end(), 0.0);
    std::vector<double> weights;
    for (size_t t = 0; t < q.size() / q_cols; ++t) {
        const size_t end = first + t + 1, begin = shape.window && end > shape.window ? end - shape.window : 0;
        for (size_t head = 0; head < shape.heads; ++head) {
            const size_t kv_first = head / (shape.heads / shape.kv_heads) * dim;
            const auto query = q.subspan(t * q_cols + head * dim, dim);
            weights.assign(end - begin, 0);
            for (size_t j = begin; j < end; ++j) {
                const auto key = keys.subspan(j * kv_cols + kv_first, dim);
                for (size_t i = 0; i < dim; ++i) weights[j - begin] += query[i] * key[i];
                weights[j - begin] *= static_cast<double>(shape.scale);
            }
            const double largest = *std::max_element(weights.begin(), weights.end());
            double sum = 0;
            for (double& weight : weights) sum += weight = std::exp(weight - largest);
            const auto result = out.subspan(t * q_cols + head * dim, dim);
            for (size_t j = begin; j < end; ++j) {
                const auto value = values.subspan(j * kv_cols + kv_first, dim);
                for (size_t i = 0; i < dim; ++i) result[i] += weights[j - begin] / sum * value[i];
            }
        }
    }
}

}  // namespace scoria::reference
