// How one block of the paged cache lies in memory, for kv_block_tokens positions of all kv heads. A head of a
// position is a row of words: numbers in the order of the dims, low bits first; behind them, if quantised,
// the scales, halves by two, of every 32 dims:
//   f32   1 dim a word         f16, bf16   2           q8_0   4, int8          q4_0   8, counted from -8
//   K [kv_heads][row_words][32 tokens]     V [kv_heads][32 tokens][row_words]
// K is transposed so that lanes hold neighbouring keys (scores need no reduction across lanes), V is not so
// that lanes hold neighbouring dims (the weighted sum needs none either).
#pragma once

#include "op.h"

#include <algorithm>

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
constexpr uint32_t kv_block_words(KvType type, uint32_t kv_heads, uint32_t head_dim) {
    return 2 * kv_heads * kv_block_tokens * kv_row_words(type, head_dim);
}
constexpr uint64_t kv_block_bytes(KvType type, uint32_t kv_heads, uint32_t head_dim) {
    return 4ull * kv_block_words(type, kv_heads, head_dim);
}

constexpr uint32_t kv_blocks_for(uint32_t positions) {
    return (positions + kv_block_tokens - 1) / kv_block_tokens;
}
/// Blocks of one shard of at most `limit` bytes; one even if it is larger.
constexpr uint32_t kv_blocks_within(uint64_t limit, KvType type, uint32_t kv_heads, uint32_t head_dim) {
    const uint64_t blocks = limit / kv_block_bytes(type, kv_heads, head_dim);
    return uint32_t(std::clamp<uint64_t>(blocks, 1, UINT32_MAX));
}

}  // namespace scoria
