// Scores of few rows where keys are loaded by words (attention_vec.comp): a lane has a key. Queries come to it by broadcasts,
// or, where SHARES subgroups share out the keys of a split, from shared memory, as do the weights of values.
#ifndef SCORIA_ATTENTION_WORDS_GLSL
#define SCORIA_ATTENTION_WORDS_GLSL

#ifdef NATIVE_SUBGROUP
#define CAN_SHARE
const uint PAIR_TWOS = (PAIRS + 1) / 2;
const bool SHARED = SHARES > 1;
shared vec4 shared_queries[SHARED ? PAIR_TWOS * QUERIES : 1];  // [two pairs][row]
shared vec4 shared_weights[SHARED ? gl_WorkGroupSize.x : 1];   // of a key, of all rows

// To be called by the whole workgroup.
void share_queries(Row rows[QUERIES]) {
    for (uint at = sg_index(); at < QUERIES; at += SG_COUNT) {
        const Row row = row_of(rows, at);
        for (uint two = sg_lane(); two < PAIR_TWOS; two += SG_SIZE) {
            shared_queries[two * QUERIES + at] = vec4(query_pair(row, 2 * two), query_pair(row, 2 * two + 1));
        }
    }
    barrier();
}
void score_shared(const uint keys, const uint in_block) {
    const uint TWOS = LOADS_AHEAD ? 16 : 1;  // whose keys are loaded before the first is waited for
    for (uint first = 0; first < PAIR_TWOS; first += TWOS) {
        vec4 k[TWOS];
        [[unroll]] for (uint two = 0; two < TWOS; ++two) {
            const uint pair = 2 * (first + two);
            k[two] = vec4(load_key(keys, in_block, min(pair, PAIRS - 1)), load_key(keys, in_block, min(pair + 1, PAIRS - 1)));
        }
        [[unroll]] for (uint two = 0; two < TWOS; ++two) {
            if (first + two >= PAIR_TWOS) continue;
            [[unroll]] for (uint i = 0; i < QUERIES; ++i)
                weight[i] += dot(shared_queries[(first + two) * QUERIES + i], k[two]);
        }
    }
}
void share_weights() {
    vec4 all = vec4(0.0);
    [[unroll]] for (uint i = 0; i < QUERIES; ++i) all[i] = weight[i];
    sg_share_memory(IN_STEP);  // who still reads those of the step before
    shared_weights[sg_index() * SG_SIZE + sg_lane()] = all;
    sg_share_memory(IN_STEP);
}
#endif

// weight[i] = row i . this lane's key
void score(Row rows[QUERIES], const uint keys, const uint in_block) {
    [[unroll]] for (uint i = 0; i < QUERIES; ++i) weight[i] = 0.0;
#ifdef CAN_SHARE
    if (SHARED) {
        score_shared(keys, in_block);
        return;
    }
#endif
    for (uint c = 0; c < CHUNKS; ++c) {
#ifdef NATIVE_SUBGROUP
        vec2 q_lane[QUERIES];
        [[unroll]] for (uint i = 0; i < QUERIES; ++i)
            q_lane[i] = query_pair(rows[i], c * SG_SIZE + sg_lane());
#endif
        UNROLL_LANES for (uint j = 0; j < SG_SIZE; ++j) {
            const uint pair = c * SG_SIZE + j;
            const vec2 k = load_key(keys, in_block, min(pair, PAIRS - 1));
            [[unroll]] for (uint i = 0; i < QUERIES; ++i) {
#ifdef NATIVE_SUBGROUP
                const vec2 x = vec2(sg_broadcast(q_lane[i].x, j), sg_broadcast(q_lane[i].y, j));
#else
                const vec2 x = query_pair(rows[i], pair);
#endif
                weight[i] += x.x * k.x + x.y * k.y;
            }
        }
    }
}

#endif
