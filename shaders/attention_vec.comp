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

#ifdef COMPACT
// What scores take at once of a key: a word, two of floats. A turn fetches those that share a scale, or a few, of one lane
// or of some.
const uint ITEM_PAIRS = KV_PER_WORD <= 2 ? 1 : KV_PER_WORD / 2;
const uint ITEMS = (PAIRS + ITEM_PAIRS - 1) / ITEM_PAIRS;
const uint TURN_ITEMS = KV_QUANTISED ? KV_GROUP / KV_PER_WORD : 4;
const uint LEAST_ITEMS = (ITEMS + SG_SIZE - 1) / SG_SIZE;  // of a lane
const uint LANE_ITEMS = LEAST_ITEMS <= 2   ? LEAST_ITEMS
                        : LEAST_ITEMS <= 4 ? 4
                                           : (LEAST_ITEMS + TURN_ITEMS - 1) / TURN_ITEMS * TURN_ITEMS;
const uint SPAN_LANES = LANE_ITEMS < TURN_ITEMS ? TURN_ITEMS / LANE_ITEMS : 1;
const uint SPANS = (ITEMS + LANE_ITEMS * SPAN_LANES - 1) / (LANE_ITEMS * SPAN_LANES);
const uint QUERY_CHUNKS = LANE_ITEMS * ITEM_PAIRS;
// i * QUERY_CHUNKS + c: pair query_pair_at(c, lane) of row i. A lane has pairs side by side, so that scores read a block of
// keys from its first word to its last.
vec2 query[QUERIES * QUERY_CHUNKS];
uint query_pair_at(const uint c, const uint lane) { return lane * QUERY_CHUNKS + c; }
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
void load_queries(Row rows[QUERIES]) {
    UNROLL_MEMORY for (uint i = 0; i < QUERIES; ++i) {
        UNROLL_MEMORY for (uint c = 0; c < QUERY_CHUNKS; ++c) {
            const uint pair = query_pair_at(c, sg_lane());
            query[i * QUERY_CHUNKS + c] = query_pair(rows[i], pair);
        }
    }
}
#endif

#if defined(NATIVE_SUBGROUP) && !defined(COMPACT)
#define CAN_SHARE
const uint PAIR_TWOS = (PAIRS + 1) / 2;
const bool SHARED = SHARES > 1;
shared vec4 shared_queries[SHARED ? PAIR_TWOS * QUERIES : 1];  // [two pairs][row]
shared vec4 shared_weights[SHARED ? gl_WorkGroupSize.x : 1];   // of a key, of all rows

