// Per (token, head) of rows q | k | v, or q alone: optional RMS norm of q and k heads before or after rotation by the
// token's position (Su et al. 2021, eq. 34); q is written in place, k and v into the token's slot of the paged cache.
// One logical group per (token, head); a lane owns pairs of dims. A q pair is what rotates together, so
// that writing in place harms nobody; a k or v pair is (2i, 2i + 1), one word of an f16 cache.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "subgroup.glsl"
#include "numerics.glsl"
#include "grid.glsl"
#include "kv_cache.glsl"
#include "step.h"
#include "rope_cache.push.h"

layout(constant_id = ROPE_KV_F16) const bool KV_F16 = true;
layout(constant_id = ROPE_INTERLEAVED) const bool INTERLEAVED = false;
layout(constant_id = ROPE_QK_NORM) const uint QK_NORM = ROPE_NORM_NONE;

layout(binding = 0) buffer Qkv { float qkv[]; };
layout(binding = 1) readonly buffer Tables { vec2 angles[]; };  // (cos, sin)
layout(binding = 2) readonly buffer QNorm { float q_norm[]; };
layout(binding = 3) readonly buffer KNorm { float k_norm[]; };
layout(binding = 4) readonly buffer Step { uint step_words[]; };
layout(binding = 5) writeonly buffer Kv { uint kv[]; };
layout(push_constant) uniform Push { RopeCachePush push; };

#define FINE_POSITIONS 256

struct Head {
    uint from;      // word of its first dim
    bool is_key;
    float scale;    // of the norm
    uint coarse, fine;  // rows of the table
};

float norm_weight(Head head, uint dim) { return head.is_key ? k_norm[dim] : q_norm[dim]; }

float unrotated(Head head, uint dim) {
    const float value = qkv[head.from + dim];
    return QK_NORM == ROPE_NORM_BEFORE ? value * head.scale * norm_weight(head, dim) : value;
}

// The angle of `pair` at the head's position: coarse + fine.
vec2 angle(Head head, uint pair) {
    const vec2 a = angles[head.coarse + pair], b = angles[head.fine + pair];
    return vec2(a.x * b.x - a.y * b.y, a.y * b.x + a.x * b.y);
}

float turned(Head head, uint dim) {
    if (dim >= push.width) return unrotated(head, dim);
    const uint half_width = push.width / 2;
    const uint pair = INTERLEAVED ? dim / 2 : dim % half_width;
    const bool second = INTERLEAVED ? dim % 2 == 1 : dim >= half_width;
    const uint other = INTERLEAVED ? dim ^ 1u : (second ? dim - half_width : dim + half_width);
    const vec2 turn = angle(head, pair);
    return unrotated(head, dim) * turn.x + unrotated(head, other) * (second ? turn.y : -turn.y);
}

float rotated(Head head, uint dim) {
    const float value = turned(head, dim);
    return QK_NORM == ROPE_NORM_AFTER ? value * head.scale * norm_weight(head, dim) : value;
}

void write_query(Head head) {
    const uint half_width = push.width / 2;
    for (uint pair = sg_lane(); pair < push.head_dim / 2; pair += SG_SIZE) {
        const bool apart = !INTERLEAVED && pair < half_width;
        const uint a = apart ? pair : 2 * pair, b = apart ? pair + half_width : 2 * pair + 1;
        const float first = rotated(head, a), second = rotated(head, b);
        qkv[head.from + a] = first;
        qkv[head.from + b] = second;
    }
}

void main() {
    const uint heads = push.heads + 2 * push.kv_heads;
    const uint item = group_index() * SG_COUNT + sg_index();
    const uint token = item / heads, index = item % heads;
    const bool exists = token < push.tokens && token < step_words[STEP_TOKEN_COUNT];
    const bool is_query = index < push.heads;
    const bool is_value = index >= push.heads + push.kv_heads;
    const uint slot = STEP_TOKENS + (exists ? token : 0) * STEP_TOKEN_WORDS;
    const uint position = step_words[slot + STEP_TOKEN_POSITION];

    Head head;
    head.from = push.qkv_first + token * push.qkv_stride + index * push.head_dim;
    head.is_key = !is_query;
    head.scale = 1.0;
    head.coarse = min(position / FINE_POSITIONS, push.coarse_rows - 1) * (push.width / 2);
    head.fine = (push.coarse_rows + position % FINE_POSITIONS) * (push.width / 2);
    if (QK_NORM != ROPE_NORM_NONE) {  // reached by all: the sum may hold barriers
        float sum = 0.0;
        for (uint dim = sg_lane(); exists && dim < push.head_dim; dim += SG_SIZE)
            sum += qkv[head.from + dim] * qkv[head.from + dim];
        head.scale = 1.0 / sqrt(sg_add(sum) / float(push.head_dim) + push.epsilon);
    }
    if (!exists) return;
    if (is_query) {
        if (push.rotate_q != 0) write_query(head);
        return;
    }

    const uint entry = step_words[slot + STEP_TOKEN_TABLE] + position / KV_BLOCK_TOKENS;
    const uint block = step_words[min(entry, step_words.length() - 1)] - push.first_block;
    if (block >= push.blocks) return;  // another shard's
    const uint in_block = position % KV_BLOCK_TOKENS;
    const uint head_words = KV_F16 ? push.head_dim / 2 : push.head_dim;
    const uint kv_head = (index - push.heads) % push.kv_heads;
    uint to, step_between;             // word of the slot's first dim, words between its dims (pairs)
    if (is_value) {
        to = kv_values(block, kv_head, push.kv_heads, head_words) + in_block * head_words;
        step_between = 1;
    } else {
        to = kv_keys(block, kv_head, push.kv_heads, head_words) + in_block;
        step_between = KV_BLOCK_TOKENS;
    }
    for (uint pair = sg_lane(); pair < push.head_dim / 2; pair += SG_SIZE) {
        vec2 values;
        for (uint i = 0; i < 2; ++i)
            values[i] = is_value ? qkv[head.from + 2 * pair + i] : rotated(head, 2 * pair + i);
        if (KV_F16) {
            kv[to + pair * step_between] = pack_half2(values);
        } else {
            kv[to + 2 * pair * step_between] = floatBitsToUint(values.x);
            kv[to + (2 * pair + 1) * step_between] = floatBitsToUint(values.y);
        }
    }
}
