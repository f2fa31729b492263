// Operands of the matrix units: x [tokens, cols] float32 -> halves of whole blocks of columns, where packed_x.glsl says, each
// token divided by the power of two that puts its largest value into [2^14, 2^15), since real activations overflow
// float16; then the powers, [tokens] floats. A token that holds Inf or NaN gets NaN for its power, so that all its
// outputs are NaN. One workgroup per token, a lane for eight columns. With NORM x is RMS-normalised first (norm.comp).
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "workgroup.glsl"
#include "grid.glsl"
#include "packed_x.glsl"
#include "weight_planes.h"
#include "numerics.glsl"
#include "half_operands.glsl"

layout(constant_id = LINEAR_PACK_NORM) const bool NORM = false;
layout(constant_id = LINEAR_X_QUADS) const uint X_QUADS = 0;

layout(push_constant) uniform Push { LinearPackPush push; };
#include "pack_rows.glsl"
layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 0) readonly buffer Quads { vec4 x_quads[]; };
layout(set = 0, binding = 1) writeonly buffer Out { uint words[]; };
layout(set = 0, binding = 1) writeonly buffer Packed { uvec4 packed_x[]; };
layout(set = 0, binding = 2) readonly buffer Weight { float weight[]; };  // of the norm; else any buffer
layout(set = 0, binding = 2) readonly buffer WeightQuads { vec4 weight_quads[]; };

const uint LANES = gl_WorkGroupSize.x;
const uint ITEMS = 2;  // of eight columns, that a lane loads before it waits for the first

// Columns from `column` on; zeros past the last.
vec4 x_quad(const uint row, const uint column) {
    const uint last = push.cols - 1;
    vec4 quad;
    if (X_QUADS != 0) quad = x_quads[(row + min(column, last)) / 4];
    else [[unroll]] for (uint i = 0; i < 4; ++i) quad[i] = x[row + min(column + i, last)];
    return mix(quad, vec4(0.0), greaterThan(column + uvec4(0, 1, 2, 3), uvec4(last)));
}
vec4 weight_quad(const uint column) {
    const uint last = push.cols - 1;
    if (!NORM) return vec4(1.0);
    if (X_QUADS != 0) return weight_quads[min(column, last) / 4];
    vec4 quad;
    [[unroll]] for (uint i = 0; i < 4; ++i) quad[i] = weight[min(column + i, last)];
    return quad;
}

void main() {
    const uint token = group_index();
    if (token >= push.tokens) return;
    const uint row = packed_from(token), items = push.row_words / 4;
    uint size = 0;  // bits of |x|, in whose order Inf and NaN are last
    float squares = 0.0;
    for (uint first = wg_lane(); first < items; first += ITEMS * LANES) {
        vec4 quads[2 * ITEMS], factors[2 * ITEMS];
        [[unroll]] for (uint k = 0; k < 2 * ITEMS; ++k) {
            const uint column = 8 * (first + k / 2 * LANES) + k % 2 * 4;
            quads[k] = x_quad(row, column);
            factors[k] = weight_quad(column);
        }
        [[unroll]] for (uint k = 0; k < 2 * ITEMS; ++k) {
            size = max(size, size_of(quads[k] * factors[k]));
            squares += dot(quads[k], quads[k]);
        }
    }
    size = wg_max(size);
    float scale = 1.0;
    if (NORM) {
        scale = 1.0 / sqrt(wg_add(squares) / float(push.cols) + push.epsilon);
        if (size < 0x7F800000u) size = floatBitsToUint(uintBitsToFloat(size) * scale);
    }

    const vec2 power = half_power(size);
    const uint block_items = WEIGHT_BLOCK / 8, blocks = items / block_items;
    for (uint first = wg_lane(); first < items; first += ITEMS * LANES) {
        vec4 quads[2 * ITEMS];
        [[unroll]] for (uint k = 0; k < 2 * ITEMS; ++k) {
            const uint column = 8 * (first + k / 2 * LANES) + k % 2 * 4;
            quads[k] = x_quad(row, column);
            if (NORM) quads[k] *= scale * weight_quad(column);
        }
        [[unroll]] for (uint k = 0; k < ITEMS; ++k) {
            const uint item = first + k * LANES;
            const uint to = packed_block(token, item / block_items, blocks) * block_items + item % block_items;
            if (item < items) packed_x[to] = packed_halves(quads[2 * k] * power.y, quads[2 * k + 1] * power.y);
        }
    }
    if (wg_lane() == 0) {
        words[push.side_first + token] = size >= 0x7F800000u ? 0x7FC00000u : floatBitsToUint(power.x);
    }
}
