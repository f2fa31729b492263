// For experts whose rows are no whole lanes' of the mat-vecs (linear_experts.glsl):
// out[t][s] = W[e] x[t] (+ bias[e]) with e = expert s of token t, or of x[t][s]; the experts' matrices stand one after
// the other in one weight. A lane makes two neighbouring rows of one (token, slot); an id past the experts counts as
// the last.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "grid.glsl"
#include "experts.push.h"
#include "expert_id.glsl"

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
layout(constant_id = EXPERT_ACTIVATION) const uint ACTIVATION = 1;
layout(push_constant) uniform Push { ExpertLinearPush push; };
layout(binding = 0) readonly buffer Weights { uint weight_words[]; };
layout(binding = 1) readonly buffer X { float x[]; };
layout(binding = 2) readonly buffer Routes { float routes[]; };
layout(binding = 3) readonly buffer Bias { float bias[]; };
layout(binding = 4) writeonly buffer Out { float result[]; };

#define WEIGHT_SIDE_PLANE push.side_plane
#define WEIGHT_TABLE_PLANE push.table_plane
#include "dequant.glsl"
#include "numerics.glsl"

float load_x(const uint from, const uint k) {
    if (!WEIGHT_PLAIN) return x[from + k];
    return k < push.cols ? x[from + min(k, push.cols - 1)] : 0.0;
}

// Row `row` of this shard times x[from ..].
float product(const uint row, const uint from) {
    const uint blocks = (push.cols + WEIGHT_BLOCK - 1) / WEIGHT_BLOCK;
    const uint slot = slot_of_row(row);
    float sum = 0.0;
    for (uint chunk = 0; chunk < 4 * blocks; ++chunk) {
        const uint cell = row / WEIGHT_GROUP_ROWS * blocks + chunk / 4;
        vec4 lo, hi;
        weight_values(cell, slot, chunk % 4, lo, hi);
        for (uint j = 0; j < 4; ++j)
            sum += lo[j] * load_x(from, 8 * chunk + j) + hi[j] * load_x(from, 8 * chunk + 4 + j);
    }
    return sum;
}

void main() {
    const uint pairs = (push.rows + 1) / 2, tiles = (pairs + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
    const uint item = group_index() / tiles;
    const uint pair = group_index() % tiles * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    const uint token = item / push.used, slot = item % push.used;
    if (token >= push.tokens || pair >= pairs) return;
    uint expert = slot;
    if ((push.flags & EXPERT_IS_SLOT) == 0) {
        expert = expert_of_id(routes[push.routes_first + token * push.routes_stride + slot], push.experts);
    }
    const uint from = push.x_first + token * push.x_stride + slot * push.slot_stride;

    vec2 values = vec2(0.0);
    bvec2 mine;
    for (uint i = 0; i < 2; ++i) {
        const uint row = 2 * pair + i, all = expert * push.rows + row, here = all - push.first_row;
        mine[i] = row < push.rows && here < push.shard_rows;  // wraps below the shard
        if (!mine[i]) continue;
        values[i] = product(here, from) + ((push.flags & EXPERT_BIAS) != 0 ? bias[all] : 0.0);
    }
    const bool glu = (push.flags & EXPERT_GLU) != 0;
    const uint out_cols = glu ? push.rows / 2 : push.rows;
    const uint to = push.out_first + token * push.out_stride + slot * out_cols;
    if (glu) {
        if (mine.x) result[to + pair] = activated(values.x, ACTIVATION) * values.y;
        return;
    }
    if (mine.x) result[to + 2 * pair] = values.x;
    if (mine.y) result[to + 2 * pair + 1] = values.y;
}
