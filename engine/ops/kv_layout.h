// How one block of the paged cache lies in memory, for kv_block_tokens positions of all kv heads. A head of a
// position is a row of words: numbers in the order of the dims, low bits first, and, if quantised, the
// scales, halves by two, of every 32 dims:
//   f32   1 dim a word         f16, bf16   2           q8_0   4, int8          q4_0   8, counted from -8
//   K [kv_heads]{[number words][32 tokens], [scale words][32 tokens]}
//   V [kv_heads]{[32 tokens][number words], [scale words][32 tokens]}
// K is transposed so that lanes hold neighbouring keys (scores need no reduction across lanes), V is not so
// that lanes hold neighbouring dims (the weighted sum needs none either); its scales are, so that rows of
// numbers stay aligned to 16 bytes. Latent attention's values are its keys: there is no V.
//
// Quantised K is spread, and so is q before attention reads it: each whole group of 32 dims is multiplied by
// the orthogonal Walsh-Hadamard matrix, which makes of an outlier 32 numbers of like size and leaves q.k as
// it is (QuaRot, Ashkboos et al. 2024, section 4). Latent keys are not, being values too.
#pragma once

#include "op.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace scoria {

inline constexpr uint32_t kv_group_dims = 32;  // that share a scale

constexpr bool kv_quantised(KvType type) { return type >= KvType::q8_0; }
constexpr uint32_t kv_per_word(KvType type) {
    constexpr uint32_t dims[] = {1, 2, 2, 4, 8};
    return dims[size_t(type)];
}
constexpr uint32_t kv_number_words(KvType type, uint32_t head_dim) {
    return (head_dim + kv_per_word(type) - 1) / kv_per_word(type);
}
constexpr uint32_t kv_row_words(KvType type, uint32_t head_dim) {
    const uint32_t scales = kv_quantised(type) ? (head_dim + kv_group_dims - 1) / kv_group_dims : 0;
    return kv_number_words(type, head_dim) + (scales + 1) / 2;
}
constexpr bool kv_spread(KvType type, uint32_t planes) { return kv_quantised(type) && planes == 2; }
/// Rows of heads, to what a spread cache holds of them and back.
template <class Number> void spread_heads(std::span<Number> rows, uint32_t head_dim) {
    for (size_t head = 0; head < rows.size(); head += head_dim)
        for (uint32_t first = 0; first + kv_group_dims <= head_dim; first += kv_group_dims) {
            const auto group = rows.subspan(head + first, kv_group_dims);
            for (uint32_t half = 1; half < kv_group_dims; half *= 2)
                for (uint32_t i = 0; i < kv_group_dims; ++i) {
                    if (i & half) continue;
                    const Number a = group[i], b = group[i + half];
                    group[i] = a + b;
                    group[i + half] = a - b;
                }
            for (Number& number : group) number /= Number(std::sqrt(double(kv_group_dims)));
        }
}
/// K and V, or K alone where it is the values too.
inline uint32_t kv_planes(const Attention& attention) { return attention.latent.kv_rank ? 1 : 2; }
/// What a block holds per position.
struct KvRows {
    KvType type;
    uint32_t kv_heads, head_dim, planes = 2;
    constexpr uint32_t row_words() const { return kv_row_words(type, head_dim); }
    constexpr uint64_t block_words() const {
        return uint64_t{planes} * kv_heads * kv_block_tokens * row_words();
    }
    constexpr uint64_t block_bytes() const { return 4 * block_words(); }
};
inline KvRows kv_rows(KvType type, const Attention& attention) {
    return {type, attention.kv_heads, attention.head_dim, kv_planes(attention)};
}

constexpr uint32_t kv_blocks_for(uint32_t positions) {
    return uint32_t((uint64_t{positions} + kv_block_tokens - 1) / kv_block_tokens);
}
/// Blocks of one shard of at most `limit` bytes; one even if it is larger.
constexpr uint32_t kv_blocks_within(uint64_t limit, const KvRows& rows) {
    return uint32_t(std::clamp<uint64_t>(limit / rows.block_bytes(), 1, UINT32_MAX));
}
/// Blocks in which positions may wrap where a query sees `reach` positions back, itself among them, and
/// `chunk` tokens are computed at a time: the last of them is written before the first one's queries look
/// back.
constexpr uint32_t kv_ring_blocks(uint32_t reach, uint32_t chunk) {
    return uint32_t((uint64_t{reach} - 1 + chunk + kv_block_tokens - 1) / kv_block_tokens);
}

}  // namespace scoria
