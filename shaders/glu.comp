// out = silu(gate) * up, element by element; a workgroup takes ELEMENTS_PER_LANE runs of its size.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "grid.glsl"
#include "elementwise.push.h"
#include "numerics.glsl"
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
layout(binding = 0) readonly buffer A { float gate[]; };
layout(binding = 1) readonly buffer B { float up[]; };
layout(binding = 2) writeonly buffer Out { float result[]; };
layout(push_constant) uniform Push { ElementwisePush push; };

void main() {
    const uint first = group_index() * gl_WorkGroupSize.x * ELEMENTS_PER_LANE + gl_LocalInvocationID.x;
    for (uint i = 0; i < ELEMENTS_PER_LANE; ++i) {
        const uint element = first + i * gl_WorkGroupSize.x;
        if (element >= push.rows * push.cols) return;
        const uint row = element / push.cols, column = element % push.cols;
        const float gate_value = gate[push.a_first + row * push.a_stride + column];
        const float up_value = up[push.b_first + row * push.b_stride + column];
        result[push.out_first + row * push.out_stride + column] = silu(gate_value) * up_value;
    }
}
