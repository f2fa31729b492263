// linear_vec.comp for CPU drivers: the loops over results, and over chunks but for one token of some types, stay loops, which
// there run as fast and compile two to five times as fast, and a cold start waits for that; GPUs would spill the results
// indexed. A load there is a checked branch for every lane, as dear as ten multiply-adds, so that what cells and units
// share is loaded once for each, words of two rows by eight bytes; x by chunks, or the 32 columns by fours where lanes
// are eight.
//
// -DTEXELS: a lane has four pairs of rows, whose words are fetched as a texel, by one call for all lanes, and so
// are four columns of x, and of the norm's weights.
// -DGRID is for types of codebooks: their points lie in a uniform buffer, since a load from one is a gather there.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#ifndef TEXELS
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#endif
#ifdef GRID
#extension GL_EXT_scalar_block_layout : require
#endif
#define COMPACT
#include "subgroup.glsl"
#include "grid.glsl"
#include "linear.push.h"
layout(constant_id = LINEAR_OLD_LAVAPIPE) const uint OLD_LAVAPIPE = 0;  // Caps::old_lavapipe()
// Where results of fetches are waited for, what an instruction converts is there too soon (tools/bench/RESULTS.md).
#define SCALES_BY_HAND (OLD_LAVAPIPE != 0 && WEIGHT_TYPE == WEIGHT_Q8_0)
#include "linear.glsl"
#include "linear_rows.glsl"
#include "compact_x.glsl"

// As elsewhere (linear.glsl); where there is no fma, in parallel.
float add_products(const vec4 codes, const vec4 x, const float sum) {
    if (OLD_LAVAPIPE == 0 && WEIGHT_TYPE != WEIGHT_Q1_0)
        return fma(codes.w, x.w, fma(codes.z, x.z, fma(codes.y, x.y, fma(codes.x, x.x, sum))));
    // Codes of one bit are signs.
    const uvec4 signs = floatBitsToUint(codes) & 0x80000000u;
    const vec4 products = WEIGHT_TYPE == WEIGHT_Q1_0 ? uintBitsToFloat(floatBitsToUint(x) ^ signs) : codes * x;
    return sum + ((products.x + products.y) + (products.z + products.w));
}

// Pair p of a lane's, of those of subgroup `unit`. They lie side by side, so that they share loads: PAIRS divides a
// group's, and the cells of one are those of all.
uint pair_of(const uint unit, const uint p) { return (unit * SG_SIZE + sg_lane()) * PAIRS + p; }
// The first cell of a lane's rows, and its first pair in their group.
struct Place {
    uint cell, pair;
};
Slot slot_of(const Place place, const uint r) {
    return Slot(place.pair / 2, PAIRS == 1 ? place.pair % 2 : r / 2, r % 2 != 0);
}

// What cell `cell` of a lane's rows has besides codes.
void load_units(const Place place, const uint cell, out Unit units[ROWS]) {
    [[unroll]] for (uint r = 0; r < ROWS; ++r) units[r] = weight_unit(place.cell + cell, slot_of(place, r));
}
void load_cell(const Place place, const uint cell, out uvec4 words[ROWS]) {
    [[unroll]] for (uint r = 0; r < ROWS; ++r) words[r] = weight_cell(place.cell + cell, slot_of(place, r));
}

// Of one-bit codes a chunk's products: all sums that three columns can make, and a look-up for each row.
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

// Whether codes are unpacked when they are multiplied, after all words were loaded: drivers keep them in memory if a
// load, which is a branch or a call, comes between.
const bool CODES_LATE = TOKENS == 1;

#ifdef TEXELS
// One token of types whose cells have scales of their own: the rows whose words share texels, even or odd ones, are done
// before the others' are fetched, where results of more fetches are waited for, or take several words a chunk
// (tools/bench/RESULTS.md).
const bool PARITY_PAYS = OLD_LAVAPIPE != 0 || WEIGHT_CHUNK_WORDS >= 2;
const bool BY_PARITY = CODES_LATE && X_BY_CELLS && WEIGHT_UNIT_CELLS == 1 && PARITY_PAYS;

