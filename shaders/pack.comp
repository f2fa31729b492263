// out[t][h] = a run of columns of a[t][h], then one of b[t][h]. One lane per element.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "grid.glsl"
#include "elementwise.push.h"

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
layout(binding = 0) readonly buffer A { float a[]; };
layout(binding = 1) readonly buffer B { float b[]; };
layout(binding = 2) writeonly buffer Out { float result[]; };
layout(push_constant) uniform Push { PackPush push; };

void main() {
    const uint element = group_index() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    const uint cols = push.a_count + push.b_count;
    const uint column = element % cols, head = element / cols % push.heads, row = element / cols / push.heads;
    if (row >= push.rows) return;
    const bool second = column >= push.a_count;
    const uint from_a = push.a_first + row * push.a_stride + head * push.a_head + min(column, push.a_count - 1);
    const uint from_b = push.b_first + row * push.b_stride + head * push.b_head + (second ? column - push.a_count : 0);
    result[push.out_first + row * push.out_stride + head * cols + column] = second ? b[from_b] : a[from_a];
}
