// Averages positions that leave a Transformer-XL memory, in the cache itself: see CompressedMemory in
// loader/architecture.h. Slots end up right before new_memory: the averages of `rate` positions each from
// old_memory on, and before them the slots there were, as many as there is room for from new_low on. A lane per
// column of keys or values goes from the newest to the oldest, so it never reads what it has written.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "compress.push.h"
#include "grid.glsl"
#include "kv_cache.glsl"
#include "numerics.glsl"

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
layout(binding = 0) readonly buffer Step { uint step_words[]; };
layout(binding = 1) buffer Kv { uint kv[]; };
layout(push_constant) uniform Push { CompressPush push; };

// A word of the cache: two dims of a cache of halves, or one.
uint word_of(const uint position, const uint kv_head, const uint column, const bool is_value) {
    const uint entry = min(push.table + position / KV_BLOCK_TOKENS, step_words.length() - 1);
    const uint block = min(step_words[entry], push.blocks - 1), in_block = position % KV_BLOCK_TOKENS;
    return is_value ? kv_values(block, kv_head, push.kv_heads, push.head_words) + in_block * push.head_words + column
                    : kv_keys(block, kv_head, push.kv_heads, push.head_words) + column * KV_BLOCK_TOKENS + in_block;
}

void main() {
    const uint id = group_index() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (id >= 2 * push.kv_heads * push.head_words) return;
    const uint column = id % push.head_words, kv_head = id / push.head_words % push.kv_heads;
    const bool is_value = id >= push.kv_heads * push.head_words;
    const uint made = (push.new_memory - push.old_memory) / push.rate;
    for (uint back = 0; back < push.new_memory - push.new_low; ++back) {
        uint from = push.old_memory - 1 - (back - made), count = 1;
        if (back < made) {
            from = push.old_memory + (made - 1 - back) * push.rate;
            count = push.rate;
        }
        vec2 sum = vec2(0.0);
        for (uint i = 0; i < count; ++i) {
            const uint word = kv[word_of(from + i, kv_head, column, is_value)];
            sum += KV_TYPE == KV_F16    ? unpack_half2(word)
                   : KV_TYPE == KV_BF16 ? unpack_bfloat2(word)
                                        : vec2(uintBitsToFloat(word), 0.0);
        }
        sum /= float(count);
        kv[word_of(push.new_memory - 1 - back, kv_head, column, is_value)] =
            KV_TYPE == KV_F16    ? pack_half2(sum)
            : KV_TYPE == KV_BF16 ? pack_bfloat2(sum)
                                 : floatBitsToUint(sum.x);
    }
}
