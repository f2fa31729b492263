// Attention for few rows: a logical group takes QUERIES rows of one kv head and one split of the cache,
// SG_SIZE keys at a time. Scores: a lane per key, so nothing is reduced across lanes but the maximum.
// Weighted sum: a lane per pair of dims, weights broadcast. No shared memory and no barrier where subgroups
// are native.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "subgroup.glsl"
#include "attention.glsl"

const uint STEP_KEYS = SG_SIZE < KV_BLOCK_TOKENS ? SG_SIZE : KV_BLOCK_TOKENS;
// Broadcasts from constant lanes are cheap shuffles; emulation has none, and its lane loops stay loops.
#ifdef NATIVE_SUBGROUP
#define UNROLL_LANES [[unroll]]
#else
#define UNROLL_LANES SG_LOOP
#endif

const uint CHUNKS = (PAIRS + SG_SIZE - 1) / SG_SIZE;

float weight[QUERIES];         // of this lane's key
float most[QUERIES];           // m: same in all lanes
float sum[QUERIES];            // l: of this lane's keys
vec2 total[QUERIES * CHUNKS];  // o: pair c * SG_SIZE + lane

// share(), then of the group's weights max_of(i), sum_of(i), weight_of(i, lane). Emulated, all rows meet at one
// pair of barriers.
#ifdef NATIVE_SUBGROUP
void share() {}
float max_of(uint i) { return sg_max(weight[i]); }
float sum_of(uint i) { return sg_add(weight[i]); }
float weight_of(uint i, uint lane) { return sg_broadcast(weight[i], lane); }
#else
shared float shared_weights[gl_WorkGroupSize.x * QUERIES];
void share() {
    barrier();
    [[unroll]] for (uint i = 0; i < QUERIES; ++i)
        shared_weights[i * gl_WorkGroupSize.x + gl_LocalInvocationID.x] = weight[i];
    barrier();
}
float weight_of(uint i, uint lane) {
    return shared_weights[i * gl_WorkGroupSize.x + sg_index() * SG_SIZE + lane];
}
float max_of(uint i) {
    float most = weight_of(i, 0);
    SG_LOOP for (uint lane = 1; lane < SG_SIZE; ++lane) most = max(most, weight_of(i, lane));
    return most;
}
float sum_of(uint i) {
    float sum = weight_of(i, 0);
    SG_LOOP for (uint lane = 1; lane < SG_SIZE; ++lane) sum += weight_of(i, lane);
    return sum;
}
#endif

// weight[i] = row i . this lane's key
void score(Row rows[QUERIES], uint keys, uint in_block) {
    [[unroll]] for (uint i = 0; i < QUERIES; ++i) weight[i] = 0.0;
    for (uint c = 0; c < CHUNKS; ++c) {
#ifdef NATIVE_SUBGROUP
        vec2 q_lane[QUERIES];
        const uint own = c * SG_SIZE + sg_lane();
        [[unroll]] for (uint i = 0; i < QUERIES; ++i) {
            const uint word = query_word(rows[i].token, rows[i].head);
            q_lane[i] = own < PAIRS ? load_query(word, own) : vec2(0.0);
        }
#endif
        UNROLL_LANES for (uint j = 0; j < SG_SIZE; ++j) {
            const uint pair = c * SG_SIZE + j;
            const vec2 k = load_key(keys, in_block, min(pair, PAIRS - 1));
            [[unroll]] for (uint i = 0; i < QUERIES; ++i) {
#ifdef NATIVE_SUBGROUP
                const vec2 x = vec2(sg_broadcast(q_lane[i].x, j), sg_broadcast(q_lane[i].y, j));
#else
                const uint word = query_word(rows[i].token, rows[i].head);
                const vec2 x = pair < PAIRS ? load_query(word, pair) : vec2(0.0);
#endif
                weight[i] += x.x * k.x + x.y * k.y;
            }
        }
    }
}

// Scores become e^(score - m), with m, l and o brought up to date (Milakov & Gimelshein 2018, alg. 3).
void soften(Row rows[QUERIES], uint key, bool valid) {
    [[unroll]] for (uint i = 0; i < QUERIES; ++i) {
        const bool seen = valid && key - rows[i].low < rows[i].count && visible(rows[i].position, key);
        weight[i] = seen ? score_of(weight[i], rows[i].token, rows[i].head, rows[i].position, key) : MASKED;
    }
    share();
    [[unroll]] for (uint i = 0; i < QUERIES; ++i) {
        const float now = max(most[i], max_of(i));
        const float shrink = exp_safe(most[i] - now);
        most[i] = now;
        weight[i] = exp_safe(weight[i] - now);
        sum[i] = sum[i] * shrink + weight[i];
        [[unroll]] for (uint c = 0; c < CHUNKS; ++c) total[i * CHUNKS + c] *= shrink;
    }
}

