// out = (x - mean) / sqrt(mean((x - mean)^2) + epsilon) * weight + bias over each group of columns of each row; for
// an RMS norm, mean = 0. One workgroup per group. Without a weight or a bias, any buffer stands in for it.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "workgroup.glsl"
#include "grid.glsl"
#include "norm.push.h"

layout(constant_id = NORM_CENTRED) const bool CENTRED = false;

layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) readonly buffer Weight { float weight[]; };
layout(binding = 2) readonly buffer Bias { float bias[]; };
layout(binding = 3) writeonly buffer Out { float result[]; };
layout(push_constant) uniform Push { NormPush push; };

void main() {
    const uint item = group_index();
    if (item >= push.rows * push.groups) return;
    const uint row = item / push.groups, column = item % push.groups * push.group;
    const uint from = push.x_first + row * push.x_stride + column;
    const uint to = push.out_first + row * push.out_stride + column;
    const uint first_weight = (push.flags & NORM_OWN_WEIGHTS) != 0 ? column : 0;

    float mean = 0.0;
    if (CENTRED) {
        float sum = 0.0;
        for (uint i = wg_lane(); i < push.group; i += gl_WorkGroupSize.x) sum += x[from + i];
        mean = wg_add(sum) / float(push.group);
    }
    float sum = 0.0;
    for (uint i = wg_lane(); i < push.group; i += gl_WorkGroupSize.x) {
        const float value = x[from + i] - mean;
        sum += value * value;
    }
    const float scale = 1.0 / sqrt(wg_add(sum) / float(push.group) + push.epsilon);
    for (uint i = wg_lane(); i < push.group; i += gl_WorkGroupSize.x) {
        float value = (x[from + i] - mean) * scale;
        if ((push.flags & NORM_WEIGHT) != 0) value *= weight[first_weight + i];
        if ((push.flags & NORM_BIAS) != 0) value += bias[first_weight + i];
        result[to + i] = value;
    }
}
