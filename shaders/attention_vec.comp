// Attention for few rows: a logical group takes QUERIES rows of one kv head and one split of the cache,
// SG_SIZE keys at a time. Scores: a lane per key, so nothing is reduced across lanes but the maximum.
// Weighted sum: a lane per pair of dims, weights broadcast. No shared memory and no barrier where subgroups
// are native, unless SHARES of them, a workgroup, share out the keys of a split: GPUs hide the latency of loads by many,
// and a workgroup sums what they found. Queries and weights go through shared memory then, where a load of four takes the
// place of as many broadcasts.
//
// -DCOMPACT is for CPU drivers, where a load from a storage buffer is a checked branch for every lane, while a texel of
// four words is fetched without one: a lane takes four keys, whose words are a texel, and four words of a value
// (attention_texels.glsl).
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_memory_scope_semantics : require
#include "subgroup.glsl"
#include "attention.glsl"

// Arrivals, then partial results of the parts that a row's keys are split into.
layout(binding = 7) coherent buffer Parts { uint parts[]; };

layout(constant_id = ATTENTION_SHARES) const uint SHARES = 1;
layout(constant_id = ATTENTION_IN_STEP) const bool IN_STEP = false;
layout(constant_id = ATTENTION_AHEAD) const bool HAS_REGISTERS = false;
// GPUs load much before they wait; narrow subgroups are CPU drivers', which take minutes to compile that of larger heads.
const bool AHEAD_PAYS = SG_SIZE >= 32 || HEAD_DIM <= 16;
const bool LOADS_AHEAD = SHARES > 1 && AHEAD_PAYS;
// Values, too, that are a word a pair; scales beside them take scalars that AMD's have not.
const bool HOLDS_VALUES = PAIR_HAS_SECOND ? false : HAS_REGISTERS;

#ifdef COMPACT
layout(binding = 8) uniform usamplerBuffer kv_texels;  // kv by fours
const uint LANE_KEYS = 4;
const uint LANE_PAIRS = 2 * KV_PER_WORD;  // of dims
const uint STEP_KEYS = KV_BLOCK_TOKENS;   // eight lanes: Caps::texel_words
#else
const uint LANE_KEYS = 1;
const uint LANE_PAIRS = 1;
const uint STEP_KEYS = SG_SIZE < KV_BLOCK_TOKENS ? SG_SIZE : KV_BLOCK_TOKENS;
#endif
// Broadcasts from constant lanes are cheap shuffles; emulation has none, and its lane loops stay loops.
#ifdef NATIVE_SUBGROUP
#define UNROLL_LANES [[unroll]]
#else
#define UNROLL_LANES SG_LOOP
#endif
// CPU drivers compile each access of a storage buffer into a branch for every lane.
#ifdef COMPACT
#define UNROLL_MEMORY [[dont_unroll]]
#else
#define UNROLL_MEMORY [[unroll]]
#endif

const uint UNITS = (PAIRS + LANE_PAIRS - 1) / LANE_PAIRS;
const uint CHUNKS = (UNITS + SG_SIZE - 1) / SG_SIZE;
#ifdef COMPACT
// Keys that are the values too lie by fours as in scores, values by fours of words.
const uint LAST_DIMS = HEAD_DIM % (2 * LANE_PAIRS);
const bool SCALED_DISTANCES = KV_QUANTISED && DISTANCE_VALUES;
const bool ROWS_OF_TEXELS = KV_PLANES == 2 && LAST_DIMS == 0 && !SCALED_DISTANCES;
const bool VALUES_BY_TEXELS = KV_PLANES == 1 ? !PAIR_HAS_SECOND : ROWS_OF_TEXELS;
// Lanes that share out a value; where they are few, the others take other keys.
const uint ODD_LANES = SG_SIZE % UNITS;
const uint KEY_LANES = ROWS_OF_TEXELS && UNITS < SG_SIZE && ODD_LANES == 0 ? UNITS : SG_SIZE;
uint dims_lane() { return sg_lane() % KEY_LANES; }
#else
const uint KEY_LANES = SG_SIZE;
uint dims_lane() { return sg_lane(); }
#endif

const uint OUTPUTS = CHUNKS * LANE_PAIRS;  // of a lane, pairs
// Keys whose values are loaded before the first is waited for: a part of a step, of 32 words or 16 pairs.
const uint BATCH_OUTPUTS = HOLDS_VALUES ? 32 : 16;
const uint MOST_BATCH = OUTPUTS == 1   ? BATCH_OUTPUTS
                        : OUTPUTS == 2 ? BATCH_OUTPUTS / 2
                        : OUTPUTS <= 4 ? BATCH_OUTPUTS / 4
                        : OUTPUTS <= 8 ? BATCH_OUTPUTS / 8
                                       : BATCH_OUTPUTS / 16;
const uint STEP_BATCH = MOST_BATCH < STEP_KEYS ? MOST_BATCH : STEP_KEYS;
const uint BATCH = LOADS_AHEAD ? STEP_BATCH : 1;

