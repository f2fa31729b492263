// Operands of the matrix units: x [tokens, cols] float32 -> halves of whole blocks of columns, where packed_x.glsl says, each
// token divided by the power of two that puts its largest value into [2^14, 2^15), since real activations overflow
// float16; then the powers, [tokens] floats. A token that holds Inf or NaN gets NaN for its power, so that all its
// outputs are NaN. One workgroup per token. With NORM x is RMS-normalised first (norm.comp).
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "workgroup.glsl"
#include "grid.glsl"
#include "packed_x.glsl"
#include "weight_planes.h"
#include "numerics.glsl"

layout(constant_id = LINEAR_PACK_NORM) const bool NORM = false;

layout(push_constant) uniform Push { LinearPackPush push; };
layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) writeonly buffer Out { uint words[]; };
layout(set = 0, binding = 2) readonly buffer Weight { float weight[]; };  // of the norm; else any buffer

const uint LANES = gl_WorkGroupSize.x;
const uint LOADS = 8;  // of a lane, before it waits for the first

// x of a column, and what it is multiplied by; zeros past the last.
vec2 value_at(uint row, uint column) {
    const uint at = min(column, push.cols - 1);
    const vec2 value = vec2(x[row + at], NORM ? weight[at] : 1.0);
    return column < push.cols ? value : vec2(0.0);
}

void main() {
    const uint token = group_index();
    if (token >= push.tokens) return;
    const uint row = push.x_first + token * push.x_stride;
    uint size = 0;  // bits of |x|, in whose order Inf and NaN are last
    float squares = 0.0;
    for (uint first = wg_lane(); first < push.cols; first += LOADS * LANES) {
        vec2 values[LOADS];
        [[unroll]] for (uint k = 0; k < LOADS; ++k) values[k] = value_at(row, first + k * LANES);
        [[unroll]] for (uint k = 0; k < LOADS; ++k) {
            size = max(size, floatBitsToUint(values[k].x * values[k].y) & 0x7FFFFFFFu);
            squares += values[k].x * values[k].x;
        }
    }
    size = wg_max(size);
    float scale = 1.0;
    if (NORM) {
        scale = 1.0 / sqrt(wg_add(squares) / float(push.cols) + push.epsilon);
        if (size < 0x7F800000u) size = floatBitsToUint(uintBitsToFloat(size) * scale);
    }

    const vec2 power = half_power(size);
    const uint block_words = WEIGHT_BLOCK / 2, blocks = push.row_words / block_words;
    for (uint first = wg_lane(); first < push.row_words; first += LOADS * LANES) {
        vec2 values[LOADS], factors[LOADS];
        [[unroll]] for (uint k = 0; k < LOADS; ++k) {
            const uint column = 2 * (first + k * LANES);
            const vec2 a = value_at(row, column), b = value_at(row, column + 1);
            values[k] = vec2(a.x, b.x);
            factors[k] = vec2(a.y, b.y);
        }
        [[unroll]] for (uint k = 0; k < LOADS; ++k) {
            const uint i = first + k * LANES;
            const uint to = packed_block(token, i / block_words, blocks) * block_words + i % block_words;
            const vec2 value = NORM ? values[k] * scale * factors[k] : values[k];
            if (i < push.row_words) words[to] = pack_half2(value * power.y);
        }
    }
    if (wg_lane() == 0) {
        words[push.side_first + token] = size >= 0x7F800000u ? 0x7FC00000u : floatBitsToUint(power.x);
    }
}
