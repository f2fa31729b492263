// out[t] = scale * row i(t) of the table [rows, cols], as floats; i(t), the token's id or its position, of tables by axis
// position / divide mod period, comes from the step buffer. One lane makes eight values. A table in several shards
// takes one dispatch each, which writes the rows it holds.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "embed.push.h"
#include "grid.glsl"
#include "step.h"

layout(local_size_x_id = 0) in;
layout(push_constant) uniform Push { EmbedPush push; };
layout(set = 0, binding = 0) readonly buffer Weights { uint weight_words[]; };
layout(set = 0, binding = 1) readonly buffer Step { uint step_words[]; };
layout(set = 0, binding = 2) writeonly buffer Out { float out_values[]; };

#define WEIGHT_SIDE_PLANE push.side_plane
#define WEIGHT_TABLE_PLANE push.table_plane
#include "dequant.glsl"

void main() {
    const uint blocks = (push.cols + WEIGHT_BLOCK - 1) / WEIGHT_BLOCK;
    const uint item = group_index() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    const uint token = item / (4 * blocks);
    if (token >= push.tokens) return;
    uint id = step_words[STEP_TOKENS + token * STEP_TOKEN_WORDS + push.step_word] & ~STEP_TOKEN_GLOBAL;
    if (push.period != 0) id = id / max(push.divide, 1) % push.period;
    const uint row = min(id, push.vocab - 1) - push.first_row;  // wraps below the shard
    if (row >= push.rows) return;

    const uint block = item / 4 % blocks, chunk = item % 4;
    const uint cell = row / WEIGHT_GROUP_ROWS * blocks + block;
    const uint slot = slot_of_row(row);
    vec4 lo, hi;
    weight_values(cell, slot, chunk, lo, hi);

    const uint first = push.out_first + token * push.out_stride;
    for (uint j = 0; j < 4; ++j) {
        const uint k = block * WEIGHT_BLOCK + 8 * chunk + j;
        if (k < push.cols) out_values[first + k] = push.scale * lo[j];
        if (k + 4 < push.cols) out_values[first + k + 4] = push.scale * hi[j];
    }
}
