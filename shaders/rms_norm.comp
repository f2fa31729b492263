// out = x / sqrt(mean(x^2) + epsilon) * weight over each group of columns of each row. One workgroup per group.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "workgroup.glsl"
#include "grid.glsl"
#include "rms_norm.push.h"

layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) readonly buffer Weight { float weight[]; };
layout(binding = 2) writeonly buffer Out { float result[]; };
layout(push_constant) uniform Push { RmsNormPush push; };

void main() {
    const uint item = group_index();
    if (item >= push.rows * push.groups) return;
    const uint row = item / push.groups, column = item % push.groups * push.group;
    const uint from = push.x_first + row * push.x_stride + column;
    const uint to = push.out_first + row * push.out_stride + column;

    float sum = 0.0;
    for (uint i = wg_lane(); i < push.group; i += gl_WorkGroupSize.x) sum += x[from + i] * x[from + i];
    const float scale = 1.0 / sqrt(wg_add(sum) / float(push.group) + push.epsilon);
    for (uint i = wg_lane(); i < push.group; i += gl_WorkGroupSize.x) result[to + i] = x[from + i] * scale * weight[i];
}
