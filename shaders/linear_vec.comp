// out = W x: W [rows, cols] in any weight type, x [tokens, cols] and out [tokens, rows] float.
//
// A lane computes PAIRS pairs of neighbouring rows for TOKENS tokens; the lanes of a subgroup hold
// neighbouring pairs, and subgroups are independent, or PARTS of them share out the columns where rows
// are few. Lanes lie across rows, so that a weight is loaded and unpacked once for all tokens, nothing
// is reduced across lanes, and x is the same in the whole subgroup: with native subgroups each lane
// loads one of the columns that share a scale and broadcasts it, and their sum is one across lanes; without, every lane
// loads all. What a cell needs is loaded without a branch between, so that compilers put the loads of all before the
// first is waited for. No barrier if PARTS is 1 and weights need no table (start_weights).
//
// -DWEIGHT_INTS multiplies integers: x comes as bytes from linear_pack_int.comp, four columns a word.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#ifdef WEIGHT_INTS
#extension GL_EXT_integer_dot_product : require
#endif
#include "subgroup.glsl"
#include "grid.glsl"
#define ROW_PLACES
#if defined(NATIVE_SUBGROUP) && !defined(WEIGHT_INTS)
layout(constant_id = 62) const bool CONVERTS_BYTES = false;  // vk::constant_converts_bytes
#define CODE_BYTES CONVERTS_BYTES
#define X_LANES
#define STARTS_WEIGHTS
#define HEADS
#endif
#include "linear.glsl"

#ifdef NATIVE_SUBGROUP
#define UNROLL_CHUNKS [[unroll]]
#else
#define UNROLL_CHUNKS [[dont_unroll]]
#endif
#include "linear_rows.glsl"

layout(constant_id = LINEAR_PARTS) const uint PARTS = 1;

const uint STEP = WEIGHT_HALVES ? 2 : 1;  // two chunks share words there

// Columns that a subgroup loads at once, each by as many lanes as there are more.
#ifdef X_LANES
const uint X_COLS = SG_SIZE < 8 * SPAN ? SG_SIZE : 8 * SPAN;
const uint X_LOADS = 8 * SPAN / X_COLS;

float x_lanes[TOKENS * X_LOADS];  // of a span, [token][load]

void load_x_lanes(const uint token0, const uint first) {
    [[unroll]] for (uint i = 0; i < X_LOADS; ++i) {
        const uint k = first + i * X_COLS + sg_lane() % X_COLS;
        [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
            x_lanes[t * X_LOADS + i] = load_x(lane_x_word(token0, t), k);
        }
        if (TOKENS == 1) {
            const float value = x_lanes[i], weight = residual[min(k, linear_norm() ? push.cols - 1 : 0)];
            squares = fma(value, value, squares);
            x_lanes[i] = linear_norm() ? value * weight : value;
        }
    }
}
float x_lanes_sum(const uint t) {
    float sum = x_lanes[t * X_LOADS];
    [[unroll]] for (uint i = 1; i < X_LOADS; ++i) sum += x_lanes[t * X_LOADS + i];
    return sg_add(sum) * (float(X_COLS) / float(SG_SIZE));
}
vec4 x_of_lanes(const uint t, const uint first) {
    const float from = x_lanes[t * X_LOADS + first / X_COLS];
    const uint lane = first % X_COLS;
    return vec4(sg_broadcast(from, lane), sg_broadcast(from, lane + 1), sg_broadcast(from, lane + 2),
                sg_broadcast(from, lane + 3));
}
#else
const uint X_COLS = SG_SIZE < 8 ? SG_SIZE : 8;
#endif

#ifndef X_LANES
// x of the chunk that starts at column k, of row `row`, or of the one that begins with that word. Written without loops:
// SwiftShader unrolls none, and an array or a vector that a loop indexes lives in memory there, which is several times slower.
void load_chunk(const uint row, const uint k, out CODES lo, out CODES hi) {
#ifdef WEIGHT_INTS
    const uint first = (row * ((push.cols + WEIGHT_BLOCK - 1) / WEIGHT_BLOCK) * WEIGHT_BLOCK + k) / 4;
    lo = x_words[first];
    hi = x_words[first + 1];
#else
    lo = vec4(load_x(row, k), load_x(row, k + 1), load_x(row, k + 2), load_x(row, k + 3));
    hi = vec4(load_x(row, k + 4), load_x(row, k + 5), load_x(row, k + 6), load_x(row, k + 7));
    if (linear_norm()) {
        lo = vec4(normed(lo.x, k), normed(lo.y, k + 1), normed(lo.z, k + 2), normed(lo.w, k + 3));
        hi = vec4(normed(hi.x, k + 4), normed(hi.y, k + 5), normed(hi.z, k + 6), normed(hi.w, k + 7));
    }
#endif
}
#endif

