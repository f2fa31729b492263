// Grouped-query attention over a contiguous cache: out[t] = softmax(score) V, per head (Vaswani et al. 2017,
// eq. 1; Ainslie et al. 2023), with the masks, biases, caps and sinks of scoria::Attention.
#pragma once

#include "architecture.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace scoria::reference {

/// Whether the query at position i sees key j.
inline bool sees(const scoria::Attention& shape, size_t prefix, size_t i, size_t j) {
    if (shape.mask == Mask::source) return true;
    if (shape.mask == Mask::prefix) return j <= i || j < prefix;
    if (j > i && shape.mask != Mask::bidirectional) return false;
    if (shape.window && (i > j ? i - j : j - i) >= shape.window) return false;
    const size_t stride = shape.stride;
    const auto strided = [&] { return (i - j) % stride == 0; };
    const auto in_block = [&] { return i / stride == j / stride; };
    const auto in_summary = [&] { return j % stride >= stride - shape.summary || j == i; };
    switch (shape.mask) {
    case Mask::causal:
    case Mask::bidirectional:
    case Mask::prefix:
    case Mask::source:
        return true;
    case Mask::strided:
        return strided();
    case Mask::fixed_block:
        return in_block();
    case Mask::fixed_summary:
        return in_summary();
    case Mask::strided_union:
        return i - j <= stride || strided();
    case Mask::fixed_union:
        return in_block() || in_summary();
    case Mask::local_block:
        return j + shape.summary >= i / stride * stride;
    }
    return false;
}

/// q, out: [tokens, heads * head_dim], row t at position first + t. keys, values: [first + tokens,
/// kv_heads * head_dim], all positions so far. bias: slopes [heads], or [heads, bias_cols]; sinks: [heads] or
/// empty. distances: [tokens, heads * span] or empty, distance_values: [span, head_dim] or empty.
inline void attention(std::span<const double> q, std::span<const double> keys, std::span<const double> values,
                      size_t first, const scoria::Attention& shape, size_t prefix,
                      std::span<const double> bias, std::span<const double> sinks, std::span<double> out,
                      std::span<const double> distances = {}, std::span<const double> distance_values = {}) {
    const size_t dim = shape.head_dim, q_cols = shape.heads * dim, kv_cols = shape.kv_heads * dim;
    const double cap = static_cast<double>(shape.soft_cap);
    std::fill(out.begin(), out.end(), 0.0);
    std::vector<std::pair<size_t, double>> scores;  // key, score
    for (size_t t = 0; t < q.size() / q_cols; ++t)
        for (size_t head = 0; head < shape.heads; ++head) {
            const size_t i = first + t, kv_first = head / (shape.heads / shape.kv_heads) * dim;
            const auto query = q.subspan(t * q_cols + head * dim, dim);
            scores.clear();
            for (size_t j = 0; j < keys.size() / kv_cols; ++j) {
                if (!sees(shape, prefix, i, j)) continue;
                const auto key = keys.subspan(j * kv_cols + kv_first, dim);
                double score = 0;
                for (size_t d = 0; d < dim; ++d) score += query[d] * key[d];
                const size_t distance =
                    std::min<size_t>(i - j, shape.bias_span - 1);  // j <= i wherever it counts
                if (!distances.empty())
                    score += distances[(t * shape.heads + head) * shape.bias_span + distance];
                score *= static_cast<double>(shape.scale);
                if (cap > 0) score = cap * std::tanh(score / cap);
                if (shape.bias == PositionBias::linear) score -= bias[head] * static_cast<double>(i - j);
                if (shape.bias == PositionBias::table) score += bias[head * shape.bias_span + distance];
                if (shape.bias == PositionBias::table_both) {
                    const auto most = static_cast<ptrdiff_t>(shape.bias_span) - 1;
                    const auto ahead =
                        std::clamp(static_cast<ptrdiff_t>(j) - static_cast<ptrdiff_t>(i), -most, most);
                    score += bias[head * shape.bias_cols() + static_cast<size_t>(most + ahead)];
                }
                scores.emplace_back(j, score);
            }
            double most = sinks.empty() ? scores.front().second : sinks[head];
            for (const auto& [j, score] : scores) most = std::max(most, score);
            double sum = sinks.empty() ? 0 : std::exp(sinks[head] - most);
            for (auto& [j, score] : scores) sum += score = std::exp(score - most);
            const auto result = out.subspan(t * q_cols + head * dim, dim);
            for (const auto& [j, weight] : scores) {
                const auto value = values.subspan(j * kv_cols + kv_first, dim);
                for (size_t d = 0; d < dim; ++d) result[d] += weight / sum * value[d];
                if (distance_values.empty()) continue;
                const size_t row = std::min<size_t>(i - j, shape.bias_span - 1) * dim;
                for (size_t d = 0; d < dim; ++d) result[d] += weight / sum * distance_values[row + d];
            }
        }
}

}  // namespace scoria::reference
