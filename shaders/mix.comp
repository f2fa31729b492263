// Streams side by side: out[t][i] = x[t][i] + sum over j of (offset + factor factors[t][n i + j]) y[t][j], of streams i
// before `unchanged` x[t][i]. A lane makes one column of every stream, so out may be the memory of x, and y may be x.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "grid.glsl"
#include "elementwise.push.h"

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
layout(constant_id = MIX_FACTORS) const bool FACTORS = false;
layout(constant_id = MIX_INPUTS) const uint INPUTS = 1;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) readonly buffer Y { float y[]; };
layout(binding = 2) readonly buffer Factors { float factors[]; };
layout(binding = 3) writeonly buffer Out { float result[]; };
layout(push_constant) uniform Push { MixPush push; };

void main() {
    const uint item = group_index() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    const uint row = item / push.width, column = item % push.width;
    if (row >= push.rows) return;
    float inputs[INPUTS];
    for (uint j = 0; j < INPUTS; ++j) inputs[j] = y[push.y_first + row * push.y_stride + j * push.width + column];
    for (uint i = 0; i < push.streams; ++i) {
        const uint at = i * push.width + column;
        float value = x[push.x_first + row * push.x_stride + at];
        for (uint j = 0; j < INPUTS && i >= push.unchanged; ++j) {
            float share = push.offset;
            if (FACTORS) share += push.factor * factors[push.factors_first + row * push.factors_stride + i * INPUTS + j];
            value += share * inputs[j];
        }
        result[push.out_first + row * push.out_stride + at] = value;
    }
}