shared float part_sums[PARTS > 1 ? gl_WorkGroupSize.x * SUMS : 1];

// The sums of all parts of a workgroup, in those of part 0.
void join_parts(inout float sums[SUMS]) {
    const uint lane = sg_index() * SG_SIZE + sg_lane();
    [[unroll]] for (uint i = 0; i < SUMS; ++i) part_sums[i * gl_WorkGroupSize.x + lane] = sums[i];
    barrier();
    for (uint part = 1; part < PARTS; ++part) {
        if (sg_index() % PARTS != 0) return;
        const uint other = (sg_index() + part) * SG_SIZE + sg_lane();
        [[unroll]] for (uint i = 0; i < SUMS; ++i) sums[i] += part_sums[i * gl_WorkGroupSize.x + other];
    }
}

#ifdef WEIGHT_INTS
float norm_scale() { return 1.0; }
#else
shared float part_squares[PARTS > 1 ? SG_COUNT : 1];

// What sums are multiplied by where x is normalised.
float norm_scale() {
    float sum = squares;
#ifdef NATIVE_SUBGROUP
    sum = sg_add(sum) / float(SG_SIZE / X_COLS);  // each column was loaded by so many
#endif
    if (PARTS > 1) {
        if (sg_lane() == 0) part_squares[sg_index()] = sum;
        barrier();
        sum = 0.0;
        for (uint part = 0; part < PARTS; ++part) sum += part_squares[sg_index() / PARTS * PARTS + part];
    }
    return 1.0 / sqrt(sum / float(push.cols) + push.epsilon);
}
#endif

// Pair p of a lane's, of those of subgroup `unit`, and what the functions of weights call its row r.
uint pair_of(const uint unit, const uint p) { return (unit * PAIRS + p) * SG_SIZE + sg_lane(); }
Slot slot_of(Slot pairs[PAIRS], const uint r) { return r % 2 == 0 ? pairs[r / 2] : odd_slot(pairs[r / 2]); }

// Adds a chunk of a cell, of rows [pair][even, odd], times x to the sums, and x to its own.
void add_chunk(inout SUM sums[SUMS], inout float x_sums[TOKENS], Slot slots[PAIRS], uvec4 words[ROWS], const uint token0,
               const uint cell, const uint chunk) {
    CODES lo[ROWS], hi[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        const ChunkWords own = weight_chunk(cell, slot_of(slots, r), chunk);
        weight_codes(cell, slot_of(slots, r), chunk, words[r], own, lo[r], hi[r]);
    }
    [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
        CODES x_lo, x_hi;
#ifdef X_LANES
        x_lo = x_of_lanes(t, 8 * (chunk % SPAN));
        x_hi = x_of_lanes(t, 8 * (chunk % SPAN) + 4);
#else
#ifdef WEIGHT_INTS
        const uint row = lane_x_row(token0, t);
#else
        const uint row = lane_x_word(token0, t);
#endif
        load_chunk(row, WEIGHT_BLOCK * cell + 8 * chunk, x_lo, x_hi);
#endif
#if !defined(X_LANES) && !defined(WEIGHT_INTS)
        if (WEIGHT_SHIFTED) x_sums[t] = add_products(vec4(1.0), x_hi, add_products(vec4(1.0), x_lo, x_sums[t]));
#endif
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            const uint i = r * TOKENS + t;
            sums[i] = add_products(hi[r], x_hi, add_products(lo[r], x_lo, sums[i]));
        }
    }
}

