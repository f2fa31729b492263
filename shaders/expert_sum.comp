// out[t] = sum over the chosen experts s of weight[t][s] * x[t][s], which may be scaled and added to a residual. One lane per
// element.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "grid.glsl"
#include "experts.push.h"

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
layout(constant_id = EXPERT_SUM_USED) const uint USED = 1;
const uint AT_ONCE = 8;  // are loaded before the first is waited for
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) readonly buffer Routes { float routes[]; };
layout(binding = 2) readonly buffer Residual { float residual[]; };  // may be the memory of `out`
layout(binding = 3) writeonly buffer Out { float result[]; };
layout(push_constant) uniform Push { ExpertSumPush push; };

void main() {
    const uint element = group_index() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    const uint token = element / push.cols, column = element % push.cols;
    if (token >= push.tokens) return;
    const uint from = push.x_first + token * push.x_stride + column;
    const uint weights = push.routes_first + token * push.routes_stride + USED;
    float sum = 0.0;
    [[dont_unroll]] for (uint first = 0; first < USED; first += AT_ONCE)
        [[unroll]] for (uint i = 0; i < AT_ONCE; ++i) {
            const uint s = first + i;
            if (s < USED) sum += routes[weights + s] * x[from + s * push.cols];
        }
    if (push.adds != 0) sum = residual[push.residual_first + token * push.residual_stride + column] + push.scale * sum;
    result[push.out_first + token * push.out_stride + column] = sum;
}