// To be called by the whole workgroup.
void share_queries(Row rows[QUERIES]) {
    for (uint at = gl_LocalInvocationID.x / SG_SIZE; at < QUERIES; at += SG_COUNT) {
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
    shared_weights[gl_LocalInvocationID.x] = all;
    sg_share_memory(IN_STEP);
}
#endif

#ifdef COMPACT
#include "attention_texels.glsl"
#else
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

// What each subgroup of a workgroup found, [share][row], as a partial result.
const uint PART_WORDS = HEAD_DIM + 2;
shared float shares[SHARES > 1 ? SHARES * QUERIES * PART_WORDS : 1];
float load_share(const uint word) { return shares[word]; }
void store_part(const uint word, const float value) { parts[ATTENTION_ARRIVALS + word] = floatBitsToUint(value); }
float load_part(const uint word) { return uintBitsToFloat(parts[ATTENTION_ARRIVALS + word]); }
#include "attention_parts.glsl"
#ifdef NATIVE_SUBGROUP
const uint PARTS_AT_ONCE = AHEAD_PAYS ? 8 : 1;
#else
const uint PARTS_AT_ONCE = 1;
#endif
JOINED(of_shares, load_share, SHARES)
JOINED(of_parts, load_part, PARTS_AT_ONCE)

void write(Row rows[QUERIES], const uint part, const bool final) {
#ifdef COMPACT
    add_lanes();
#endif
    [[unroll]] for (uint i = 0; i < QUERIES; ++i) weight[i] = sum[i];
    share();
    const uint nowhere = 0xFFFFFFFFu;
    uint to[QUERIES];
    vec2 ends[QUERIES], values[QUERIES * OUTPUTS];
    [[unroll]] for (uint i = 0; i < QUERIES; ++i) {
        ends[i] = vec2(most[i], sum_of(i));
        to[i] = final ? out_word(rows[i]) : partial_word(rows[i], part);
        if (rows[i].count == 0 || sg_lane() >= KEY_LANES) to[i] = nowhere;
        [[unroll]] for (uint o = 0; o < OUTPUTS; ++o)
            values[i * OUTPUTS + o] = total[i * OUTPUTS + o] / (final ? ends[i].y : 1.0);
    }
    UNROLL_MEMORY for (uint i = 0; i < QUERIES; ++i) {
        if (to[i] == nowhere) continue;
        UNROLL_MEMORY for (uint o = 0; o < OUTPUTS; ++o) {
            const uint pair = pair_of(o);
            if (pair >= PAIRS) continue;
            const vec2 dims = values[i * OUTPUTS + o];
            if (final) {
                result[to[i] + 2 * pair] = dims.x;
                if (has_second(pair)) result[to[i] + 2 * pair + 1] = dims.y;
            } else {
                store_part(to[i] + 2 * pair, dims.x);
                if (has_second(pair)) store_part(to[i] + 2 * pair + 1, dims.y);
            }
        }
        if (!final && sg_lane() == 0) {
            store_part(to[i] + HEAD_DIM, ends[i].x);
            store_part(to[i] + HEAD_DIM + 1, ends[i].y);
        }
    }
}

// The same of a workgroup, whose subgroups meet.
void write_shares(Row rows[QUERIES], const uint part, const bool final) {
    [[unroll]] for (uint i = 0; i < QUERIES; ++i) {
        const uint at = (sg_index() * QUERIES + i) * PART_WORDS;
        const float l = sg_add(sum[i]);
        [[unroll]] for (uint o = 0; o < OUTPUTS; ++o) {
            const uint pair = pair_of(o);
            if (pair >= PAIRS) continue;
            shares[at + 2 * pair] = total[i * OUTPUTS + o].x;
            if (has_second(pair)) shares[at + 2 * pair + 1] = total[i * OUTPUTS + o].y;
        }
        if (sg_lane() == 0) {
            shares[at + HEAD_DIM] = most[i];
            shares[at + HEAD_DIM + 1] = l;
        }
    }
    barrier();
    const uint between = QUERIES * PART_WORDS;
    for (uint at = gl_LocalInvocationID.x; at < QUERIES * HEAD_DIM; at += gl_WorkGroupSize.x) {
        const uint dim = at % HEAD_DIM, first = at / HEAD_DIM * PART_WORDS;
        const Row row = row_of(rows, at / HEAD_DIM);
        if (row.count == 0) continue;
        const vec3 joined = joined_of_shares(first, between, SHARES, HEAD_DIM, dim);
        if (final) {
            result[out_word(row) + dim] = joined.x / joined.y;
            continue;
        }
        const uint to = partial_word(row, part);
        store_part(to + dim, joined.x);
        if (dim != 0) continue;
        store_part(to + HEAD_DIM, joined.z);
        store_part(to + HEAD_DIM + 1, joined.y);
    }
}

// Whether all parts of a tile and kv head are written, this group's the last: each lane arrives when it has written its
// share, so that no barrier is needed, which would make a coroutine of the kernel on CPU drivers. Nobody waits for
// another. For devices with the Vulkan memory model alone: they order a coherent buffer's words by barrier and atomic as
// it says, in modules that do not declare it, too (its mapping of GLSL's model).
bool arrives_last(const uint arrival, const uint splits) {
    memoryBarrierBuffer();
    const bool last = sg_max(atomicAdd(parts[arrival], 1)) + 1 == splits * SG_SIZE;
    memoryBarrierBuffer();
    if (last && sg_lane() == 0) parts[arrival] = 0;
    return last;
}

// The same of workgroups.
shared uint arrived;
bool group_arrives_last(const uint arrival, const uint splits) {
    memoryBarrierBuffer();
    barrier();
    if (gl_LocalInvocationID.x == 0) {
        memoryBarrierBuffer();
        arrived = atomicAdd(parts[arrival], 1) + 1;
        memoryBarrierBuffer();
        if (arrived == splits) parts[arrival] = 0;
    }
    barrier();
    memoryBarrierBuffer();
    return arrived == splits;
}

void join(Row rows[QUERIES], const uint splits) {
    const uint lanes = SHARES * SG_SIZE, lane = SHARES > 1 ? gl_LocalInvocationID.x : sg_lane();
    [[dont_unroll]] for (uint at = lane; at < QUERIES * HEAD_DIM; at += lanes) {
        const Row row = row_of(rows, at / HEAD_DIM);
        if (row.count == 0) continue;
        const uint first = partial_word(row, 0), between = partial_word(row, 1) - first;
        const vec3 joined = joined_of_parts(first, between, splits, HEAD_DIM, at % HEAD_DIM);
        result[out_word(row) + at % HEAD_DIM] = joined.x / joined.y;
    }
}

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
