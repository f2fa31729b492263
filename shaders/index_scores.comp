// Scores of the keys that a token may see (struct Indexer): result[key] = sum over heads h of w[h] max(q[h] . k, 0), a row
// of push.out_stride words for each token of the dispatch. A lane takes a key, HEADS heads and PAIRS_AT_ONCE pairs of dims
// at a time; a workgroup as many keys of one token. Nothing is written where all keys are chosen anyway: up to push.stride
// of them. `bias` holds w.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "attention.glsl"

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

const uint HEADS = 4, PAIRS_AT_ONCE = 4;
const bool WHOLE = PAIRS % PAIRS_AT_ONCE == 0;

void main() {
    const uint runs = (push.out_stride + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x, group = group_index();
    const uint token = group / runs, key = group % runs * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (token >= push.tokens) return;
    const Row row = row_at(token * push.heads, 0);
    if (row.count <= push.stride || key >= row.count || key >= push.out_stride) return;
    const uint block = block_of(row.table, key);
    if (block >= push.blocks) return;
    const uint keys = kv_keys(block, 0, 1, HEAD_WORDS);
    float score = 0.0;
    for (uint first = 0; first < push.heads; first += HEADS) {
        float dots[HEADS];
        [[unroll]] for (uint i = 0; i < HEADS; ++i) dots[i] = 0.0;
        for (uint pair = 0; pair < PAIRS; pair += PAIRS_AT_ONCE) {
            vec2 two[PAIRS_AT_ONCE];
            [[unroll]] for (uint p = 0; p < PAIRS_AT_ONCE; ++p)
                two[p] = load_key(keys, key % KV_BLOCK_TOKENS, WHOLE ? pair + p : min(pair + p, PAIRS - 1));
            [[unroll]] for (uint i = 0; i < HEADS; ++i) {
                const uint query = query_word(token, min(first + i, push.heads - 1));
                [[unroll]] for (uint p = 0; p < PAIRS_AT_ONCE; ++p)
                    if (WHOLE || pair + p < PAIRS) dots[i] += dot(load_query(query, pair + p), two[p]);
            }
        }
        [[unroll]] for (uint i = 0; i < HEADS; ++i)
            if (first + i < push.heads)
                score += bias[push.bias_first + token * push.bias_stride + first + i] * max(dots[i], 0.0);
    }
    result[push.out_first + token * push.out_stride + key] = score;
}
