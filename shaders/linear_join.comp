// Joins the parts of a product whose columns were split over workgroups: out = epilogue(sum of the parts + bias), the parts
// always in the same order. `x` holds them: [part][token][row]. A lane for a pair of rows of a token, or, where all rows are
// whole fours of words and nothing is gated, for two.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "linear.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = LINEAR_X_QUADS) const uint X_QUADS = 0;
layout(set = 0, binding = 1) readonly buffer Quads { vec4 x_quads[]; };
layout(set = 0, binding = 3) readonly buffer ResidualQuads { vec4 residual_quads[]; };
layout(set = 0, binding = 4) writeonly buffer OutQuads { vec4 out_quads[]; };

const uint AT_ONCE = 4;  // parts, loaded before the first is waited for
const uint ROWS = X_QUADS != 0 ? 4 : 2;

vec4 part_at(const uint at, const uint second) {
    return X_QUADS != 0 ? x_quads[at / 4] : vec4(x[at], x[at + second], 0.0, 0.0);
}

void main() {
    const uint row_items = (push.rows + ROWS - 1) / ROWS;
    const uint item = group_index() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    const uint token = item / row_items, row = item % row_items * ROWS;
    if (token >= push.tokens) return;
    const uint from = push.x_first + token * push.x_stride + row, second = row + 1 < push.rows ? 1 : 0;
    const uint residual_at = (push.residual_first + token * push.residual_stride + row) / 4;
    const bool adds = (push.flags & LINEAR_RESIDUAL) != 0;
    vec4 added = vec4(0.0);
    if (X_QUADS != 0 && adds) added = residual_quads[residual_at];
    vec4 sum;
    [[unroll]] for (uint i = 0; i < 4; ++i) sum[i] = i < ROWS ? load_bias(row + i) : 0.0;
    for (uint part = 0; part < push.splits; part += AT_ONCE) {
        vec4 parts[AT_ONCE];
        [[unroll]] for (uint i = 0; i < AT_ONCE; ++i)
            if (part + i < push.splits) parts[i] = part_at(from + (part + i) * push.part_stride, second);
        [[unroll]] for (uint i = 0; i < AT_ONCE; ++i)
            if (part + i < push.splits) sum += parts[i];
    }
    if (X_QUADS != 0) {
        const uint to = (push.out_first + token * push.out_stride + row) / 4;
        out_quads[to] = vec4(finished(sum.xy), finished(sum.zw)) + added;
    } else {
        store_pair(token, row / 2, sum.xy, true);
    }
}
