// Buckets of locality-sensitive hashing (Andoni et al. 2015): out[t][head][round] = sum over the factors n of the number
// of buckets of (argmax of [r | -r]) times the factors before it; r: the head's x[t] times the next n / 2 columns of
// rotations [heads, head_dim, rounds, sum of n / 2]. One lane per bucket, stored as a whole number.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "chunk_attention.push.h"
#include "grid.glsl"

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) readonly buffer Rotations { float rotations[]; };
layout(binding = 2) writeonly buffer Out { float result[]; };
layout(push_constant) uniform Push { HashPush push; };

// The first of the largest of [r | -r], NaN being none: 0 where all are.
uint largest(const uint from, const uint rotation, const uint step, const uint half_buckets) {
    const float lowest = -3e38;
    float best = lowest, best_negated = lowest;
    uint at = 0, at_negated = 0;
    for (uint column = 0; column < half_buckets; ++column) {
        float r = 0.0;
        for (uint i = 0; i < push.head_dim; ++i) r += x[from + i] * rotations[rotation + i * step + column];
        if (r > best) {
            best = r;
            at = column;
        }
        if (-r > best_negated) {
            best_negated = -r;
            at_negated = column;
        }
    }
    return best_negated > best ? half_buckets + at_negated : at;
}

void main() {
    const uint id = group_index() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    const uint token = id / (push.heads * push.rounds);
    if (token >= push.tokens) return;
    const uint head = id / push.rounds % push.heads, round = id % push.rounds;
    uint columns = 0;
    for (uint f = 0; f < min(push.factors, HASH_FACTORS); ++f) columns += push.buckets[f] / 2;
    const uint step = push.rounds * columns;
    const uint from = push.x_first + token * push.x_stride + head * push.head_dim;
    uint rotation = head * push.head_dim * step + round * columns;
    uint bucket = 0, product = 1;
    for (uint f = 0; f < min(push.factors, HASH_FACTORS); ++f) {
        bucket += product * largest(from, rotation, step, push.buckets[f] / 2);
        product *= push.buckets[f];
        rotation += push.buckets[f] / 2;
    }
    result[push.out_first + token * push.out_stride + head * push.rounds + round] = float(bucket);
}
