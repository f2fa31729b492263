// Attention in chunks (struct Chunks in loader/architecture.h): a workgroup takes one query of one head. The list holds
// `padded` positions per round, in the order of `sorted` [tokens, order: heads * rounds, places: heads * rounds] or as
// they come; what is past `tokens` in a round is padding, which nobody sees. A query sees, in every round, the chunk it
// stands in and those around it in the ring. out = softmax over all that it sees of scale q k, times v: the softmax of
// the rounds' log-sums that joins them (Kitaev et al. 2020, section 2) is the same sum.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "chunk_attention.push.h"
#include "grid.glsl"
#include "numerics.glsl"

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
layout(binding = 0) readonly buffer Q { float q[]; };
layout(binding = 1) readonly buffer K { float k[]; };
layout(binding = 2) readonly buffer V { float v[]; };
layout(binding = 3) readonly buffer Sorted { float sorted[]; };
layout(binding = 4) writeonly buffer Out { float result[]; };
layout(push_constant) uniform Push { ChunkAttentionPush push; };

const float LOWEST = -3e38;
const float SELF_SCORE = -1e5;
const uint NONE = 0xFFFFFFFFu;

shared float scores[CHUNK_LANES];
shared uint keys[CHUNK_LANES];  // positions

uint listed(const uint head, const uint round, const uint row, const bool place) {
    const uint column = (place ? push.heads * push.rounds : 0) + head * push.rounds + round;
    return uint(sorted[push.sorted_first + row * push.sorted_stride + column]);
}

// The position of element n of what the query sees, or NONE.
uint key_of(const uint token, const uint head, const uint n) {
    const uint round = n / (push.window * push.chunk), neighbour = n / push.chunk % push.window;
    const uint chunks = push.rounds * push.padded / push.chunk;
    const uint place =
        push.sorted != 0 ? round * push.padded + min(listed(head, round, token, true), push.tokens - 1) : token;
    uint chunk = place / push.chunk;
    const int offset = int(neighbour) - int(push.before);
    // Past a whole turn of the ring the published code sees the own chunk again.
    if (uint(abs(offset)) < chunks) chunk = (chunk + chunks + uint(offset)) % chunks;
    const uint entry = chunk * push.chunk + n % push.chunk;
    const uint row = entry % push.padded;
    if (row >= push.tokens) return NONE;
    const uint key = push.sorted != 0 ? min(listed(head, entry / push.padded, row, false), push.tokens - 1) : row;
    return (push.flags & CHUNK_CAUSAL) != 0 && key > token ? NONE : key;
}

float score_of(const uint token, const uint head, const uint key) {
    if ((push.flags & CHUNK_NOT_SELF) != 0 && key == token) return SELF_SCORE;
    const uint from_q = push.q_first + token * push.q_stride + head * push.head_dim;
    const uint from_k = push.k_first + key * push.k_stride + head * push.head_dim;
    float sum = 0.0;
    for (uint i = 0; i < push.head_dim; ++i) sum += q[from_q + i] * k[from_k + i];
    return push.scale * sum;
}

void main() {
    const uint item = group_index();
    if (item >= push.tokens * push.heads) return;
    const uint token = item / push.heads, head = item % push.heads, lane = gl_LocalInvocationID.x;
    const uint lanes = min(gl_WorkGroupSize.x, CHUNK_LANES), seen = push.rounds * push.window * push.chunk;
    float most = LOWEST, sum = 0.0, total[CHUNK_PER_LANE];
    for (uint c = 0; c < CHUNK_PER_LANE; ++c) total[c] = 0.0;
    for (uint first = 0; first < seen; first += lanes) {
        const uint n = first + lane, key = n < seen ? key_of(token, head, n) : NONE;
        barrier();  // the tile before has been read
        keys[lane] = key;
        scores[lane] = key == NONE ? LOWEST : score_of(token, head, key);
        barrier();
        float tile_most = most;
        for (uint i = 0; i < lanes; ++i) tile_most = max(tile_most, scores[i]);
        const float keep = exp_safe(most - tile_most);
        most = tile_most;
        sum *= keep;
        for (uint c = 0; c < CHUNK_PER_LANE; ++c) total[c] *= keep;
        for (uint i = 0; i < lanes; ++i) {
            if (keys[i] == NONE) continue;
            const float weight = exp_safe(scores[i] - most);
            sum += weight;
            const uint from = push.v_first + keys[i] * push.v_stride + head * push.head_dim;
            for (uint c = 0; c < CHUNK_PER_LANE; ++c) {
                const uint column = c * lanes + lane;
                if (column >= push.head_dim) break;
                total[c] += weight * v[from + column];
            }
        }
    }
    const uint to = push.out_first + token * push.out_stride + head * push.head_dim;
    for (uint c = 0; c < CHUNK_PER_LANE; ++c) {
        const uint column = c * lanes + lane;
        if (column < push.head_dim) result[to + column] = total[c] / sum;
    }
}