// Adds SPAN chunks of a cell, from `first` on.
void add_span(inout float sums[SUMS], Slot slots[PAIRS], Unit units[ROWS], uvec4 words[ROWS], const uint token0,
              const uint cell, const uint first) {
    SUM span_sums[SUMS];
    float x_sums[TOKENS];
    [[unroll]] for (uint i = 0; i < SUMS; ++i) span_sums[i] = SUM(0);
    [[unroll]] for (uint t = 0; t < TOKENS; ++t) x_sums[t] = 0.0;
#ifdef X_LANES
    load_x_lanes(token0, WEIGHT_BLOCK * cell + 8 * first);
    if (WEIGHT_SHIFTED) [[unroll]] for (uint t = 0; t < TOKENS; ++t) x_sums[t] = x_lanes_sum(t);
#endif
    UNROLL_CHUNKS for (uint c = 0; c < SPAN; c += STEP) {
        [[unroll]] for (uint i = 0; i < STEP; ++i) {
            add_chunk(span_sums, x_sums, slots, words, token0, cell, first + c + i);
        }
    }
#ifdef WEIGHT_INTS
    const uint blocks = (push.cols + WEIGHT_BLOCK - 1) / WEIGHT_BLOCK;
    float steps[TOKENS];
    [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
        const uint side = x_side(lane_x_row(token0, t), cell, blocks);
        steps[t] = x[side];
        x_sums[t] = steps[t] * float(bytes_sum(x_words[side + 1], first / 2));
    }
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        // Not from `units`: compilers load it once anyway, and Turing's needs fewer registers so (Q4_K).
        const Affine affine = weight_affine(cell, slot_of(slots, r), first);
        const vec2 line = weight_line(affine, true);
        [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
            const uint i = r * TOKENS + t;
            sums[i] = fma(line.x * steps[t], float(span_sums[i]), sums[i]);
            if (WEIGHT_SHIFTED) sums[i] = fma(line.y, x_sums[t], sums[i]);
        }
    }
#else
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        const Affine affine = weight_affine(cell, first, units[r], words[r]);
        const vec2 line = weight_line(affine, CODE_BYTES);
        [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
            const uint i = r * TOKENS + t;
            sums[i] = WEIGHT_PLAIN ? sums[i] + span_sums[i] : fma(line.x, span_sums[i], sums[i]);
            if (WEIGHT_SHIFTED) sums[i] = fma(line.y, x_sums[t], sums[i]);
        }
    }
#endif
}

void main() {
#ifdef STARTS_WEIGHTS
    start_weights();
#endif
    const Lane lane = lane_of(PARTS);
    if (lane.idle) return;
    Slot slots[PAIRS];  // pairs past the end compute some of the last group and store nothing
    [[unroll]] for (uint p = 0; p < PAIRS; ++p) {
        const uint pair = lane.weight_pair + pair_of(lane.unit, p), group = min(pair, lane.weight_pairs - 1) / WEIGHT_GROUP_PAIRS;
        slots[p] = first_slot(group * push.group_words, group * (lane.blocks / WEIGHT_UNIT_CELLS), pair % WEIGHT_GROUP_PAIRS);
    }
#ifdef HEADS
    // Where one pair goes is asked for first, that nobody waits for it at the end; of more it would take registers.
    const bool EARLY = PAIRS * TOKENS == 1;
    HeadPair early;
    if (HEADS_END && EARLY) early = head_pair(lane.token0, pair_of(lane.unit, 0));
#endif
    float sums[SUMS];
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        const uint row = 2 * pair_of(lane.unit, r / 2) + r % 2;
        const float start = load_bias(linear_norm() || (PARTS > 1 && sg_index() % PARTS != 0) ? push.rows : row);
        [[unroll]] for (uint t = 0; t < TOKENS; ++t) sums[r * TOKENS + t] = start;
    }

    for (uint cell = sg_index() % PARTS; cell < lane.blocks; cell += PARTS) {
        Unit units[ROWS];
        uvec4 words[ROWS];
        [[unroll]] for (uint r = 0; r < ROWS; ++r) units[r] = weight_unit(cell, slot_of(slots, r));
        [[unroll]] for (uint r = 0; r < ROWS; ++r) words[r] = weight_cell(cell, slot_of(slots, r));
        UNROLL_CHUNKS for (uint chunk = 0; chunk < 4; chunk += SPAN) {
            add_span(sums, slots, units, words, lane.token0, cell, chunk);
        }
    }

    const float scale = linear_norm() ? norm_scale() : 1.0;
    if (PARTS > 1) {
        join_parts(sums);
        if (sg_index() % PARTS != 0) return;
    }
    if (linear_norm())
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            sums[r * TOKENS] = fma(sums[r * TOKENS], scale, load_bias(2 * pair_of(lane.unit, r / 2) + r % 2));
        }
    [[unroll]] for (uint p = 0; p < PAIRS; ++p) {
        const uint pair = pair_of(lane.unit, p);
        [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
            const uint i = 2 * p * TOKENS + t;
            const bool store = has_pair(lane, pair) && has_token(lane.token0 + t);
#ifdef HEADS
            if (HEADS_END) {
                const HeadPair to = EARLY ? early : head_pair(lane.token0 + t, pair);
                write_head_pair(lane.token0 + t, pair, finished(vec2(sums[i], sums[i + TOKENS])), to, store);
                continue;
            }
#endif
            store_pair(lane.token0 + t, pair, vec2(sums[i], sums[i + TOKENS]), store);
        }
    }
}
