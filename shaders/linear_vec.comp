// out = W x: W [rows, cols] in any weight type, x [tokens, cols] and out [tokens, rows] float.
//
// A lane computes PAIRS pairs of neighbouring rows for TOKENS tokens; the lanes of a subgroup hold
// neighbouring pairs, and subgroups are independent, or PARTS of them share out the columns where rows
// are few. Lanes lie across rows, so that a weight is loaded and unpacked once for all tokens, nothing
// is reduced across lanes, and x is the same in the whole subgroup: with native subgroups each lane
// loads one of the columns that share a scale and broadcasts it, and their sum is one across lanes; without, every lane
// loads all. What a cell needs is loaded without a branch between, so that compilers put the loads of all before the
// first is waited for. No barrier if PARTS is 1.
//
// -DCOMPACT is for CPU drivers: the loops over results, and over chunks but for one token of some types, stay loops, which
// there run as fast and compile two to five times as fast, and a cold start waits for that; GPUs would spill the results
// indexed.
// A load there is a checked branch for every lane, as dear as ten multiply-adds, so that what cells and units
// share is loaded once for each, words of two rows by eight bytes; x by chunks, or the 32 columns by fours where lanes
// are eight. It has no PARTS.
//
// -DTEXELS beside it: a lane has four pairs of rows, whose words are fetched as a texel, by one call for all lanes, and so
// are four columns of x, and of the norm's weights.
// -DGRID beside it is for types of codebooks: their points lie in a uniform buffer, since a load from one is a gather there.
//
// -DWEIGHT_INTS multiplies integers: x comes as bytes from linear_pack_int.comp, four columns a word.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#ifdef WEIGHT_INTS
#extension GL_EXT_integer_dot_product : require
#elif defined(NATIVE_SUBGROUP) && !defined(COMPACT)
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define HALF_PAIRS
#endif
#if defined(COMPACT) && !defined(TEXELS)
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#endif
#ifdef GRID
#extension GL_EXT_scalar_block_layout : require
#endif
#include "subgroup.glsl"
#include "grid.glsl"
#ifndef COMPACT
#define ROW_PLACES
#if defined(NATIVE_SUBGROUP) && !defined(WEIGHT_INTS)
layout(constant_id = 62) const bool CONVERTS_BYTES = false;  // vk::constant_converts_bytes
#define CODE_BYTES CONVERTS_BYTES
#define X_LANES
#define HEADS
#endif
#endif
#ifdef COMPACT
#include "linear.push.h"
layout(constant_id = LINEAR_OLD_LAVAPIPE) const uint OLD_LAVAPIPE = 0;  // Caps::old_lavapipe()
// Where results of fetches are waited for, what an instruction converts is there too soon (tools/bench/RESULTS.md).
#define SCALES_BY_HAND (OLD_LAVAPIPE != 0 && WEIGHT_TYPE == WEIGHT_Q8_0)
#endif
#include "linear.glsl"

#ifdef COMPACT
#define UNROLL_ON_GPU [[dont_unroll]]
#else
#define UNROLL_ON_GPU [[unroll]]
#endif
#if defined(COMPACT) || !defined(NATIVE_SUBGROUP)
#define UNROLL_CHUNKS [[dont_unroll]]
#else
#define UNROLL_CHUNKS [[unroll]]
#endif

layout(constant_id = LINEAR_TOKENS) const uint TOKENS = 1;
layout(constant_id = LINEAR_PAIRS) const uint PAIRS = 1;
layout(constant_id = LINEAR_PARTS) const uint PARTS = 1;

const uint ROWS = 2 * PAIRS;           // [pair][even, odd]
const uint SUMS = ROWS * TOKENS;       // [pair][even, odd][token]

// Chunks of 8 columns that share a scale.
const uint SPAN = WEIGHT_HALVES ? 2 : 4;
#ifdef COMPACT
const uint STEP = 1;
#else
const uint STEP = WEIGHT_HALVES ? 2 : 1;  // two chunks share words there
#endif

