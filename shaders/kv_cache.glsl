// Where things are in one shard of the paged cache; the layout is engine/ops/kv_layout.h's.
#ifndef SCORIA_KV_CACHE_GLSL
#define SCORIA_KV_CACHE_GLSL

#define KV_BLOCK_TOKENS 32

// Word of K of (block of this shard, kv head): [head_dim / 2][tokens] of f16 pairs, or [head_dim][tokens].
uint kv_keys(uint block, uint kv_head, uint kv_heads, uint head_words) {
    return (block * 2 * kv_heads + kv_head) * KV_BLOCK_TOKENS * head_words;
}
// Word of V likewise: [tokens][head_dim / 2] of f16 pairs, or [tokens][head_dim].
uint kv_values(uint block, uint kv_head, uint kv_heads, uint head_words) {
    return kv_keys(block, kv_heads + kv_head, kv_heads, head_words);
}

#endif
