// Per (token, head) of rows q | k | v, or q alone: optional RMS norm of q and k heads before or after rotation by the
// token's position (Su et al. 2021, eq. 34); q is written in place, k and v into the token's slot of the paged cache.
// One logical group per (token, head); a lane owns pairs of dims. A q pair is what rotates together, so
// that writing in place harms nobody; a k or v pair is (2i, 2i + 1), one word of a cache of halves. Where the cache is
// quantised, all lanes find the scale of a group of dims, and a lane owns a word of numbers; keys and queries are then
// spread by a Walsh-Hadamard transform of each whole group, so that no outlier makes its neighbours' steps coarse.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "subgroup.glsl"
#include "numerics.glsl"
#include "grid.glsl"
#include "kv_cache.glsl"
#include "rope_cache.push.h"

layout(constant_id = ROPE_INTERLEAVED) const bool INTERLEAVED = false;
layout(constant_id = ROPE_QK_NORM) const uint QK_NORM = ROPE_NORM_NONE;
layout(constant_id = ROPE_QUERIES_GROW) const bool QUERIES_GROW = false;
layout(constant_id = ROPE_SPREAD_DIMS) const uint SPREAD_DIMS = 1;

layout(binding = 0) buffer Qkv { float qkv[]; };
layout(binding = 1) readonly buffer Tables { vec2 angles[]; };  // (cos, sin)
layout(binding = 2) readonly buffer QNorm { float q_norm[]; };
layout(binding = 3) readonly buffer KNorm { float k_norm[]; };
layout(binding = 4) readonly buffer Step { uint step_words[]; };
layout(binding = 5) writeonly buffer Kv { uint kv[]; };
layout(push_constant) uniform Push { RopeCachePush push; };

#include "rope.glsl"

struct Head {
    uint from;  // word of its first dim
    bool is_key;
    float scale;       // of the norm
    float growth;      // of a query
    uvec2 angle_rows;  // of the table
};

// Of a head that is there or not. Reached by all invocations: the sum may hold barriers.
Head head_at(const uint from, const bool is_key, const bool exists, const uint position) {
    Head head = Head(from, is_key, 1.0, 1.0, angle_rows(position, push.width, push.coarse_rows));
    if (QUERIES_GROW && !is_key)
        head.growth += push.query_growth * log(float(1 + (position + push.growth_offset) / push.growth_length));
    if (QK_NORM != ROPE_NORM_NONE) {
        float sum = 0.0, longer = 1.0;  // by the square of the rotation's magnitude, before the norm
        if (QK_NORM == ROPE_NORM_AFTER && push.width != 0) {
            const vec2 turn = angle(head.angle_rows, 0);
            longer = dot(turn, turn);
        }
        const float grown = QK_NORM == ROPE_NORM_AFTER ? head.growth * head.growth : 1.0;
        for (uint dim = sg_lane(); exists && dim < push.head_dim; dim += SG_SIZE)
            sum += qkv[from + dim] * qkv[from + dim] * (dim < push.width ? longer : 1.0) * grown;
        head.scale = 1.0 / sqrt(sg_add(sum) / float(push.head_dim) + push.epsilon);
    }
    return head;
}

float norm_weight(const Head head, const uint dim) { return head.is_key ? k_norm[dim] : q_norm[dim]; }

float unrotated(const Head head, const uint dim) {
    const float value = qkv[head.from + dim];
    return QK_NORM == ROPE_NORM_BEFORE ? value * head.scale * norm_weight(head, dim) : value;
}

float turned(const Head head, const uint dim) {
    if (dim >= push.width) return unrotated(head, dim);
    const uint half_width = push.width / 2;
    const bool second = INTERLEAVED ? dim % 2 == 1 : dim >= half_width;
    const uint pair = INTERLEAVED ? dim / 2 : second ? dim - half_width : dim;
    const uint other = INTERLEAVED ? dim ^ 1u : (second ? dim - half_width : dim + half_width);
    const vec2 turn = angle(head.angle_rows, pair);
    return unrotated(head, dim) * turn.x + unrotated(head, other) * (second ? turn.y : -turn.y);
}

float rotated(const Head head, const uint dim) {
    const float value = turned(head, dim) * head.growth;
    return QK_NORM == ROPE_NORM_AFTER ? value * head.scale * norm_weight(head, dim) : value;
}

shared float rotated_dims[SG_COUNT * SPREAD_DIMS], spread_dims[SG_COUNT * SPREAD_DIMS];
const float GROUP_ROOT = 0.1767766952966369;  // 1 / sqrt(KV_GROUP): the transform is its own inverse

// Row `dim` of the transform of its group: signs are the parity of the bits that row and column share.
float spread(const uint first, const uint dim) {
    const uint group = dim / KV_GROUP * KV_GROUP;
    if (group + KV_GROUP > push.head_dim) return rotated_dims[first + dim];
    float sum = 0.0;
    for (uint i = 0; i < KV_GROUP; ++i) {
        const float value = rotated_dims[first + group + i];
        sum += bitCount(dim & i) % 2 == 0 ? value : -value;
    }
    return sum * GROUP_ROOT;
}

// Fills spread_dims. Reached by all invocations.
void spread_head(const Head head, const bool exists) {
    const uint first = sg_index() * SPREAD_DIMS;
    for (uint dim = sg_lane(); exists && dim < push.head_dim; dim += SG_SIZE)
        rotated_dims[first + dim] = rotated(head, dim);
    barrier();
    for (uint dim = sg_lane(); exists && dim < push.head_dim; dim += SG_SIZE)
        spread_dims[first + dim] = spread(first, dim);
    barrier();
}

