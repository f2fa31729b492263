// Where things are in one shard of the paged cache, and what they say; the layout is engine/ops/kv_layout.h's.
#ifndef SCORIA_KV_CACHE_GLSL
#define SCORIA_KV_CACHE_GLSL
#include "kv_cache.h"
#include "numerics.glsl"
#include "scales.glsl"

layout(constant_id = KV_TYPE_CONSTANT) const uint KV_TYPE = KV_F16;
layout(constant_id = KV_PLANES_CONSTANT) const uint KV_PLANES = 2;
const bool KV_QUANTISED = KV_TYPE >= KV_Q8_0;
// Keys, and the queries for them, are stored spread (engine/ops/kv_layout.h): products stay what they are.
const bool KV_SPREAD = KV_QUANTISED && KV_PLANES == 2;

// A head of a position is a row of words: its numbers, then, where they are quantised, two scales a word.
#define KV_PER_WORD (KV_TYPE == KV_F32 ? 1u : KV_TYPE <= KV_BF16 ? 2u : KV_TYPE == KV_Q8_0 ? 4u : 8u)
#define KV_NUMBER_WORDS(dims) (((dims) + KV_PER_WORD - 1) / KV_PER_WORD)
#define KV_ROW_WORDS(dims) (KV_NUMBER_WORDS(dims) + (KV_QUANTISED ? ((dims) + 2 * KV_GROUP - 1) / (2 * KV_GROUP) : 0))

// Word of K of (block of this shard, kv head): [number words][tokens], then [scale words][tokens].
uint kv_keys(const uint block, const uint kv_head, const uint kv_heads, const uint row_words) {
    return (block * KV_PLANES * kv_heads + kv_head) * KV_BLOCK_TOKENS * row_words;
}
// Word of V likewise: [tokens][number words], then [scale words][tokens]; or of K, if that is the values too.
uint kv_values(const uint block, const uint kv_head, const uint kv_heads, const uint row_words) {
    return kv_keys(block, KV_PLANES == 2 ? kv_heads + kv_head : kv_head, kv_heads, row_words);
}

struct KvRow {
    uint numbers, between;  // word of the first numbers, words from these to the next
    uint scales;            // word of the first two; the next two are KV_BLOCK_TOKENS further
};
KvRow kv_key_row(const uint keys, const uint in_block, const uint dims) {
    return KvRow(keys + in_block, KV_BLOCK_TOKENS, keys + KV_NUMBER_WORDS(dims) * KV_BLOCK_TOKENS + in_block);
}
KvRow kv_value_row(const uint values, const uint in_block, const uint dims) {
    KvRow row = kv_key_row(values, in_block, dims);
    if (KV_PLANES == 2) {
        row.numbers = values + in_block * KV_NUMBER_WORDS(dims);
        row.between = 1;
    }
    return row;
}
KvRow kv_row(const bool is_value, const uint block, const uint kv_head, const uint kv_heads, const uint in_block,
             const uint dims) {
    return is_value ? kv_value_row(kv_values(block, kv_head, kv_heads, KV_ROW_WORDS(dims)), in_block, dims)
                    : kv_key_row(kv_keys(block, kv_head, kv_heads, KV_ROW_WORDS(dims)), in_block, dims);
}

vec2 unpack_bfloat2(const uint word) { return uintBitsToFloat(uvec2(word << 16, word & 0xFFFF0000u)); }

// Numbers 2 i and 2 i + 1 of a word of quantised ones; int8, or 4 bits that count from -8.
vec2 kv_steps(const uint word, const uint i) {
    if (KV_TYPE == KV_Q8_0) return vec2(ivec2(word << (24 - 16 * i), word << (16 - 16 * i)) >> 24);
    return vec2(uvec2(word >> (8 * i), word >> (8 * i + 4)) & 15u) - 8.0;
}

#endif
