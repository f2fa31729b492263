// Heads of q and k as attention takes them: RMS norm before or after rotation by the token's position (Su et al. 2021,
// eq. 34). Whoever includes it has subgroup.glsl, buffers angles (cos, sin), q_norm and k_norm, and defines
// ROPE_VALUE(word) of q | k | v, ROPE_WIDTH (leading dims that rotate) and ROPE_COARSE_ROWS (of the table).
#ifndef SCORIA_ROPE_GLSL
#define SCORIA_ROPE_GLSL
#include "rope_cache.push.h"

layout(constant_id = ROPE_INTERLEAVED) const bool INTERLEAVED = false;
layout(constant_id = ROPE_QK_NORM) const uint QK_NORM = ROPE_NORM_NONE;

#define FINE_POSITIONS 256

struct Head {
    uint from;      // word of its first dim
    bool is_key;
    float scale;    // of the norm
    uint coarse, fine;  // rows of the table
};

// Of a head that is there or not. Reached by all invocations: the sum may hold barriers.
Head head_at(uint from, bool is_key, bool exists, uint position, uint dims, float epsilon) {
    Head head;
    head.from = from;
    head.is_key = is_key;
    head.scale = 1.0;
    head.coarse = min(position / FINE_POSITIONS, ROPE_COARSE_ROWS - 1) * (ROPE_WIDTH / 2);
    head.fine = (ROPE_COARSE_ROWS + position % FINE_POSITIONS) * (ROPE_WIDTH / 2);
    if (QK_NORM != ROPE_NORM_NONE) {
        float sum = 0.0;
        for (uint dim = sg_lane(); exists && dim < dims; dim += SG_SIZE)
            sum += ROPE_VALUE(from + dim) * ROPE_VALUE(from + dim);
        head.scale = 1.0 / sqrt(sg_add(sum) / float(dims) + epsilon);
    }
    return head;
}

float norm_weight(Head head, uint dim) { return head.is_key ? k_norm[dim] : q_norm[dim]; }

float unrotated(Head head, uint dim) {
    const float value = ROPE_VALUE(head.from + dim);
    return QK_NORM == ROPE_NORM_BEFORE ? value * head.scale * norm_weight(head, dim) : value;
}

// The angle of `pair` at the head's position: coarse + fine.
vec2 angle(Head head, uint pair) {
    const vec2 a = angles[head.coarse + pair], b = angles[head.fine + pair];
    return vec2(a.x * b.x - a.y * b.y, a.y * b.x + a.x * b.y);
}

float turned(Head head, uint dim) {
    if (dim >= ROPE_WIDTH) return unrotated(head, dim);
    const uint half_width = ROPE_WIDTH / 2;
    const bool second = INTERLEAVED ? dim % 2 == 1 : dim >= half_width;
    const uint pair = INTERLEAVED ? dim / 2 : second ? dim - half_width : dim;
    const uint other = INTERLEAVED ? dim ^ 1u : (second ? dim - half_width : dim + half_width);
    const vec2 turn = angle(head, pair);
    return unrotated(head, dim) * turn.x + unrotated(head, other) * (second ? turn.y : -turn.y);
}

float rotated(Head head, uint dim) {
    const float value = turned(head, dim);
    return QK_NORM == ROPE_NORM_AFTER ? value * head.scale * norm_weight(head, dim) : value;
}

#endif