// add_chunk so. A loop over parities there, of one turn for other types, makes some of those seven times slower (Mesa 25.0.7).
void add_chunk_by_parity(inout float sums[SUMS], inout float x_sum, const Place place, uvec4 words[ROWS],
                         const uint cell, const uint chunk) {
    const vec4 x_lo = x_of_lane(0, 2 * chunk), x_hi = x_of_lane(0, 2 * chunk + 1);
    if (WEIGHT_SHIFTED) x_sum = add_products(vec4(1.0), x_hi, add_products(vec4(1.0), x_lo, x_sum));
    [[unroll]] for (uint odd = 0; odd < 2; ++odd) {
        [[unroll]] for (uint r = odd; r < ROWS; r += 2) {
            vec4 lo, hi;
            const ChunkWords own = weight_chunk(place.cell + cell, slot_of(place, r), chunk);
            weight_codes(place.cell + cell, slot_of(place, r), chunk, words[r], own, lo, hi);
            sums[r] = add_products(hi, x_hi, add_products(lo, x_lo, sums[r]));
        }
    }
}
#else
const bool BY_PARITY = false;
#endif
// Of types that take few words a chunk, so that the code stays small: without the loop sums need not pass its mask.
const bool UNROLLS_CHUNKS =
    TOKENS == 1 && !BY_PARITY && (WEIGHT_IN_CELLS || WEIGHT_CHUNK_WORD || WEIGHT_BYTES);

// Adds a chunk of a cell, of rows [pair][even, odd], times x to the sums, and x to its own.
void add_chunk(inout SUM sums[SUMS], inout float x_sums[TOKENS], const Place place, uvec4 words[ROWS], const uint token0,
               const uint cell, const uint chunk) {
#ifdef TEXELS
    if (BY_PARITY) {
        add_chunk_by_parity(sums, x_sums[0], place, words, cell, chunk);
        return;
    }
#endif
    if (X_BY_CHUNKS) load_x_chunk(token0, cell * (WEIGHT_BLOCK / 4) + 2 * chunk);
    CODES lo[ROWS], hi[ROWS];
    ChunkWords own[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        own[r] = weight_chunk(place.cell + cell, slot_of(place, r), chunk);
        if (!CODES_LATE) {
            weight_codes(place.cell + cell, slot_of(place, r), chunk, words[r], own[r], lo[r], hi[r]);
        }
    }
    [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
        CODES x_lo, x_hi;
        if (X_BY_CHUNKS) {
            x_lo = x_of_chunk(t, 0);
            x_hi = x_of_chunk(t, 1);
        } else if (X_BY_CELLS) {
            x_lo = x_of_lane(t, 2 * chunk);
            x_hi = x_of_lane(t, 2 * chunk + 1);
        } else
            load_chunk(lane_x_word(token0, t), WEIGHT_BLOCK * cell + 8 * chunk, x_lo, x_hi);
        if (WEIGHT_SHIFTED) x_sums[t] = add_products(vec4(1.0), x_hi, add_products(vec4(1.0), x_lo, x_sums[t]));
        if (WEIGHT_TYPE == WEIGHT_Q1_0 && LANE_TABLES) {
            add_signs(sums, words, t, chunk, x_lo, x_hi);
            continue;
        }
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            const uint i = r * TOKENS + t;
            if (CODES_LATE) {
                weight_codes(place.cell + cell, slot_of(place, r), chunk, words[r], own[r], lo[r], hi[r]);
            }
            sums[i] = add_products(hi[r], x_hi, add_products(lo[r], x_lo, sums[i]));
        }
    }
}

