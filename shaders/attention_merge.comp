// Joins the partial results of the parts of the cache: out = sum_p e^(m_p - m) o_p / sum_p e^(m_p - m) l_p.
// A lane per dim of a (token, head).
#version 460
#extension GL_GOOGLE_include_directive : require
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
    float m = partials[first + push.head_dim];
    for (uint p = 1; p < push.parts; ++p) m = max(m, partials[first + p * between + push.head_dim]);
    float o = 0.0, l = 0.0;
    for (uint p = 0; p < push.parts; ++p) {
        const uint part = first + p * between;
        const float scale = exp_safe(partials[part + push.head_dim] - m);
        o += scale * partials[part + dim];
        l += scale * partials[part + push.head_dim + 1];
    }
    result[push.out_first + token * push.out_stride + head * push.head_dim + dim] = o / l;
}