// o += weights * values of the first `count` keys of the step; later ones may never have been written.
void accumulate(Row rows[QUERIES], uint values, uint key0, uint count) {
    const uint in_block = key0 % KV_BLOCK_TOKENS;
    for (uint j = 0; j < count; ++j) {
        vec2 v[CHUNKS];
        [[unroll]] for (uint c = 0; c < CHUNKS; ++c)
            v[c] = load_value(values, in_block + j, min(c * SG_SIZE + sg_lane(), PAIRS - 1));
        [[unroll]] for (uint i = 0; i < QUERIES; ++i) {
            const float w = weight_of(i, j);
            [[unroll]] for (uint c = 0; c < CHUNKS; ++c) {
                vec2 value = v[c];
                if (DISTANCE_VALUES)
                    value += distance_value(rows[i].position, key0 + j, min(c * SG_SIZE + sg_lane(), PAIRS - 1));
                total[i * CHUNKS + c] += w * value;
            }
        }
    }
}

// The rows whose tokens share a block table, over split `part` of the keys that any of them sees.
void attend(Row rows[QUERIES], uint kv_head, uint part) {
    uint table = 0, low = 0xFFFFFFFFu, end = 0, from_position = 0xFFFFFFFFu, to_position = 0;
    [[unroll]] for (uint i = 0; i < QUERIES; ++i) {
        if (rows[i].count == 0) continue;
        table = rows[i].table;
        low = min(low, rows[i].low);
        end = max(end, rows[i].low + rows[i].count);
        from_position = min(from_position, rows[i].position);
        to_position = max(to_position, rows[i].position);
    }
    const uint first = end == 0 ? 0 : low / STEP_KEYS;
    const uint steps = end == 0 ? 0 : (end + STEP_KEYS - 1) / STEP_KEYS - first;
    const uint each = (steps + push.splits - 1) / push.splits;
    const uint from = min(part * each, steps), to = min(from + each, steps);
    for (uint s = first + from; s < first + to; ++s) {
        const uint key0 = s * STEP_KEYS;
        const uint block = block_of(table, key0);
        if (block >= push.blocks || !seen_by_any(from_position, to_position, key0, STEP_KEYS)) continue;
        const uint in_block = key0 % KV_BLOCK_TOKENS;
        const bool valid = sg_lane() < STEP_KEYS;
        score(rows, kv_keys(block, kv_head, push.kv_heads, HEAD_WORDS), in_block + min(sg_lane(), STEP_KEYS - 1));
        soften(rows, key0 + sg_lane(), valid);
        share();
        accumulate(rows, kv_values(block, kv_head, push.kv_heads, HEAD_WORDS), key0, min(STEP_KEYS, end - key0));
    }
}

void write(Row rows[QUERIES], uint part) {
    [[unroll]] for (uint i = 0; i < QUERIES; ++i) weight[i] = sum[i];
    share();
    [[unroll]] for (uint i = 0; i < QUERIES; ++i) {
        const float l = sum_of(i);
        if (rows[i].count == 0) continue;
        const bool final = push.parts == 1;
        const uint to = final ? out_word(rows[i]) : partial_word(rows[i], part);
        [[unroll]] for (uint c = 0; c < CHUNKS; ++c) {
            const uint pair = c * SG_SIZE + sg_lane();
            if (pair >= PAIRS) continue;
            const vec2 o = final ? total[i * CHUNKS + c] / l : total[i * CHUNKS + c];
            result[to + 2 * pair] = o.x;
            if (has_second(pair)) result[to + 2 * pair + 1] = o.y;
        }
        if (!final && sg_lane() == 0) {
            result[to + HEAD_DIM] = most[i];
            result[to + HEAD_DIM + 1] = l;
        }
    }
}

void main() {
    // Emulated groups meet at barriers, so there a workgroup is one group and returns as one.
    const uint item = group_index() * SG_COUNT + sg_index();
    const uint tiles = (push.tokens * (push.heads / push.kv_heads) + QUERIES - 1) / QUERIES;
    const uint part = item % push.splits, tile = item / push.splits / push.kv_heads;
    const uint kv_head = item / push.splits % push.kv_heads;
    if (tile >= tiles) return;

    Row rows[QUERIES];
    [[unroll]] for (uint i = 0; i < QUERIES; ++i) {
        rows[i] = row_at(tile * QUERIES + i, kv_head);
        most[i] = start_most(rows[i], part);
        sum[i] = sg_lane() == 0 ? start_sum(part) : 0.0;
        [[unroll]] for (uint c = 0; c < CHUNKS; ++c) total[i * CHUNKS + c] = vec2(0.0);
    }
    // One pass per sequence: rows of others see nothing meanwhile.
    for (uint start = 0; start < QUERIES;) {
        uint table = 0, next = QUERIES;
        Row run[QUERIES];
        [[unroll]] for (uint i = 0; i < QUERIES; ++i) {
            if (i == start) table = rows[i].table;
            if (i > start && i < next && rows[i].count != 0 && rows[i].table != table) next = i;
        }
        [[unroll]] for (uint i = 0; i < QUERIES; ++i) {
            run[i] = rows[i];
            if (i < start || i >= next) run[i].count = 0;
        }
        attend(run, kv_head, part);
        start = next;
    }
    write(rows, part);
}
