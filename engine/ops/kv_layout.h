// How one block of the paged cache lies in memory, for kv_block_tokens positions of all kv heads:
//   K [kv_heads][head_dim / 2][32 tokens]  words of two f16 dims;  f32: [kv_heads][head_dim][32 tokens]
//   V [kv_heads][32 tokens][head_dim / 2]  words of two f16 dims;  f32: [kv_heads][32 tokens][head_dim]
// K is transposed so that lanes hold neighbouring keys (scores need no reduction across lanes), V is not so
// that lanes hold neighbouring dims (the weighted sum needs none either).
#pragma once

#include "op.h"

namespace scoria {

constexpr uint32_t kv_block_words(KvType type, uint32_t kv_heads, uint32_t head_dim) {
    return 2 * kv_heads * kv_block_tokens * (type == KvType::f16 ? head_dim / 2 : head_dim);
}
constexpr uint64_t kv_block_bytes(KvType type, uint32_t kv_heads, uint32_t head_dim) {
    return 4ull * kv_block_words(type, kv_heads, head_dim);
}

}  // namespace scoria
