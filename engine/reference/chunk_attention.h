// Attention in chunks (struct Chunks), and the hashing and sorting before it, of a whole sequence.
#pragma once

#include "architecture.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

namespace scoria::reference {

/// x: [tokens, heads * head_dim], rotations: [heads, head_dim, rounds, rotated], out: [tokens, heads *
/// rounds].
inline void hash(std::span<const double> x, std::span<const double> rotations, const Attention& shape,
                 std::span<double> out) {
    const size_t heads = shape.heads, dim = shape.head_dim, rounds = shape.chunks.rounds;
    const Chunks chunks = shape.chunks.for_length(out.size() / heads / rounds);
    const size_t cols = chunks.rotated();
    for (size_t i = 0; i < out.size(); ++i) {
        const size_t round = i % rounds, head = i / rounds % heads, token = i / rounds / heads;
        size_t product = 1, first = 0;
        out[i] = 0;
        for (const uint32_t factor : chunks.buckets) {
            std::vector<double> both(factor);
            for (size_t column = 0; column < factor / 2; ++column) {
                for (size_t d = 0; d < dim; ++d)
                    both[column] += x[(token * heads + head) * dim + d] *
                                    rotations[((head * dim + d) * rounds + round) * cols + first + column];
                both[factor / 2 + column] = -both[column];
            }
            out[i] += static_cast<double>(product *
                                          static_cast<size_t>(std::ranges::max_element(both) - both.begin()));
            product *= factor;
            first += factor / 2;
        }
    }
}

/// x: [rows, cols]; out: [rows, 2 cols], see op::Sort.
inline void sort(std::span<const double> x, size_t cols, std::span<double> out) {
    std::vector<size_t> order(x.size() / cols);
    for (size_t column = 0; column < cols; ++column) {
        std::iota(order.begin(), order.end(), size_t{0});
        std::ranges::stable_sort(order, {}, [&](size_t row) { return x[row * cols + column]; });
        for (size_t i = 0; i < order.size(); ++i) {
            out[i * 2 * cols + column] = static_cast<double>(order[i]);
            out[order[i] * 2 * cols + cols + column] = static_cast<double>(i);
        }
    }
}

/// The list of one head, its rounds one after the other: the position at each place, or none for padding.
inline std::vector<size_t> chunk_list(const Chunks& chunks, size_t heads, size_t head, size_t tokens,
                                      std::span<const double> sorted) {
    const size_t padded = chunks.padded(tokens), rounds = std::max(chunks.rounds, 1u), cols = heads * rounds;
    std::vector<size_t> list(rounds * padded, SIZE_MAX);
    for (size_t round = 0; round < rounds; ++round)
        for (size_t i = 0; i < tokens; ++i)
            list[round * padded + i] =
                sorted.empty() ? i : static_cast<size_t>(sorted[i * 2 * cols + head * rounds + round]);
    return list;
}

/// Positions that the place `at` of the list sees.
inline std::vector<size_t> seen_from(const Chunks& chunks, std::span<const size_t> list, size_t at) {
    const auto count = static_cast<int64_t>(list.size() / chunks.length);
    std::vector<size_t> seen;
    for (int64_t offset = -int64_t{chunks.before}; offset <= int64_t{chunks.after}; ++offset) {
        // Past a whole turn of the ring the published code sees the own chunk again.
        const int64_t turn = std::abs(offset) < count ? offset : 0;
        const int64_t chunk = (static_cast<int64_t>(at / chunks.length) + turn + count) % count;
        const auto part = list.subspan(static_cast<size_t>(chunk) * chunks.length, chunks.length);
        seen.insert(seen.end(), part.begin(), part.end());
    }
    return seen;
}

/// q, k, v, out: [tokens, heads * head_dim]; sorted: of the buckets, or empty.
inline void chunk_attention(const Attention& shape, std::span<const double> q, std::span<const double> k,
                            std::span<const double> v, std::span<const double> sorted,
                            std::span<double> out) {
    const size_t heads = shape.heads, dim = shape.head_dim, tokens = q.size() / heads / dim;
    Chunks chunks = shape.chunks;
    const bool shared = chunks.rounds != 0;
    if (chunks.padded(tokens) <= chunks.length) {  // one chunk of all
        sorted = {};
        chunks = {.length = static_cast<uint32_t>(tokens), .buckets = {}};
    }
    std::ranges::fill(out, 0.0);
    for (size_t head = 0; head < heads; ++head) {
        const std::vector<size_t> list = chunk_list(chunks, heads, head, tokens, sorted);
        std::vector<std::vector<size_t>> seen(tokens);  // by position, over all rounds
        for (size_t at = 0; at < list.size(); ++at) {
            if (list[at] == SIZE_MAX) continue;
            const std::vector<size_t> part = seen_from(chunks, list, at);
            seen[list[at]].insert(seen[list[at]].end(), part.begin(), part.end());
        }
        for (size_t token = 0; token < tokens; ++token) {
            std::vector<double> scores;
            std::vector<size_t> keys;
            for (const size_t key : seen[token]) {
                if (key == SIZE_MAX || (shape.mask == Mask::causal && key > token)) continue;
                double score = 0;
                for (size_t d = 0; d < dim; ++d)
                    score += q[(token * heads + head) * dim + d] * k[(key * heads + head) * dim + d];
                scores.push_back(shared && key == token ? -1e5 : score * double{shape.scale});
                keys.push_back(key);
            }
            const double most = *std::ranges::max_element(scores);
            double sum = 0;
            for (double& score : scores) sum += score = std::exp(score - most);
            for (size_t i = 0; i < keys.size(); ++i)
                for (size_t d = 0; d < dim; ++d)
                    out[(token * heads + head) * dim + d] +=
                        scores[i] / sum * v[(keys[i] * heads + head) * dim + d];
        }
    }
}

}  // namespace scoria::reference