float weight[QUERIES * LANE_KEYS];  // of this lane's keys
float most[QUERIES];                // m: same in all lanes
float sum[QUERIES];                 // l: of this lane's keys
vec2 total[QUERIES * OUTPUTS];      // o: pairs pair_of(0) ..

uint pair_of(const uint output_pair) {
    return (output_pair / LANE_PAIRS * SG_SIZE + dims_lane()) * LANE_PAIRS + output_pair % LANE_PAIRS;
}

// share(), then of the weights max_of(i), sum_of(i), weight_of(i, key of the step). Emulated, all rows meet at one
// pair of barriers.
#ifdef NATIVE_SUBGROUP
void share() {}
float max_of(const uint i) {
    float most = weight[i * LANE_KEYS];
    [[unroll]] for (uint k = 1; k < LANE_KEYS; ++k) most = max(most, weight[i * LANE_KEYS + k]);
    return sg_max(most);
}
float sum_of(const uint i) { return sg_add(sum[i]); }
float weight_of(const uint i, const uint key) {
    float of_lane = weight[i * LANE_KEYS];
    [[unroll]] for (uint k = 1; k < LANE_KEYS; ++k)
        if (key % LANE_KEYS == k) of_lane = weight[i * LANE_KEYS + k];
    return sg_broadcast(of_lane, key / LANE_KEYS);
}
#else
shared float shared_weights[gl_WorkGroupSize.x * QUERIES];
void share() {
    barrier();
    [[unroll]] for (uint i = 0; i < QUERIES; ++i)
        shared_weights[i * gl_WorkGroupSize.x + gl_LocalInvocationID.x] = weight[i];
    barrier();
}
float weight_of(const uint i, const uint lane) {
    return shared_weights[i * gl_WorkGroupSize.x + sg_index() * SG_SIZE + lane];
}
float max_of(const uint i) {
    float most = weight_of(i, 0);
    SG_LOOP for (uint lane = 1; lane < SG_SIZE; ++lane) most = max(most, weight_of(i, lane));
    return most;
}
float sum_of(const uint i) {
    float sum = weight_of(i, 0);
    SG_LOOP for (uint lane = 1; lane < SG_SIZE; ++lane) sum += weight_of(i, lane);
    return sum;
}
#endif

// What was loaded of a row, which no load of it again has to be waited for.
Row row_of(Row rows[QUERIES], const uint at) {
    Row row = rows[0];
    [[unroll]] for (uint i = 1; i < QUERIES; ++i)
        if (i == at) row = rows[i];
    return row;
}

// Of a row's query; 0 behind the last pair.
vec2 query_pair(const Row row, const uint pair) {
    return pair < PAIRS ? load_query(query_word(row.token, row.head), pair) : vec2(0.0);
}

#ifdef COMPACT
#include "attention_texels.glsl"
#else
#include "attention_words.glsl"
#endif

// Of a step's values: those of BATCH keys from the `first` on. Keys past `count` may never have been written; they have the
// weight 0, and the last one's value stands in for theirs.
uvec2 value_words[BATCH * OUTPUTS];
void load_values(const uint values, const uint key0, const uint first, const uint count) {
#ifdef COMPACT
    if (VALUES_BY_TEXELS) return;
#endif
    [[unroll]] for (uint j = 0; j < BATCH; ++j) {
        const KvRow row = kv_value_row(values, key0 % KV_BLOCK_TOKENS + min(first + j, count - 1), HEAD_DIM);
        [[unroll]] for (uint o = 0; o < OUTPUTS; ++o) value_words[j * OUTPUTS + o] = load_words(row, min(pair_of(o), PAIRS - 1));
    }
}

// o += weights * values of the first `count` keys of the step, of which the first may be held.
void accumulate(Row rows[QUERIES], const uint values, const uint key0, const uint count) {
#ifdef COMPACT
    if (VALUES_BY_TEXELS) {
        accumulate_texels(rows, values, key0, count);
        return;
    }
#endif
#ifdef CAN_SHARE
    if (SHARED) share_weights();
#endif
    for (uint first = 0; first < count; first += BATCH) {
        if (first != 0 || !HOLDS_VALUES) load_values(values, key0, first, count);
        [[unroll]] for (uint j = 0; j < BATCH; ++j) {
#ifdef CAN_SHARE
            const vec4 shared_weight = shared_weights[SHARED ? sg_index() * SG_SIZE + first + j : 0];
#endif
            [[unroll]] for (uint i = 0; i < QUERIES; ++i) {
#ifdef CAN_SHARE
                const float w = SHARED ? shared_weight[i] : weight_of(i, first + j);
#else
                const float w = weight_of(i, first + j);
#endif
                [[unroll]] for (uint o = 0; o < OUTPUTS; ++o) {
                    const uint pair = min(pair_of(o), PAIRS - 1);
                    vec2 value = pair_of_words(value_words[j * OUTPUTS + o], pair);
                    if (DISTANCE_VALUES) value += distance_value(rows[i].position, key0 + first + j, pair);
                    total[i * OUTPUTS + o] += w * value;
                }
            }
        }
    }
}