#ifdef WEIGHT_INTS
bool linear_norm() { return false; }
float norm_scale() { return 1.0; }
#else
// Of x, for its norm: of the columns that this lane loaded, which others may have loaded too.
float squares;
// Of one token alone: sums for more cost Intel's compilers spills.
bool linear_norm() { return TOKENS == 1 && (push.flags & LINEAR_NORM) != 0; }
// Column k as it is multiplied.
float normed(const float value, const uint k) {
    if (!linear_norm()) return value;
    squares += value * value;
    return value * residual[min(k, push.cols - 1)];
}
#endif

#ifdef COMPACT
layout(constant_id = LINEAR_X_QUADS) const uint X_QUADS = 0;
// Fetches spill whatever there is; loaded, x of more tokens would take too many registers.
#ifdef TEXELS
const bool X_BY_CELLS = X_QUADS != 0 && LANE_TABLES;
#else
const bool X_BY_CELLS = X_QUADS != 0 && LANE_TABLES && TOKENS == 1 && !WEIGHT_PLAIN;
#endif

// Whether x of four or eight tokens is fetched by chunks, a lane has a token's, so that few fetches follow upon each other.
const bool CHUNKS_FETCH = OLD_LAVAPIPE == 0 || !WEIGHT_IN_CELLS;
const bool X_BY_CHUNKS = X_BY_CELLS && TOKENS > 2 && CHUNKS_FETCH && !WEIGHT_LANE_TABLE;

vec4 x_cells[TOKENS];  // four columns a lane

vec4 x_quad_of(uint token, const uint quad) {
    token = min(token, push.tokens - 1);
    return x_quad((push.x_first + token * push.x_stride) / 4 + quad);
}

void load_x_quad(const uint token0, const uint quad, const bool wanted) {
    [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
        x_cells[t] = x_quad_of(token0 + t, quad);
        if (!wanted) x_cells[t] = vec4(0.0);
    }
    if (linear_norm()) {
        squares += dot(x_cells[0], x_cells[0]);
        x_cells[0] *= norm_quad(quad);
    }
}
// Float rows are padded to whole blocks, x is not.
void load_x_cell(const uint token0, const uint cell) {
    if (X_BY_CHUNKS) return;
    const uint quad = weight_quad(cell * (WEIGHT_BLOCK / 4) + sg_lane());
    load_x_quad(token0, quad, !WEIGHT_PLAIN || 4 * quad < push.cols);
}
vec4 of_lane(const vec4 value, const uint lane) {
    return vec4(subgroupShuffle(value.x, lane), subgroupShuffle(value.y, lane), subgroupShuffle(value.z, lane),
                subgroupShuffle(value.w, lane));
}
vec4 x_of_lane(const uint t, const uint lane) { return of_lane(x_cells[t], lane); }

vec4 x_chunk[2];  // [quad][token], eight lanes of them each

// Quads `first` and the next of all tokens.
void load_x_chunk(const uint token0, const uint first) {
    [[unroll]] for (uint i = 0; i < TOKENS / 4; ++i) {
        const uint item = i * 8 + sg_lane();
        const uint quad = weight_quad(first + item / TOKENS);
        x_chunk[i] = x_quad_of(token0 + item % TOKENS, quad);
        if (WEIGHT_PLAIN) x_chunk[i] = 4 * quad < push.cols ? x_chunk[i] : vec4(0.0);
    }
}
vec4 x_of_chunk(const uint t, const uint quad) {
    const uint item = quad * TOKENS + t;
    return of_lane(x_chunk[item / 8], item % 8);
}
#endif

// Columns that a subgroup loads at once, each by as many lanes as there are more.
#ifdef X_LANES
const uint X_COLS = SG_SIZE < 8 * SPAN ? SG_SIZE : 8 * SPAN;
const uint X_LOADS = 8 * SPAN / X_COLS;

