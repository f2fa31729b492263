// Operands of the matrix units: x [tokens, cols] float32 -> halves, [tokens][cols padded to whole blocks], each
// token divided by the power of two that puts its largest value into [2^14, 2^15), since real activations overflow
// float16; then the powers, [tokens] floats. A token that holds Inf or NaN gets NaN for its power, so that all its
// outputs are NaN. One workgroup per token.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "workgroup.glsl"
#include "grid.glsl"
#include "linear.push.h"
#include "numerics.glsl"

layout(push_constant) uniform Push { LinearPackPush push; };
layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) writeonly buffer Out { uint words[]; };

float value_at(uint row, uint column) {
    const float value = x[row + min(column, push.cols - 1)];
    return column < push.cols ? value : 0.0;
}

void main() {
    const uint token = group_index();
    if (token >= push.tokens) return;
    const uint row = push.x_first + token * push.x_stride;
    uint size = 0;  // bits of |x|, in whose order Inf and NaN are last
    for (uint i = wg_lane(); i < push.cols; i += gl_WorkGroupSize.x) {
        size = max(size, floatBitsToUint(x[row + i]) & 0x7FFFFFFFu);
    }
    size = wg_max(size);

    const vec2 power = half_power(size);
    const uint to = token * push.row_words;
    for (uint i = wg_lane(); i < push.row_words; i += gl_WorkGroupSize.x) {
        words[to + i] = pack_half2(vec2(value_at(row, 2 * i), value_at(row, 2 * i + 1)) * power.y);
    }
    if (wg_lane() == 0) {
        words[push.tokens * push.row_words + token] = size >= 0x7F800000u ? 0x7FC00000u : floatBitsToUint(power.x);
    }
}
