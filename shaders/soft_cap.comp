// out = cap * tanh(x / cap), element by element; a workgroup takes ELEMENTS_PER_LANE runs of its size.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "grid.glsl"
#include "numerics.glsl"
#include "elementwise.push.h"

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) writeonly buffer Out { float result[]; };  // may be the memory of x
layout(push_constant) uniform Push { SoftCapPush push; };

void main() {
    const uint first = group_index() * gl_WorkGroupSize.x * ELEMENTS_PER_LANE + gl_LocalInvocationID.x;
    for (uint i = 0; i < ELEMENTS_PER_LANE; ++i) {
        const uint element = first + i * gl_WorkGroupSize.x;
        if (element >= push.rows * push.cols) return;
        const uint row = element / push.cols, column = element % push.cols;
        const float value = x[push.x_first + row * push.x_stride + column];
        result[push.out_first + row * push.out_stride + column] = push.cap * tanh_safe(value / push.cap);
    }
}