float x_lanes[TOKENS * X_LOADS];  // of a span, [token][load]

void load_x_lanes(const uint token0, const uint first) {
    [[unroll]] for (uint i = 0; i < X_LOADS; ++i) {
        const uint k = first + i * X_COLS + sg_lane() % X_COLS;
        [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
            x_lanes[t * X_LOADS + i] = load_x(min(token0 + t, push.tokens - 1), k);
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

#ifdef COMPACT
// Column that is k-th where codes are concerned.
uint column_of(const uint k) { return 4 * weight_quad(k / 4) + k % 4; }
#endif

#ifndef X_LANES
// x of the chunk that starts at column k. Written without loops: SwiftShader unrolls none, and an array or a vector
// that a loop indexes lives in memory there, which is several times slower.
void load_chunk(const uint token, const uint k, out CODES lo, out CODES hi) {
#ifdef WEIGHT_INTS
    const uint first = (token * ((push.cols + WEIGHT_BLOCK - 1) / WEIGHT_BLOCK) * WEIGHT_BLOCK + k) / 4;
    lo = x_words[first];
    hi = x_words[first + 1];
#elif defined(COMPACT)
    const uint first = column_of(k + sg_lane() % 8), second = column_of(k + 4 + sg_lane() % 4);
    const float a = normed(load_x(token, first), first);
    const float b = SG_SIZE < 8 ? normed(load_x(token, second), second) : a;
    lo = vec4(sg_broadcast(a, 0), sg_broadcast(a, 1), sg_broadcast(a, 2), sg_broadcast(a, 3));
    hi = vec4(sg_broadcast(b, 4 % SG_SIZE), sg_broadcast(b, 5 % SG_SIZE), sg_broadcast(b, 6 % SG_SIZE),
              sg_broadcast(b, 7 % SG_SIZE));
#else
    lo = vec4(load_x(token, k), load_x(token, k + 1), load_x(token, k + 2), load_x(token, k + 3));
    hi = vec4(load_x(token, k + 4), load_x(token, k + 5), load_x(token, k + 6), load_x(token, k + 7));
    if (linear_norm()) {
        lo = vec4(normed(lo.x, k), normed(lo.y, k + 1), normed(lo.z, k + 2), normed(lo.w, k + 3));
        hi = vec4(normed(hi.x, k + 4), normed(hi.y, k + 5), normed(hi.z, k + 6), normed(hi.w, k + 7));
    }
#endif
}
#endif

#ifdef COMPACT
// As in linear.glsl; where there is no fma, in parallel.
float add_products(const vec4 codes, const vec4 x, const float sum) {
    if (OLD_LAVAPIPE == 0 && WEIGHT_TYPE != WEIGHT_Q1_0)
        return fma(codes.w, x.w, fma(codes.z, x.z, fma(codes.y, x.y, fma(codes.x, x.x, sum))));
    // Codes of one bit are signs.
    const uvec4 signs = floatBitsToUint(codes) & 0x80000000u;
    const vec4 products = WEIGHT_TYPE == WEIGHT_Q1_0 ? uintBitsToFloat(floatBitsToUint(x) ^ signs) : codes * x;
    return sum + ((products.x + products.y) + (products.z + products.w));
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

#ifndef WEIGHT_INTS
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

// Pair p of a lane's, of those of subgroup `unit`; where a group's pair lies, in matrices whose rows have so many blocks;
// and what the functions of weights call row r of a lane's and one of its cells.
#ifdef COMPACT
// Side by side, so that they share loads: PAIRS divides a group's, and the cells of one are those of all.
const bool ONE_GROUP = true;
uint pair_of(const uint unit, const uint p) { return (unit * SG_SIZE + sg_lane()) * PAIRS + p; }
struct Place {
    uint cell, slot;
};
Place place_of(const uint group, const uint pair, const uint blocks) { return Place(group * blocks, pair); }
Slot slot_of(Place places[PAIRS], const uint r) {
    return Slot(places[0].slot / 2, PAIRS == 1 ? places[0].slot % 2 : r / 2, r % 2 != 0);
}
uint cell_of(Place places[PAIRS], const uint r, const uint cell) { return places[r / 2].cell + cell; }
#else
const bool ONE_GROUP = false;
uint pair_of(const uint unit, const uint p) { return (unit * PAIRS + p) * SG_SIZE + sg_lane(); }
#define Place Slot
Place place_of(const uint group, const uint pair, const uint blocks) {
    return first_slot(group * push.group_words, group * (blocks / WEIGHT_UNIT_CELLS), pair);
}
Slot slot_of(Place places[PAIRS], const uint r) { return r % 2 == 0 ? places[r / 2] : odd_slot(places[r / 2]); }
uint cell_of(Place places[PAIRS], const uint r, const uint cell) { return cell; }
#endif

// What cell `cell` of a lane's rows has besides codes.
void load_units(Place places[PAIRS], const uint cell, out Unit units[ROWS]) {
    [[unroll]] for (uint r = 0; r < ROWS; ++r) units[r] = weight_unit(cell_of(places, r, cell), slot_of(places, r));
}
void load_cell(Place places[PAIRS], const uint cell, out uvec4 words[ROWS]) {
    [[unroll]] for (uint r = 0; r < ROWS; ++r) words[r] = weight_cell(cell_of(places, r, cell), slot_of(places, r));
}

#ifdef COMPACT
// The same of one-bit codes: all sums that three columns can make, and a look-up for each row.
void add_signs(inout float sums[SUMS], uvec4 words[ROWS], const uint token, const uint chunk, const vec4 x_lo,
               const vec4 x_hi) {
    const float first = signed_sums(x_lo.xyz), middle = signed_sums(vec3(x_lo.w, x_hi.xy));
    const float last = signed_sums(vec3(x_hi.zw, 0.0));
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        const uint bits = words[r].x >> (8 * chunk);
        sums[r * TOKENS + token] += (subgroupShuffle(first, bits & 7u) + subgroupShuffle(middle, bits >> 3 & 7u)) +
                                    subgroupShuffle(last, bits >> 6 & 3u);
    }
}
#endif

// Whether codes are unpacked when they are multiplied, after all words were loaded: CPU drivers keep them in memory if a
// load, which is a branch or a call there, comes between.
#ifdef COMPACT
const bool CODES_LATE = TOKENS == 1;
#else
const bool CODES_LATE = false;
#endif

#ifdef TEXELS
// One token of types whose cells have scales of their own: the rows whose words share texels, even or odd ones, are done
// before the others' are fetched, where results of more fetches are waited for, or take several words a chunk
// (tools/bench/RESULTS.md).
const bool PARITY_PAYS = OLD_LAVAPIPE != 0 || WEIGHT_CHUNK_WORDS >= 2;
const bool BY_PARITY = CODES_LATE && X_BY_CELLS && WEIGHT_UNIT_CELLS == 1 && PARITY_PAYS;

// add_chunk so. A loop over parities there, of one turn for other types, makes some of those seven times slower (Mesa 25.0.7).
void add_chunk_by_parity(inout float sums[SUMS], inout float x_sum, Place places[PAIRS], uvec4 words[ROWS],
                         const uint cell,
                         const uint chunk) {
    const vec4 x_lo = x_of_lane(0, 2 * chunk), x_hi = x_of_lane(0, 2 * chunk + 1);
    if (WEIGHT_SHIFTED) x_sum = add_products(vec4(1.0), x_hi, add_products(vec4(1.0), x_lo, x_sum));
    [[unroll]] for (uint odd = 0; odd < 2; ++odd) {
        [[unroll]] for (uint r = odd; r < ROWS; r += 2) {
            vec4 lo, hi;
            const ChunkWords own = weight_chunk(cell_of(places, r, cell), slot_of(places, r), chunk);
            weight_codes(cell_of(places, r, cell), slot_of(places, r), chunk, words[r], own, lo, hi);
            sums[r] = add_products(hi, x_hi, add_products(lo, x_lo, sums[r]));
        }
    }
}
#else
const bool BY_PARITY = false;
#endif
#ifdef COMPACT
// Of types that take few words a chunk, so that the code stays small: without the loop sums need not pass its mask.
const bool UNROLLS_CHUNKS =
    TOKENS == 1 && !BY_PARITY && (WEIGHT_IN_CELLS || WEIGHT_CHUNK_WORD || WEIGHT_BYTES);
#endif

// Adds a chunk of a cell, of rows [pair][even, odd], times x to the sums, and x to its own.
void add_chunk(inout SUM sums[SUMS], inout float x_sums[TOKENS], Place places[PAIRS], uvec4 words[ROWS],
               const uint token0,
               const uint cell, const uint chunk) {
#ifdef TEXELS
    if (BY_PARITY) {
        add_chunk_by_parity(sums, x_sums[0], places, words, cell, chunk);
        return;
    }
#endif
#ifdef COMPACT
    if (X_BY_CHUNKS) load_x_chunk(token0, cell * (WEIGHT_BLOCK / 4) + 2 * chunk);
#endif
    CODES lo[ROWS], hi[ROWS];
    ChunkWords own[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        own[r] = weight_chunk(cell_of(places, r, cell), slot_of(places, r), chunk);
        if (!CODES_LATE) {
            weight_codes(cell_of(places, r, cell), slot_of(places, r), chunk, words[r], own[r], lo[r], hi[r]);
        }
    }
    [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
        CODES x_lo, x_hi;
#ifdef X_LANES
        x_lo = x_of_lanes(t, 8 * (chunk % SPAN));
        x_hi = x_of_lanes(t, 8 * (chunk % SPAN) + 4);
#else
#ifdef COMPACT
        if (X_BY_CHUNKS) {
            x_lo = x_of_chunk(t, 0);
            x_hi = x_of_chunk(t, 1);
        } else if (X_BY_CELLS) {
            x_lo = x_of_lane(t, 2 * chunk);
            x_hi = x_of_lane(t, 2 * chunk + 1);
        } else
#endif
            load_chunk(min(token0 + t, push.tokens - 1), WEIGHT_BLOCK * cell + 8 * chunk, x_lo, x_hi);
#endif
#if !defined(X_LANES) && !defined(WEIGHT_INTS)
        if (WEIGHT_SHIFTED) x_sums[t] = add_products(vec4(1.0), x_hi, add_products(vec4(1.0), x_lo, x_sums[t]));
#endif
#ifdef COMPACT
        if (WEIGHT_TYPE == WEIGHT_Q1_0 && LANE_TABLES) {
            add_signs(sums, words, t, chunk, x_lo, x_hi);
            continue;
        }
#endif
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            const uint i = r * TOKENS + t;
            if (CODES_LATE) {
                weight_codes(cell_of(places, r, cell), slot_of(places, r), chunk, words[r], own[r], lo[r], hi[r]);
            }
            sums[i] = add_products(hi[r], x_hi, add_products(lo[r], x_lo, sums[i]));
        }
    }
}

// Adds SPAN chunks of a cell, from `first` on.
void add_span(inout float sums[SUMS], Place places[PAIRS], Unit units[ROWS], uvec4 words[ROWS], const uint token0,
              const uint cell,
              const uint first) {
    SUM span_sums[SUMS];
    float x_sums[TOKENS];
    [[unroll]] for (uint i = 0; i < SUMS; ++i) span_sums[i] = SUM(0);
    [[unroll]] for (uint t = 0; t < TOKENS; ++t) x_sums[t] = 0.0;
#ifdef X_LANES
    load_x_lanes(token0, WEIGHT_BLOCK * cell + 8 * first);
    if (WEIGHT_SHIFTED) [[unroll]] for (uint t = 0; t < TOKENS; ++t) x_sums[t] = x_lanes_sum(t);
#endif
#ifdef COMPACT
    if (UNROLLS_CHUNKS) {
        [[unroll]] for (uint c = 0; c < SPAN; ++c) {
            add_chunk(span_sums, x_sums, places, words, token0, cell, first + c);
        }
    } else
#endif
    UNROLL_CHUNKS for (uint c = 0; c < SPAN; c += STEP) {
        [[unroll]] for (uint i = 0; i < STEP; ++i) {
            add_chunk(span_sums, x_sums, places, words, token0, cell, first + c + i);
        }
    }
#ifdef WEIGHT_INTS
    const uint blocks = (push.cols + WEIGHT_BLOCK - 1) / WEIGHT_BLOCK;
    float steps[TOKENS];
    [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
        const uint side = x_side(min(token0 + t, push.tokens - 1), cell, blocks);
        steps[t] = x[side];
        x_sums[t] = steps[t] * float(bytes_sum(x_words[side + 1], first / 2));
    }
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        // Not from `units`: compilers load it once anyway, and Turing's needs fewer registers so (Q4_K).
        const Affine affine = weight_affine(cell_of(places, r, cell), slot_of(places, r), first);
        const vec2 line = weight_line(affine, true);
        [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
            const uint i = r * TOKENS + t;
            sums[i] = fma(line.x * steps[t], float(span_sums[i]), sums[i]);
            if (WEIGHT_SHIFTED) sums[i] = fma(line.y, x_sums[t], sums[i]);
        }
    }
#else
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        const Affine affine = weight_affine(cell_of(places, r, cell), first, units[r], words[r]);
        const vec2 line = weight_line(affine, CODE_BYTES);
        [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
            const uint i = r * TOKENS + t;
            sums[i] = WEIGHT_PLAIN ? sums[i] + span_sums[i] : fma(line.x, span_sums[i], sums[i]);
            if (WEIGHT_SHIFTED) sums[i] = fma(line.y, x_sums[t], sums[i]);
        }
    }
#endif
}

