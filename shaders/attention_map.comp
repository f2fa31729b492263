// What the heads of one token attend to: result[h][k] = softmax over the keys k of its sequence, 0 for those that it does
// not see. Attention itself keeps no weights, so this computes them again; two modules:
//   scores    a lane per (head, key) writes the score, -Inf where it is not seen; run once for each shard of the cache
//   SOFTMAX   a workgroup per head makes weights of a row of scores
// Rows are as long as the sequence, which the step buffer says, and push.out_stride further words apart.
#version 460
#extension GL_GOOGLE_include_directive : require
#ifdef SOFTMAX
#define OUT_ACCESS
#endif
#include "attention.glsl"

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

Row head_row(const uint head) {
    const uint group = push.heads / push.kv_heads;
    return row_at(head % group, head / group);
}
uint row_word(const uint head, const uint keys) { return push.out_first + head * (keys + push.out_stride); }

#ifdef SOFTMAX
shared float parts[gl_WorkGroupSize.x];

void share(const float value) {
    barrier();
    parts[gl_LocalInvocationID.x] = value;
    barrier();
}

void main() {
    const uint head = group_index();
    if (head >= push.heads) return;
    const Row row = head_row(head);
    const uint keys = row.low + row.count, first = row_word(head, keys);
    float most = SINKS ? max(sinks[head], LOWEST) : LOWEST;
    for (uint key = gl_LocalInvocationID.x; key < keys; key += gl_WorkGroupSize.x) most = max(most, result[first + key]);
    share(most);
    for (uint i = 0; i < gl_WorkGroupSize.x; ++i) most = max(most, parts[i]);

    float sum = 0.0;
    for (uint key = gl_LocalInvocationID.x; key < keys; key += gl_WorkGroupSize.x) {
        const float weight = exp_safe(result[first + key] - most);
        result[first + key] = weight;
        sum += weight;
    }
    share(sum);
    sum = SINKS ? exp_safe(sinks[head] - most) : 0.0;
    for (uint i = 0; i < gl_WorkGroupSize.x; ++i) sum += parts[i];
    for (uint key = gl_LocalInvocationID.x; key < keys; key += gl_WorkGroupSize.x) result[first + key] /= sum;
}
#else
void main() {
    const uint id = group_index() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    const Row any = row_at(0, 0);  // all heads see the same keys
    const uint keys = any.low + any.count;
    if (id >= push.heads * keys) return;
    const uint head = id / keys, key = id % keys, kv_head = head / (push.heads / push.kv_heads);
    const Row row = head_row(head);
    float score = MASKED;
    if (key >= row.low && visible(row.position, key)) {
        const uint block = block_of(row.table, key);
        if (block >= push.blocks) return;  // another shard's
        const uint from = kv_keys(block, kv_head, push.kv_heads, HEAD_WORDS), word = query_word(row.token, head);
        float product = 0.0;
        for (uint pair = 0; pair < PAIRS; ++pair)
            product += dot(load_query(word, pair), load_key(from, key % KV_BLOCK_TOKENS, pair));
        score = score_of(product, row.token, head, row.position, key);
    }
    result[row_word(head, keys) + key] = score;
}
#endif
