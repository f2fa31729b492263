// Joins the parts of a product whose columns were split over workgroups: out = epilogue(sum of the parts + bias), the parts
// always in the same order. `x` holds them: [part][token][row]. A lane per pair of rows of a token.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "linear.glsl"

layout(local_size_x_id = 0) in;

const uint AT_ONCE = 4;  // parts, loaded before the first is waited for

void main() {
    const uint pairs = (push.rows + 1) / 2;
    const uint item = group_index() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    const uint token = item / pairs, pair = item % pairs, row = 2 * pair;
    if (token >= push.tokens) return;
    const uint from = push.x_first + token * push.x_stride + row, second = row + 1 < push.rows ? 1 : 0;
    vec2 sum = vec2(load_bias(row), load_bias(row + 1));
    for (uint part = 0; part < push.splits; part += AT_ONCE) {
        vec2 parts[AT_ONCE];
        [[unroll]] for (uint i = 0; i < AT_ONCE; ++i) {
            const uint at = from + min(part + i, push.splits - 1) * push.part_stride;
            parts[i] = vec2(x[at], x[at + second]);
        }
        [[unroll]] for (uint i = 0; i < AT_ONCE; ++i)
            if (part + i < push.splits) sum += parts[i];
    }
    store_pair(token, pair, sum, true);
}