// Dim `dim` of what is written; 0 past the head.
float written(const Head head, const bool is_value, const uint dim) {
    if (dim >= push.head_dim) return 0.0;
    if (is_value) return qkv[head.from + dim];
    return KV_SPREAD ? spread_dims[sg_index() * SPREAD_DIMS + dim] : rotated(head, dim);
}

// The scale of a group: 127 steps to its largest number, or -8 steps to the one furthest from 0. NaN if a number is
// none, or infinite. Reached by all invocations.
uint scale_bits(const Head head, const bool is_value, const bool exists, const uint group) {
    float most = 0.0, least = 0.0;
    bool finite = true;
    for (uint i = sg_lane(); exists && i < KV_GROUP; i += SG_SIZE) {
        const float value = written(head, is_value, group * KV_GROUP + i);
        finite = finite && is_finite(value);
        most = max(most, is_finite(value) ? value : 0.0);
        least = min(least, is_finite(value) ? value : 0.0);
    }
    most = sg_max(most);
    least = -sg_max(-least);
    if (sg_max(finite ? 0u : 1u) != 0) return 0x7E00u;
    const float furthest = most > -least ? most : least;
    return half_bits(KV_TYPE == KV_Q8_0 ? abs(furthest) / 127.0 : furthest / -8.0);
}

uint quantised_word(const Head head, const bool is_value, const uint dim, const float scale) {
    const float per_step = scale == 0.0 ? 0.0 : 1.0 / scale;
    uint word = 0;
    SG_LOOP for (uint i = 0; i < KV_PER_WORD; ++i) {
        const float steps = floor(written(head, is_value, dim + i) * per_step + 0.5);
        word |= KV_TYPE == KV_Q8_0 ? (uint(int(clamp(steps, -127.0, 127.0))) & 255u) << (8 * i)
                                   : uint(clamp(steps + 8.0, 0.0, 15.0)) << (4 * i);
    }
    return word;
}

// Reached by all invocations, also those of rows that do not exist.
void write_quantised(const Head head, const bool is_value, const bool exists, const KvRow row) {
    const uint words = KV_NUMBER_WORDS(push.head_dim), group_words = KV_GROUP / KV_PER_WORD;
    uint scales = 0;
    for (uint group = 0; group * KV_GROUP < push.head_dim; ++group) {
        const uint bits = scale_bits(head, is_value, exists, group);
        scales = group % 2 == 0 ? bits : scales | bits << 16;
        if (!exists) continue;
        const float scale = unpack_scales(bits).x;
        for (uint i = sg_lane(); i < group_words; i += SG_SIZE)
            if (group * group_words + i < words)
                kv[row.numbers + (group * group_words + i) * row.between] =
                    quantised_word(head, is_value, group * KV_GROUP + i * KV_PER_WORD, scale);
        if (sg_lane() == 0) kv[row.scales + group / 2 * KV_BLOCK_TOKENS] = scales;
    }
}

// A query in its place, or a row of the cache. All come the same way, since CPU drivers compile each access of a storage
// buffer into a branch for every lane.
void write_exact(const Head head, const bool is_query, const bool is_value, const KvRow row) {
    const uint half_width = push.width / 2;
    for (uint pair = sg_lane(); 2 * pair < push.head_dim; pair += SG_SIZE) {
        const bool apart = is_query && !INTERLEAVED && pair < half_width;
        const uvec2 dims = apart ? uvec2(pair, pair + half_width) : uvec2(2 * pair, 2 * pair + 1);
        vec2 values;
        for (uint i = 0; i < 2; ++i) values[i] = written(head, is_value, dims[i]);
        if (is_query) {
            qkv[head.from + dims.x] = values.x;
            if (dims.y < push.head_dim) qkv[head.from + dims.y] = values.y;
        } else if (KV_TYPE == KV_F32) {
            kv[row.numbers + dims.x * row.between] = floatBitsToUint(values.x);
            if (dims.y < push.head_dim) kv[row.numbers + dims.y * row.between] = floatBitsToUint(values.y);
        } else {
            kv[row.numbers + pair * row.between] = KV_TYPE == KV_F16 ? pack_half2(values) : pack_bfloat2(values);
        }
    }
}

void main() {
    const uint heads = push.heads + KV_PLANES * push.kv_heads;
    const uint item = group_index() * SG_COUNT + sg_index();
    const uint token = item / heads, index = item % heads;
    const TokenSlot slot = token_slot(token, push.tokens, push.ring, push.first_block);
    const bool is_query = index < push.heads;
    const bool is_value = index >= push.heads + push.kv_heads;

    const Head head =
        head_at(push.qkv_first + token * push.qkv_stride + index * push.head_dim, !is_query, slot.exists, slot.position);
    if (KV_SPREAD) spread_head(head, slot.exists && !is_value);
    const bool writes = slot.exists && (is_query ? push.rotate_q != 0 : slot.block < push.blocks);
    const uint kv_head = (index - push.heads) % max(push.kv_heads, 1);
    const KvRow row =
        kv_row(is_value, slot.block, kv_head, push.kv_heads, slot.position % KV_BLOCK_TOKENS, push.head_dim);
    if (KV_QUANTISED) write_quantised(head, is_value, writes && !is_query, row);
    if (writes && (is_query || !KV_QUANTISED)) write_exact(head, is_query, is_value, row);
}
