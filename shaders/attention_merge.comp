// Joins the partial results of the parts of the cache (attention_parts.glsl). A lane per dim of a (token, head).
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "numerics.glsl"
#include "grid.glsl"
#include "step.h"
#include "attention.push.h"

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
layout(binding = 0) readonly buffer Partials { float partials[]; };
layout(binding = 1) readonly buffer Step { uint step_words[]; };
layout(binding = 2) writeonly buffer Out { float result[]; };
layout(constant_id = ATTENTION_MASK) const uint MASK = 0;
layout(push_constant) uniform Push { AttentionMergePush push; };

float load_part(const uint word) { return partials[word]; }
#include "attention_parts.glsl"
JOINED(of_parts, load_part, 8)

void main() {
    const uint element = group_index() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    const uint dim = element % push.head_dim, head = element / push.head_dim % push.heads;
    const uint token = element / push.head_dim / push.heads;
    const uint in_batch = push.first_token + token;
    if (token >= push.tokens || in_batch >= step_words[STEP_TOKEN_COUNT]) return;
    const uint type = step_words[STEP_TOKENS + in_batch * STEP_TOKEN_WORDS + STEP_TOKEN_TYPE];
    if (MASK == MASK_GLOBAL_ROWS && (type & STEP_TOKEN_GLOBAL) == 0) return;
    const uint words = push.head_dim + 2;
    const uint first = (token * push.heads + head) * words, between = push.tokens * push.heads * words;
    const vec3 joined = joined_of_parts(first, between, push.parts, push.head_dim, dim);
    result[push.out_first + token * push.out_stride + head * push.head_dim + dim] = joined.x / joined.y;
}