#ifdef COMPACT
const bool ADDS_TERNARY = WEIGHT_TYPE == WEIGHT_TQ1_0 && X_BY_CELLS && TOKENS == 1;

// Adds the unit that begins with cell `cell`, word by word, where cells would share words: five columns a byte.
void add_ternary_unit(inout float sums[SUMS], Place places[PAIRS], Unit units[ROWS], const uint token,
                      const uint cell) {
    float unit_sums[ROWS], x_sum = 0.0;
    [[unroll]] for (uint r = 0; r < ROWS; ++r) unit_sums[r] = 0.0;
    [[dont_unroll]] for (uint word = 0; word < TQ1_0_WORDS; ++word) {
        const uint quad = 5 * word + sg_lane();
        load_x_quad(token, tq1_0_quad(cell * 8 + min(quad, 63)), sg_lane() < 5 && quad < 64);
        uvec2 rest[ROWS];
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            const uint first = cell_of(places, r, cell) / 8 * TQ1_0_WORDS;
            rest[r] = tq1_0_rest(weight_word(first + word, slot_of(places, r)));
        }
        [[unroll]] for (uint digit = 0; digit < 5; ++digit) {
            const vec4 x_digit = x_of_lane(0, digit);
            x_sum = add_products(vec4(1.0), x_digit, x_sum);
            [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                unit_sums[r] = add_products(next_ternary_codes(rest[r]), x_digit, unit_sums[r]);
            }
        }
    }
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        const float scale = tq1_0_affine(units[r]).scale;
        sums[r * TOKENS] = fma(scale, unit_sums[r] - 1.25 * x_sum, sums[r * TOKENS]);
    }
}
#endif