// Adds SPAN chunks of a cell, from `first` on.
void add_span(inout float sums[SUMS], const Place place, Unit units[ROWS], uvec4 words[ROWS], const uint token0,
              const uint cell, const uint first) {
    SUM span_sums[SUMS];
    float x_sums[TOKENS];
    [[unroll]] for (uint i = 0; i < SUMS; ++i) span_sums[i] = SUM(0);
    [[unroll]] for (uint t = 0; t < TOKENS; ++t) x_sums[t] = 0.0;
    if (UNROLLS_CHUNKS) {
        [[unroll]] for (uint c = 0; c < SPAN; ++c) {
            add_chunk(span_sums, x_sums, place, words, token0, cell, first + c);
        }
    } else {
        [[dont_unroll]] for (uint c = 0; c < SPAN; ++c) {
            add_chunk(span_sums, x_sums, place, words, token0, cell, first + c);
        }
    }
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        const Affine affine = weight_affine(place.cell + cell, first, units[r], words[r]);
        const vec2 line = weight_line(affine, false);
        [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
            const uint i = r * TOKENS + t;
            sums[i] = WEIGHT_PLAIN ? sums[i] + span_sums[i] : fma(line.x, span_sums[i], sums[i]);
            if (WEIGHT_SHIFTED) sums[i] = fma(line.y, x_sums[t], sums[i]);
        }
    }
}

const bool ADDS_TERNARY = WEIGHT_TYPE == WEIGHT_TQ1_0 && X_BY_CELLS && TOKENS == 1;

// Adds the unit that begins with cell `cell`, word by word, where cells would share words: five columns a byte.
void add_ternary_unit(inout float sums[SUMS], const Place place, Unit units[ROWS], const uint token,
                      const uint cell) {
    float unit_sums[ROWS], x_sum = 0.0;
    [[unroll]] for (uint r = 0; r < ROWS; ++r) unit_sums[r] = 0.0;
    [[dont_unroll]] for (uint word = 0; word < TQ1_0_WORDS; ++word) {
        const uint quad = 5 * word + sg_lane();
        load_x_quad(token, tq1_0_quad(cell * 8 + min(quad, 63)), sg_lane() < 5 && quad < 64);
        uvec2 rest[ROWS];
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            const uint first = (place.cell + cell) / 8 * TQ1_0_WORDS;
            rest[r] = tq1_0_rest(weight_word(first + word, slot_of(place, r)));
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

void main() {
    const Lane lane = lane_of(1);
    if (lane.idle) return;
    // Pairs past the end compute some of the last group and store nothing.
    const uint first = lane.weight_pair + pair_of(lane.unit, 0);
    const uint group = min(first, lane.weight_pairs - 1) / WEIGHT_GROUP_PAIRS;
    const Place place = Place(group * lane.blocks, first % WEIGHT_GROUP_PAIRS);
    float sums[SUMS];
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        const float start = load_bias(linear_norm() ? push.rows : 2 * pair_of(lane.unit, r / 2) + r % 2);
        [[unroll]] for (uint t = 0; t < TOKENS; ++t) sums[r * TOKENS + t] = start;
    }

    Unit units[ROWS];
    uvec4 words[ROWS];
    start_weights();
    for (uint unit = 0; unit < lane.blocks; unit += WEIGHT_UNIT_CELLS) {
        load_units(place, unit, units);
        if (ADDS_TERNARY) {
            add_ternary_unit(sums, place, units, lane.token0, unit);
            continue;
        }
        for (uint i = 0; i < WEIGHT_UNIT_CELLS; ++i) {
            load_cell(place, unit + i, words);
            if (X_BY_CELLS) load_x_cell(lane.token0, unit + i);
            for (uint chunk = 0; chunk < 4; chunk += SPAN) {
                add_span(sums, place, units, words, lane.token0, unit + i, chunk);
            }
        }
    }

    if (linear_norm()) {
        const float scale = norm_scale();
        [[dont_unroll]] for (uint r = 0; r < ROWS; ++r) {
            sums[r * TOKENS] = fma(sums[r * TOKENS], scale, load_bias(2 * pair_of(lane.unit, r / 2) + r % 2));
        }
    }
    [[dont_unroll]] for (uint p = 0; p < PAIRS; ++p) {
        const uint pair = pair_of(lane.unit, p);
        [[dont_unroll]] for (uint t = 0; t < TOKENS; ++t) {
            const uint i = 2 * p * TOKENS + t;
            const bool store = has_pair(lane, pair) && has_token(lane.token0 + t);
            store_pair(lane.token0 + t, pair, vec2(sums[i], sums[i + TOKENS]), store);
        }
    }
}
