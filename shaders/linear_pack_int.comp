// Operands of integer dot products: x [tokens, cols] float32 -> bytes, [tokens][cols padded to whole blocks] of 32
// columns, then per token and block its step and what its bytes sum up to, those of columns 0-15 in the low half
// word. One invocation per block.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "byte_operands.glsl"
#include "grid.glsl"
#include "linear.push.h"
#include "weight_planes.h"

layout(local_size_x_id = 0) in;
layout(push_constant) uniform Push { LinearPackPush push; };
#include "pack_rows.glsl"
layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) writeonly buffer Out { uint words[]; };

const uint WORDS = WEIGHT_BLOCK / 4;

float value_at(const uint row, const uint column) {
    const float value = x[row + min(column, push.cols - 1)];
    return column < push.cols ? value : 0.0;
}
vec4 values_at(const uint row, const uint column) {
    return vec4(value_at(row, column), value_at(row, column + 1), value_at(row, column + 2), value_at(row, column + 3));
}

void main() {
    const uint blocks = push.row_words / WORDS;
    const uint item = group_index() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    const uint token = item / blocks, block = item % blocks;
    if (token >= push.tokens) return;
    const uint row = packed_from(token), first = block * WEIGHT_BLOCK;
    uint size = 0;
    for (uint w = 0; w < WORDS; ++w) size = max(size, size_of(values_at(row, first + 4 * w)));
    const float scale = byte_scale(size);
    int sums[2] = int[2](0, 0);
    for (uint w = 0; w < WORDS; ++w) {
        const uint word = bytes_of_x(values_at(row, first + 4 * w), scale);
        const ivec4 codes = ivec4(uvec4(word << 24, word << 16, word << 8, word)) >> 24;
        sums[w / (WORDS / 2)] += (codes.x + codes.y) + (codes.z + codes.w);
        words[item * WORDS + w] = word;
    }
    const uint side = push.side_first + 2 * item;
    words[side] = floatBitsToUint(byte_step(size));
    words[side + 1] = (uint(sums[0]) & 0xFFFFu) | uint(sums[1]) << 16;
}