void main() {
    const uint token_tiles = (push.tokens + TOKENS - 1) / TOKENS;
    const uint token0 = group_index() % token_tiles * TOKENS;
    const uint unit = group_index() / token_tiles * (SG_COUNT / PARTS) + sg_index() / PARTS;
    const uint pairs = (push.rows + 1) / 2;
    const uint blocks = (push.cols + WEIGHT_BLOCK - 1) / WEIGHT_BLOCK;
    if (group_index() / token_tiles * (SG_COUNT / PARTS) * SG_SIZE * PAIRS >= pairs) return;

    Place places[PAIRS];  // pairs past the end compute some of the last group and store nothing
    [[unroll]] for (uint p = 0; p < PAIRS; ++p) {
        const uint pair = pair_of(unit, ONE_GROUP ? 0 : p);
        places[p] = place_of(min(pair, pairs - 1) / WEIGHT_GROUP_PAIRS, pair % WEIGHT_GROUP_PAIRS, blocks);
    }
#ifdef HEADS
    // Where one pair goes is asked for first, that nobody waits for it at the end; of more it would take registers.
    const bool EARLY = PAIRS * TOKENS == 1;
    HeadPair early;
    if (HEADS_END && EARLY) early = head_pair(token0, pair_of(unit, 0));
#endif
    float sums[SUMS];
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        const uint row = 2 * pair_of(unit, r / 2) + r % 2;
        const float start = load_bias(linear_norm() || (PARTS > 1 && sg_index() % PARTS != 0) ? push.rows : row);
        [[unroll]] for (uint t = 0; t < TOKENS; ++t) sums[r * TOKENS + t] = start;
    }