// Scores become e^(score - m), with m, l and o brought up to date (Milakov & Gimelshein 2018, alg. 3).
void soften(Row rows[QUERIES], const uint key0) {
    [[unroll]] for (uint k = 0; k < LANE_KEYS; ++k) {
        const uint in_step = LANE_KEYS * sg_lane() + k, key = key0 + in_step;
        [[unroll]] for (uint i = 0; i < QUERIES; ++i) {
            const uint w = i * LANE_KEYS + k;
            const bool seen = in_step < STEP_KEYS && key - rows[i].low < rows[i].count && visible(rows[i].position, key);
            weight[w] = seen ? score_of(weight[w], rows[i].token, rows[i].head, rows[i].position, key) : MASKED;
        }
    }
    share();
    [[unroll]] for (uint i = 0; i < QUERIES; ++i) {
        const float now = max(most[i], max_of(i));
        const float shrink = exp_safe(most[i] - now);
        most[i] = now;
        sum[i] *= shrink;
        [[unroll]] for (uint k = 0; k < LANE_KEYS; ++k) {
            const uint w = i * LANE_KEYS + k;
            weight[w] = exp_safe(weight[w] - now);
            sum[i] += weight[w];
        }
        [[unroll]] for (uint o = 0; o < OUTPUTS; ++o) total[i * OUTPUTS + o] *= shrink;
    }
}

// The rows whose tokens share a block table, over one of `splits` parts of the keys that any of them sees.
void attend(Row rows[QUERIES], const uint kv_head, const uint part, const uint splits) {
#ifdef COMPACT
    load_queries(rows);
#endif
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
    const uint each = (steps + splits - 1) / splits;
    const uint from = min(part * each, steps), to = min(from + each, steps);
    uint next = LOADS_AHEAD ? block_of(table, (first + from) * STEP_KEYS) : 0;
    for (uint s = first + from; s < first + to; ++s) {
        const uint key0 = s * STEP_KEYS, count = min(STEP_KEYS, end - key0);
        const uint block = LOADS_AHEAD ? next : block_of(table, key0);
        if (LOADS_AHEAD) next = block_of(table, key0 + STEP_KEYS);
        if (block >= push.blocks || !seen_by_any(from_position, to_position, key0, STEP_KEYS)) continue;
        const uint keys = kv_keys(block, kv_head, push.kv_heads, HEAD_WORDS);
        const uint values = kv_values(block, kv_head, push.kv_heads, HEAD_WORDS);
        if (HOLDS_VALUES) load_values(values, key0, 0, count);  // are on their way while scores are computed
#ifdef COMPACT
        score(keys);
#else
        score(rows, keys, key0 % KV_BLOCK_TOKENS + min(sg_lane(), STEP_KEYS - 1));
#endif
        soften(rows, key0);
        share();
        accumulate(rows, values, key0, count);
    }
}

#include "attention_ends.glsl"

void main() {
    // Emulated groups meet at barriers, so there a workgroup is one group and returns as one.
    const uint item = SHARES > 1 ? group_index() : group_index() * SG_COUNT + sg_index();
    const uint tiles = (push.tokens * (push.heads / push.kv_heads) + QUERIES - 1) / QUERIES;
    // First parts first: short caches have no others, and what computes then spreads over the device.
    const uint part = item / (tiles * push.kv_heads), of_part = item % (tiles * push.kv_heads);
    const uint tile = of_part / push.kv_heads, kv_head = of_part % push.kv_heads;
    const uint share = part * SHARES + (SHARES > 1 ? sg_index() : 0);
    if (part >= push.splits) return;

    Row rows[QUERIES];
    uint most_keys = 0;
    [[unroll]] for (uint i = 0; i < QUERIES; ++i) {
        rows[i] = row_at(tile * QUERIES + i, kv_head);
        most_keys = max(most_keys, rows[i].count);
        most[i] = start_most(rows[i], share);
        sum[i] = sg_lane() == 0 ? start_sum(share) : 0.0;
        [[unroll]] for (uint o = 0; o < OUTPUTS; ++o) total[i * OUTPUTS + o] = vec2(0.0);
    }
    const bool joins = push.part_keys != 0;
    const uint splits = joins ? clamp(most_keys / (push.part_keys * SHARES), 1, push.splits) : push.splits;
    if (part >= splits) return;
#ifdef CAN_SHARE
    if (SHARED) share_queries(rows);
#endif
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
        attend(run, kv_head, share, splits * SHARES);
        start = next;
    }
    const bool final = push.parts == 1 || (joins && splits == 1);
    if (SHARES > 1) {
        write_shares(rows, part, final);
        if (!final && joins && group_arrives_last(of_part, splits)) join(rows, splits);
        return;
    }
    write(rows, part, final);
    if (!final && joins && arrives_last(of_part, splits)) join(rows, splits);
}
