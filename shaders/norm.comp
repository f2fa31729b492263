// out = (x - mean) / sqrt(mean((x - mean)^2) + epsilon) * weight + bias over each group of columns of each row; for
// an RMS norm, mean = 0; or what the other kinds of NormKind say. One workgroup per group. Without a weight or a bias,
// any buffer stands in for it.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "workgroup.glsl"
#include "grid.glsl"
#include "norm.push.h"

layout(constant_id = NORM_KIND) const uint KIND = NORM_RMS;
layout(constant_id = NORM_LOADS) const uint LOADS = 1;  // of a lane, before it waits for the first

layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) readonly buffer Weight { float weight[]; };  // or rows to be as long as
layout(binding = 2) readonly buffer Bias { float bias[]; };
layout(binding = 3) writeonly buffer Out { float result[]; };
layout(push_constant) uniform Push { NormPush push; };

const bool CENTRED = KIND == NORM_LAYER || KIND == NORM_CUT;

const uint LANES = gl_WorkGroupSize.x;
float values[LOADS];
// Of the lane, of the row that begins at `from`: columns `first`, `first` + LANES and so on.
void load(const uint from, const uint first) {
    [[unroll]] for (uint k = 0; k < LOADS; ++k) values[k] = x[from + min(first + k * LANES, push.group - 1)];
}
bool exists(const uint first, const uint k) { return first + k * LANES < push.group; }

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
        for (uint first = wg_lane(); first < push.group; first += LOADS * LANES) {
            load(from, first);
            [[unroll]] for (uint k = 0; k < LOADS; ++k) sum += exists(first, k) ? values[k] : 0.0;
        }
        mean = wg_add(sum) / float(push.group);
    }
    float squares = 0.0;
    if (KIND != NORM_SCALE) {
        float sum = 0.0;
        for (uint first = wg_lane(); first < push.group; first += LOADS * LANES) {
            load(from, first);
            [[unroll]] for (uint k = 0; k < LOADS; ++k) {
                const float value = exists(first, k) ? values[k] - mean : 0.0;
                sum += value * value;
            }
        }
        squares = wg_add(sum) / float(push.group);
    }
    float scale = 1.0;
    if (KIND == NORM_RMS || KIND == NORM_LAYER) scale = 1.0 / sqrt(squares + push.epsilon);
    if (KIND == NORM_MATCH) {
        float sum = 0.0;
        for (uint i = wg_lane(); i < push.group; i += LANES) {
            const float value = weight[push.like_first + row * push.like_stride + i];
            sum += value * value;
        }
        scale = sqrt(wg_add(sum) / float(push.group)) / sqrt(squares < push.epsilon ? push.epsilon : squares);
    }
    const float cut = KIND == NORM_CUT ? push.epsilon * sqrt(squares) : 0.0;
    for (uint first = wg_lane(); first < push.group; first += LOADS * LANES) {
        load(from, first);
        // What stands in for a weight or a bias is as long.
        float weights[LOADS], biases[LOADS];
        [[unroll]] for (uint k = 0; k < LOADS; ++k) {
            const uint i = first_weight + min(first + k * LANES, push.group - 1);
            if (LOADS > 1 || (push.flags & NORM_WEIGHT) != 0) weights[k] = weight[i];
            if (LOADS > 1 || (push.flags & NORM_BIAS) != 0) biases[k] = bias[i];
        }
        [[unroll]] for (uint k = 0; k < LOADS; ++k) {
            float value = (values[k] - mean) * scale;
            if ((push.flags & NORM_WEIGHT) != 0) value *= weights[k];
            if ((push.flags & NORM_BIAS) != 0) value += biases[k];
            if (KIND == NORM_CUT) value = value < cut ? 0.0 : value - cut;  // NaN stays
            if (exists(first, k)) result[to + first + k * LANES] = value;
        }
    }
}
