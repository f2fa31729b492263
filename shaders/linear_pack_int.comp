// Operands of integer dot products: x [tokens, cols] float32 -> bytes, [tokens][cols padded to whole blocks] of 32
// columns, then per token and block its step and what its bytes sum up to, those of columns 0-15 in the low half
// word. A step is a 127th of the block's largest value, so a byte is off by at most half a step. A block that holds
// Inf or NaN gets NaN for its step, so that all outputs of its token are NaN. One invocation per block.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "grid.glsl"
#include "linear.push.h"
#include "weight_planes.h"

layout(local_size_x_id = 0) in;
layout(push_constant) uniform Push { LinearPackPush push; };
layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) writeonly buffer Out { uint words[]; };

const uint WORDS = WEIGHT_BLOCK / 4;

float value_at(uint row, uint column) {
    const float value = x[row + min(column, push.cols - 1)];
    return column < push.cols ? value : 0.0;
}

void main() {
    const uint blocks = push.row_words / WORDS;
    const uint item = group_index() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    const uint token = item / blocks, block = item % blocks;
    if (token >= push.tokens) return;
    const uint row = push.x_first + token * push.x_stride, first = block * WEIGHT_BLOCK;
    uint size = 0;  // bits of |x|, in whose order Inf and NaN are last
    for (uint i = 0; i < WEIGHT_BLOCK; ++i) {
        size = max(size, floatBitsToUint(value_at(row, first + i)) & 0x7FFFFFFFu);
    }
    const bool tiny = size < 0x0C800000u;  // 2^-102: its inverse overflows; such a block counts as zero
    const float largest = uintBitsToFloat(tiny || size >= 0x7F800000u ? 0x3F800000u : size);
    const float inverse = tiny ? 0.0 : 127.0 / largest;
    uint sums[2] = uint[2](0, 0);
    for (uint w = 0; w < WORDS; ++w) {
        uint word = 0;
        [[unroll]] for (uint i = 0; i < 4; ++i) {
            const float value = clamp(value_at(row, first + 4 * w + i) * inverse, -127.0, 127.0);
            const int code = int(roundEven(value));
            word |= (uint(code) & 0xFFu) << (8 * i);
            sums[w / (WORDS / 2)] += uint(code);
        }
        words[item * WORDS + w] = word;
    }
    const uint side = push.tokens * push.row_words + 2 * item;
    const uint step_bits = size >= 0x7F800000u ? 0x7FC00000u : tiny ? 0u : floatBitsToUint(largest / 127.0);
    words[side] = step_bits;
    words[side + 1] = (sums[0] & 0xFFFFu) | sums[1] << 16;
}
