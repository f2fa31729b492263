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

/// What attention reads, row-major. Tables are empty where the shape has no use for them.
struct AttentionInputs {
    std::span<const double> q;             // [tokens, heads * head_dim]; row t stands at position first + t
    std::span<const double> keys, values;  // [positions, kv_heads * head_dim]: all of the cache
    size_t first = 0;
    size_t prefix = 0;                             // tokens that see each other
    size_t low = 0;                                // first position of a compressed memory
    std::span<const uint8_t> global = {};          // by position: a global token
    std::span<const double> bias = {};             // slopes [heads], or [heads, bias_cols]
    std::span<const double> sinks = {};            // [heads]
    std::span<const double> distances = {};        // [tokens, distance_cols]; by_pair: of all positions
    std::span<const double> distance_values = {};  // [span, head_dim]
    std::span<const double> chosen = {};           // [tokens, chosen_cols], see chosen_bits
    size_t chosen_cols = 0;

    bool is_global(size_t position) const { return position < global.size() && global[position] != 0; }
};

/// Row of tables by distance; j <= i wherever it counts.
inline size_t distance_row(const scoria::Attention& shape, size_t i, size_t j) {
    return std::min<size_t>(i - j, shape.bias_span - 1);
}

/// Column of tables of both sides.
inline size_t both_sides_col(const scoria::Attention& shape, size_t i, size_t j) {
    const auto most = std::max(static_cast<ptrdiff_t>(shape.bias_span) - 1, ptrdiff_t{0});
    const auto ahead = static_cast<ptrdiff_t>(j) - static_cast<ptrdiff_t>(i);
    return static_cast<size_t>(most + std::clamp(ahead, -most, most));
}

/// Whether the query at position i sees key j.
inline bool sees(const scoria::Attention& shape, const AttentionInputs& in, size_t i, size_t j) {
    const size_t apart = i > j ? i - j : j - i;
    if (shape.mask == Mask::source || shape.mask == Mask::global_rows) return true;
    if (shape.mask == Mask::global_keys) return apart < shape.window || in.is_global(j);
    if (shape.mask == Mask::prefix) return j <= i || j < in.prefix;
    if (j > i && shape.mask != Mask::bidirectional) return false;
    if (shape.window && apart >= shape.window) return false;
    const size_t stride = shape.stride;
    const auto strided = [&] { return (i - j) % stride == 0; };
    const auto in_block = [&] { return i / stride == j / stride; };
    const auto in_summary = [&] { return j % stride >= stride - shape.summary || j == i; };
    switch (shape.mask) {
    case Mask::causal:
    case Mask::bidirectional:
    case Mask::prefix:
    case Mask::source:
    case Mask::global_keys:
    case Mask::global_rows:
        return true;
    case Mask::compressed:
        return j >= in.low;
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
    case Mask::chosen:
        return size_t(in.chosen[(i - in.first) * in.chosen_cols + j / chosen_bits]) >> j % chosen_bits & 1;
    case Mask::local_block:
        return j + shape.summary >= i / stride * stride;
    }
    return false;
}

/// Softmax of a row's scores: keys that query `t` of the batch sees and their weights. With a sink they sum
/// to less than 1.
inline void attention_weights(const scoria::Attention& shape, const AttentionInputs& in, size_t t,
                              size_t head, std::vector<std::pair<size_t, double>>& weights) {
    const size_t dim = shape.head_dim, q_cols = shape.heads * dim, kv_cols = shape.kv_heads * dim;
    const size_t i = in.first + t, kv_first = head / (shape.heads / shape.kv_heads) * dim;
    const double cap = static_cast<double>(shape.soft_cap);
    const auto query = in.q.subspan(t * q_cols + head * dim, dim);
    weights.clear();
    for (size_t j = 0; j < in.keys.size() / kv_cols; ++j) {
        if (!sees(shape, in, i, j)) continue;
        const auto key = in.keys.subspan(j * kv_cols + kv_first, dim);
        double score = 0;
        for (size_t d = 0; d < dim; ++d) score += query[d] * key[d];
        const size_t distance = distance_row(shape, i, j);
        const size_t cols = shape.bias_cols(), offset = both_sides_col(shape, i, j);
        if (shape.bias == PositionBias::by_query)
            score += in.distances[(t * shape.heads + head) * shape.bias_span + distance];
        if (shape.bias == PositionBias::by_pair)
            score += in.distances[(i * 2 * shape.heads + head) * cols + offset] +
                     in.distances[((j * 2 + 1) * shape.heads + head) * cols + offset];
        score *= static_cast<double>(shape.scale);
        if (cap > 0) score = cap * std::tanh(score / cap);
        if (shape.bias == PositionBias::linear)
            score -= in.bias[head] * static_cast<double>(i > j ? i - j : j - i);
        if (shape.bias == PositionBias::table) score += in.bias[head * shape.bias_span + distance];
        if (shape.bias == PositionBias::table_both) score += in.bias[head * cols + offset];
        weights.emplace_back(j, score);
    }
    double most = in.sinks.empty() ? weights.front().second : in.sinks[head];
    for (const auto& [j, score] : weights) most = std::max(most, score);
    double sum = in.sinks.empty() ? 0 : std::exp(in.sinks[head] - most);
    for (auto& [j, weight] : weights) sum += weight = std::exp(weight - most);
    for (auto& [j, weight] : weights) weight /= sum;
}

/// out: [tokens, heads * head_dim]; of global_rows the other rows stay as they are.
inline void attention(const scoria::Attention& shape, const AttentionInputs& in, std::span<double> out) {
    const size_t dim = shape.head_dim, q_cols = shape.heads * dim, kv_cols = shape.kv_heads * dim;
    std::vector<std::pair<size_t, double>> weights;
    for (size_t t = 0; t < in.q.size() / q_cols; ++t)
        for (size_t head = 0; head < shape.heads; ++head) {
            const size_t i = in.first + t, kv_first = head / (shape.heads / shape.kv_heads) * dim;
            if (shape.mask == Mask::global_rows && !in.is_global(i)) continue;
            attention_weights(shape, in, t, head, weights);
            const auto result = out.subspan(t * q_cols + head * dim, dim);
            std::fill(result.begin(), result.end(), 0.0);
            for (const auto& [j, weight] : weights) {
                const auto value = in.values.subspan(j * kv_cols + kv_first, dim);
                for (size_t d = 0; d < dim; ++d) result[d] += weight * value[d];
                if (in.distance_values.empty()) continue;
                const size_t row = distance_row(shape, i, j) * dim;
                for (size_t d = 0; d < dim; ++d) result[d] += weight * in.distance_values[row + d];
            }
        }
}

}  // namespace scoria::reference
