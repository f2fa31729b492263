// Where attention for few rows ends (attention_vec.comp): what a group found goes to the output, or beside that of the other
// parts of its keys, which the last to arrive joins.
#ifndef SCORIA_ATTENTION_ENDS_GLSL
#define SCORIA_ATTENTION_ENDS_GLSL

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

// Where lanes meet (gl_Scope...), and each then sees of parts what any of them wrote or saw: barriers of GLSL's own say so
// of shared memory alone.
#define MEET_AT_PARTS(lanes)                                                                             \
    controlBarrier(lanes, gl_ScopeDevice, gl_StorageSemanticsBuffer | gl_StorageSemanticsShared, gl_SemanticsAcquireRelease)
void meet_of_group() {
#ifdef NATIVE_SUBGROUP
    if (!IN_STEP) MEET_AT_PARTS(gl_ScopeSubgroup);  // see sg_share_memory()
#else
    MEET_AT_PARTS(gl_ScopeWorkgroup);
#endif
}

// Whether all parts of a tile and kv head are written, this group's the last: each lane arrives when it has written its
// share, so that the lanes need not meet before, which would make a coroutine of the kernel on CPU drivers. Nobody waits
// for another. Whichever lane arrives last has seen what those of other groups wrote, and lets its own group's know. For
// devices with the Vulkan memory model alone: they order a coherent buffer's words by barrier and atomic as it says, in
// modules that do not declare it, too (its mapping of GLSL's model).
bool arrives_last(const uint arrival, const uint splits) {
    memoryBarrierBuffer();
    const uint before = atomicAdd(parts[arrival], 1);
    memoryBarrierBuffer();
    const bool last = sg_max(before) + 1 == splits * SG_SIZE;
    if (last) meet_of_group();
    if (last && sg_lane() == 0) parts[arrival] = 0;
    return last;
}

// The same of workgroups.
shared uint arrived;
bool group_arrives_last(const uint arrival, const uint splits) {
    MEET_AT_PARTS(gl_ScopeWorkgroup);
    if (gl_LocalInvocationID.x == 0) {
        memoryBarrierBuffer();
        arrived = atomicAdd(parts[arrival], 1) + 1;
        memoryBarrierBuffer();
        if (arrived == splits) parts[arrival] = 0;
    }
    MEET_AT_PARTS(gl_ScopeWorkgroup);
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

#endif