#ifndef WEIGHT_INTS
    squares = 0.0;
#endif
    Unit units[ROWS];
    uvec4 words[ROWS];
#ifdef COMPACT
    start_weights();
    for (uint unit = 0; unit < blocks; unit += WEIGHT_UNIT_CELLS) {
        load_units(places, unit, units);
        if (ADDS_TERNARY) {
            add_ternary_unit(sums, places, units, token0, unit);
            continue;
        }
        for (uint i = 0; i < WEIGHT_UNIT_CELLS; ++i) {
            load_cell(places, unit + i, words);
            if (X_BY_CELLS) load_x_cell(token0, unit + i);
            for (uint chunk = 0; chunk < 4; chunk += SPAN) {
                add_span(sums, places, units, words, token0, unit + i, chunk);
            }
        }
    }
#else
    for (uint cell = sg_index() % PARTS; cell < blocks; cell += PARTS) {
        load_units(places, cell, units);
        load_cell(places, cell, words);
        UNROLL_CHUNKS for (uint chunk = 0; chunk < 4; chunk += SPAN) {
            add_span(sums, places, units, words, token0, cell, chunk);
        }
    }
#endif

    const float scale = linear_norm() ? norm_scale() : 1.0;
    if (PARTS > 1) {
        join_parts(sums);
        if (sg_index() % PARTS != 0) return;
    }
    if (linear_norm())
        UNROLL_ON_GPU for (uint r = 0; r < ROWS; ++r) {
            sums[r * TOKENS] = fma(sums[r * TOKENS], scale, load_bias(2 * pair_of(unit, r / 2) + r % 2));
        }
    UNROLL_ON_GPU for (uint p = 0; p < PAIRS; ++p) {
        const uint pair = pair_of(unit, p);
        UNROLL_ON_GPU for (uint t = 0; t < TOKENS; ++t) {
            const uint i = 2 * p * TOKENS + t;
            const bool store = pair < pairs && token0 + t < push.tokens;
#ifdef HEADS
            if (HEADS_END) {
                const HeadPair to = EARLY ? early : head_pair(token0 + t, pair);
                write_head_pair(token0 + t, pair, finished(vec2(sums[i], sums[i + TOKENS])), to, store);
                continue;
            }
#endif
            store_pair(token0 + t, pair, vec2(sums[i], sums[i + TOKENS]), store);
        }
    }
}
