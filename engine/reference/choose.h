// Which keys the queries of sparse attention see (struct Indexer).
#pragma once

#include "architecture.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

namespace scoria::reference {

/// q: [tokens, heads * head_dim], row t at position first + t; weights: [tokens, heads]; keys: [positions,
/// head_dim]; out: [tokens, cols] whole numbers of chosen_bits each. What is no number scores below all else.
inline void choose(const Indexer& indexer, std::span<const double> q, std::span<const double> weights,
                   std::span<const double> keys, size_t first, std::span<double> out) {
    const size_t heads = indexer.heads, dim = indexer.head_dim, tokens = weights.size() / heads;
    const size_t cols = out.size() / tokens;
    std::ranges::fill(out, 0.0);
    for (size_t t = 0; t < tokens; ++t) {
        std::vector<double> scores(first + t + 1);
        for (size_t j = 0; j < scores.size(); ++j) {
            for (size_t h = 0; h < heads; ++h) {
                double dot = 0;
                for (size_t d = 0; d < dim; ++d) dot += q[(t * heads + h) * dim + d] * keys[j * dim + d];
                scores[j] += weights[t * heads + h] * (dot > 0 ? dot : 0);
            }
            if (std::isnan(scores[j])) scores[j] = -std::numeric_limits<double>::infinity();
        }
        std::vector<size_t> order(scores.size());
        std::iota(order.begin(), order.end(), size_t{0});
        std::ranges::stable_sort(order, [&](size_t a, size_t b) { return scores[a] > scores[b]; });
        order.resize(std::min<size_t>(order.size(), indexer.top));
        for (const size_t j : order)
            out[t * cols + j / chosen_bits] += double(uint32_t{1} << j % chosen_bits);
    }
}

}  // namespace scoria::reference
