// Joins the parts of a product whose columns were split over workgroups: out = epilogue(sum of the parts + bias), the parts
// always in the same order. `x` holds them: [part][token][row]. A lane per pair of rows of a token.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "linear.glsl"

layout(local_size_x_id = 0) in;

void main() {
    const uint pairs = (push.rows + 1) / 2;
    const uint item = group_index() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    const uint token = item / pairs, pair = item % pairs, row = 2 * pair;
    if (token >= push.tokens) return;
    const uint from = push.x_first + token * push.x_stride + row, second = row + 1 < push.rows ? 1 : 0;
    vec2 sum = vec2(load_bias(row), load_bias(row + 1));
    for (uint part = 0; part < push.splits; ++part) {
        const uint at = from + part * push.part_stride;
        sum += vec2(x[at], x[at + second]);
    }
    store_pair(token, pair, sum, true);
}
