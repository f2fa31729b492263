// Weights of one shard as floats. The includer declares `readonly buffer { uint weight_words[]; }` and
// WEIGHT_SIDE_PLANE and WEIGHT_TABLE_PLANE, the first words of those planes (weight_planes.h).
//
// A weight is scale * (code - zero) + offset: `code` is what the bits give most cheaply, and the rest is the
// same for 32 columns (16 where WEIGHT_HALVES), so that kernels multiply codes and apply the rest once:
//   sum w x = scale * sum code x + (offset - scale * zero) * sum x.
// Evaluated as written it is the file's value bit for bit: code - zero and its product with scale are exact. (MXFP4's scale is
// that of sums alone: mxfp4_affine.)
//
// Where the includer defines HALF_PAIRS, for which it enables 16-bit floats, some codes are computed by pairs of those.
//
// -DWEIGHT_INTS is for kernels that multiply integers: a code is a signed byte there, four columns a word, q itself or what
// weight_step() says, for all types but floats and IQ4. Where the includer's CODE_BYTES is true, float codes of whole bits are
// q too. Affine stays that of the other codes, so that kernels take weight_line() of it, and not weight_values().
//
// A type is a pair of functions in one of these files and one line in each table below.
#include "weight_planes.h"

#ifdef WEIGHT_INTS
#define CODES uint
#else
#define CODES vec4
#endif

layout(constant_id = 2) const uint WEIGHT_TYPE = WEIGHT_F32;
#include "scales.glsl"

#ifdef HALVES
const bool CODE_HALVES = !HALVES_FLUSH;
#else
const bool CODE_HALVES = false;
#endif

struct Affine {
    float scale, zero, offset;
};
// What the cells of a unit share, as it is loaded: the word of d and where that begins, and words of scales.
struct Unit {
    uint word, bit;
    uvec3 words;
};
// d, and what stands above it.
vec2 unit_d(const Unit unit) { return unpack_scales(unit.word >> unit.bit); }

#include "weight_slots.glsl"
#ifdef COMPACT
#define STARTS_WEIGHTS
#include "lane_table.glsl"
#endif
#include "dequant_bits.glsl"
#include "dequant_k.glsl"
#include "dequant_q4.glsl"
#include "dequant_q5.glsl"
#include "dequant_q8.glsl"
#include "dequant_iq1.glsl"
#include "dequant_iq2.glsl"
#include "dequant_small.glsl"
#ifndef WEIGHT_INTS
#include "dequant_float.glsl"
#include "dequant_fp8.glsl"
#include "dequant_fp4.glsl"
#include "dequant_iq4.glsl"
#endif

// Whether codes are halves where CODE_HALVES says so.
const bool WEIGHT_HALF_CODES = WEIGHT_TYPE == WEIGHT_Q4_0 || WEIGHT_TYPE == WEIGHT_Q4_1 || WEIGHT_TYPE == WEIGHT_Q4_K ||
                               WEIGHT_TYPE == WEIGHT_Q6_K;
// Whether codes are bytes.
const bool WEIGHT_BYTES = WEIGHT_TYPE == WEIGHT_Q8_0 || WEIGHT_TYPE == WEIGHT_F8_E4M3;
// Whether codes are the values themselves.
const bool WEIGHT_PLAIN = WEIGHT_TYPE == WEIGHT_F32 || WEIGHT_TYPE == WEIGHT_F16 || WEIGHT_TYPE == WEIGHT_BF16;
// Whether a scale is that of 16 columns, chunks 0-1 or 2-3 of a cell.
const bool WEIGHT_HALVES = WEIGHT_TYPE == WEIGHT_Q2_K || WEIGHT_TYPE == WEIGHT_Q3_K || WEIGHT_TYPE == WEIGHT_Q6_K ||
                           WEIGHT_TYPE == WEIGHT_NVFP4 || WEIGHT_TYPE == WEIGHT_NVFP4_S ||
                           WEIGHT_TYPE == WEIGHT_IQ2_XS || WEIGHT_TYPE == WEIGHT_IQ2_S || WEIGHT_TYPE == WEIGHT_IQ1_M;
// Whether values have an offset, and whether `offset - scale * zero` is not always zero.
const bool WEIGHT_OFFSET = WEIGHT_TYPE == WEIGHT_Q4_1 || WEIGHT_TYPE == WEIGHT_Q5_1 || WEIGHT_TYPE == WEIGHT_Q2_K ||
                           WEIGHT_TYPE == WEIGHT_Q4_K || WEIGHT_TYPE == WEIGHT_Q5_K;
const bool WEIGHT_SHIFTED = WEIGHT_OFFSET || WEIGHT_TYPE == WEIGHT_Q4_0 || WEIGHT_TYPE == WEIGHT_Q5_0 ||
                            WEIGHT_TYPE == WEIGHT_Q3_K || WEIGHT_TYPE == WEIGHT_Q6_K ||
                            WEIGHT_TYPE == WEIGHT_TQ2_0 || WEIGHT_TYPE == WEIGHT_Q2_0;

// Cells of a unit, or 1 where no cells share anything.
const uint WEIGHT_UNIT_CELLS =
    WEIGHT_PLAIN || WEIGHT_TYPE == WEIGHT_Q4_0 || WEIGHT_TYPE == WEIGHT_Q4_1 || WEIGHT_TYPE == WEIGHT_Q5_0 ||
            WEIGHT_TYPE == WEIGHT_Q5_1 || WEIGHT_TYPE == WEIGHT_Q8_0 || WEIGHT_TYPE == WEIGHT_IQ4_NL ||
            WEIGHT_TYPE == WEIGHT_MXFP4 || WEIGHT_TYPE == WEIGHT_F8_E4M3 ? 1
    : WEIGHT_TYPE == WEIGHT_NVFP4 || WEIGHT_TYPE == WEIGHT_NVFP4_S || WEIGHT_TYPE == WEIGHT_Q2_0 ? 2
    : WEIGHT_TYPE == WEIGHT_Q1_0 ? 4 : 8;

#ifdef COMPACT
// Whether codes are made of the words of their cell alone, without loads of their own.
const bool WEIGHT_IN_CELLS = WEIGHT_TYPE == WEIGHT_Q2_K || WEIGHT_TYPE == WEIGHT_Q3_K || WEIGHT_TYPE == WEIGHT_TQ1_0 ||
                             WEIGHT_TYPE == WEIGHT_TQ2_0 || WEIGHT_TYPE == WEIGHT_Q2_0 || WEIGHT_TYPE == WEIGHT_Q1_0;

// The four columns, from 4 * result on, of codes `quad`: lo of a chunk of a row is 2 * chunk, hi 2 * chunk + 1.
uint weight_quad(const uint quad) { return WEIGHT_TYPE == WEIGHT_TQ1_0 ? tq1_0_quad(quad) : quad; }

// Whether codes are looked up in a table that lies in the lanes.
const bool WEIGHT_LANE_TABLE = WEIGHT_TYPE == WEIGHT_IQ4_NL || WEIGHT_TYPE == WEIGHT_IQ4_XS || WEIGHT_TYPE == WEIGHT_MXFP4 ||
                               WEIGHT_TYPE == WEIGHT_NVFP4 || WEIGHT_TYPE == WEIGHT_NVFP4_S || WEIGHT_TYPE == WEIGHT_Q1_0;
#endif
#ifdef STARTS_WEIGHTS
// To be called once by the whole workgroup, before codes are asked for.
void start_weights() {
#ifdef COMPACT
    if (!LANE_TABLES) return;
#endif
    switch (WEIGHT_TYPE) {
    case WEIGHT_IQ4_NL:
    case WEIGHT_IQ4_XS: start_iq4(); break;
#ifdef COMPACT
    case WEIGHT_MXFP4:
    case WEIGHT_NVFP4:
    case WEIGHT_NVFP4_S: start_fp4(); break;
#endif
    }
}
#endif

// Of the unit that `cell` lies in.
Unit weight_unit(const uint cell, const Slot slot) {
    const uint unit = cell / WEIGHT_UNIT_CELLS;
    switch (WEIGHT_TYPE) {
    case WEIGHT_Q4_1: return pair_unit(cell * 5, slot);
    case WEIGHT_Q5_1: return pair_unit(cell * 6, slot);
    case WEIGHT_Q2_K: return pair_unit(unit * 21 + 20, slot);
    case WEIGHT_Q3_K: return q3_k_unit(unit, slot);
    case WEIGHT_Q4_K: return six_bit_unit(unit * 36, slot);
    case WEIGHT_Q5_K: return six_bit_unit(unit * 44, slot);
    case WEIGHT_IQ2_XS: return iq2_unit(unit, slot, unit * 18 + 16);
    case WEIGHT_IQ2_S: return iq2_unit(unit, slot, unit * 20 + 18);
    case WEIGHT_IQ3_S: return iq3_s_unit(unit, slot);
    case WEIGHT_IQ1_M: return iq1_m_unit(unit, slot);
#ifndef WEIGHT_INTS
    case WEIGHT_IQ4_XS: return iq4_xs_unit(unit, slot);
    case WEIGHT_MXFP4: return byte_unit(cell, slot);
    case WEIGHT_NVFP4: return pair_unit(unit * 9, slot);
    case WEIGHT_NVFP4_S: return nvfp4_s_unit(unit, slot);
    case WEIGHT_F16:
    case WEIGHT_BF16:
    case WEIGHT_F32: return Unit(0, 0, uvec3(0));
#endif
    default: return side_unit(unit, slot, uvec3(0));
    }
}
// Words that the chunks of a cell share.
uvec4 weight_cell(const uint cell, const Slot slot) {
    const uint unit = cell / WEIGHT_UNIT_CELLS, i = cell % WEIGHT_UNIT_CELLS;
    switch (WEIGHT_TYPE) {
    case WEIGHT_Q5_0: return uvec4(weight_word(cell * 5, slot));
    case WEIGHT_Q5_1: return uvec4(weight_word(cell * 6 + 1, slot));
    case WEIGHT_Q2_K: return q2_k_words(unit, i, slot);
    case WEIGHT_Q3_K: return q3_k_words(unit, i, slot);
    case WEIGHT_Q5_K: return uvec4(weight_word(unit * 44 + 4 + i, slot));
    case WEIGHT_Q6_K: return q6_k_words(unit, i, slot);
    case WEIGHT_TQ2_0:
    case WEIGHT_Q2_0: return uvec4(chunk_words(2 * cell, slot), 0, 0);
    case WEIGHT_IQ2_XXS: return uvec4(weight_word(2 * cell, slot), weight_word(2 * cell, 1, slot), 0, 0);
    case WEIGHT_IQ2_XS: return uvec4(chunk_words(unit * 18 + 2 * i, slot), 0, 0);
    case WEIGHT_IQ2_S: return iq2_s_words(unit, i, slot);
    case WEIGHT_IQ3_XXS: return iq3_xxs_words(unit, i, slot);
    case WEIGHT_IQ3_S: return iq3_s_words(unit, i, slot);
    case WEIGHT_IQ1_S: return iq1_s_words(cell, slot);
    case WEIGHT_IQ1_M: return iq1_m_words(cell, slot);
    case WEIGHT_Q1_0: return uvec4(weight_word(cell, slot));
    case WEIGHT_TQ1_0: return tq1_0_words(cell, slot);
    default: return uvec4(0);
    }
}

// Words that a chunk has beside those of its cell: of columns 0..3, and of 4..7 where these have their own.
struct ChunkWords {
    uvec4 lo, hi;
};
const bool WEIGHT_CHUNK_WORD = WEIGHT_TYPE == WEIGHT_Q4_0 || WEIGHT_TYPE == WEIGHT_Q4_1 || WEIGHT_TYPE == WEIGHT_Q5_0 ||
                               WEIGHT_TYPE == WEIGHT_Q5_1 || WEIGHT_TYPE == WEIGHT_Q4_K || WEIGHT_TYPE == WEIGHT_Q5_K ||
                               WEIGHT_TYPE == WEIGHT_Q6_K || WEIGHT_TYPE == WEIGHT_IQ4_NL ||
                               WEIGHT_TYPE == WEIGHT_IQ4_XS || WEIGHT_TYPE == WEIGHT_MXFP4 ||
                               WEIGHT_TYPE == WEIGHT_NVFP4 || WEIGHT_TYPE == WEIGHT_NVFP4_S;
const uint WEIGHT_CHUNK_WORDS = WEIGHT_TYPE == WEIGHT_F32                                 ? 8
                                : WEIGHT_TYPE == WEIGHT_F16 || WEIGHT_TYPE == WEIGHT_BF16 ? 4
                                : WEIGHT_BYTES                                            ? 2
                                : WEIGHT_CHUNK_WORD                                       ? 1
                                                                                          : 0;
// The first of a cell's.
uint cell_first_word(const uint cell) {
    const uint unit = cell / WEIGHT_UNIT_CELLS, i = 4 * (cell % WEIGHT_UNIT_CELLS);
    switch (WEIGHT_TYPE) {
    case WEIGHT_Q4_0: return unit * 4 + i;
    case WEIGHT_Q4_1:
    case WEIGHT_Q5_0: return unit * 5 + 1 + i;
    case WEIGHT_Q5_1: return unit * 6 + 2 + i;
    case WEIGHT_F8_E4M3:
    case WEIGHT_Q8_0: return unit * 8 + 2 * i;
    case WEIGHT_Q4_K: return unit * 36 + 4 + i;
    case WEIGHT_Q5_K: return unit * 44 + 12 + i;
    case WEIGHT_Q6_K: return unit * 52 + i;
#ifndef WEIGHT_INTS
    case WEIGHT_IQ4_NL:
    case WEIGHT_MXFP4: return unit * 4 + i;
    case WEIGHT_IQ4_XS: return unit * 34 + 2 + i;
    case WEIGHT_NVFP4: return unit * 9 + 1 + i;
    case WEIGHT_NVFP4_S: return unit * 10 + 2 + i;
    case WEIGHT_F16:
    case WEIGHT_BF16: return unit * 16 + 4 * i;
    case WEIGHT_F32: return unit * 32 + 8 * i;
#endif
    default: return 0;
    }
}
// Word `first` + `more` and those after it: what weight_word() asks for.
ChunkWords chunk_words_at(const uint first, const uint more, const Slot slot) {
    const uint half_way = more + WEIGHT_CHUNK_WORDS / 2;
    ChunkWords words = ChunkWords(uvec4(0), uvec4(0));
    if (WEIGHT_CHUNK_WORDS >= 1) words.lo.x = weight_word(first, more, slot);
    if (WEIGHT_CHUNK_WORDS >= 4) words.lo.y = weight_word(first, more + 1, slot);
    if (WEIGHT_CHUNK_WORDS >= 8) words.lo.zw = uvec2(weight_word(first, more + 2, slot), weight_word(first, more + 3, slot));
    if (WEIGHT_CHUNK_WORDS >= 2) words.hi.x = weight_word(first, half_way, slot);
    if (WEIGHT_CHUNK_WORDS >= 4) words.hi.y = weight_word(first, half_way + 1, slot);
    if (WEIGHT_CHUNK_WORDS >= 8)
        words.hi.zw = uvec2(weight_word(first, half_way + 2, slot), weight_word(first, half_way + 3, slot));
    return words;
}
// Of a chunk that is the same in all lanes.
ChunkWords weight_chunk(const uint cell, const Slot slot, const uint chunk) {
    return chunk_words_at(cell_first_word(cell), chunk * WEIGHT_CHUNK_WORDS, slot);
}

// Codes of columns 8 * chunk + 0..3 (lo) and + 4..7 (hi) of a cell whose words are `words`; chunk is 0 to 3.
// For COMPACT: of the columns that weight_quad says.
void weight_codes(const uint cell, const Slot slot, const uint chunk, const uvec4 words, const ChunkWords own,
                  out CODES lo, out CODES hi) {
    switch (WEIGHT_TYPE) {
    case WEIGHT_Q4_0:
    case WEIGHT_Q4_1:
    case WEIGHT_Q4_K: four_bit_codes(own.lo.x, lo, hi); break;
    case WEIGHT_Q5_0:
    case WEIGHT_Q5_1:
    case WEIGHT_Q5_K: five_bit_codes(own.lo.x, words.x, chunk, lo, hi); break;
    case WEIGHT_Q2_K:
    case WEIGHT_TQ2_0:
    case WEIGHT_Q2_0: two_bit_codes(chunk_word(words, slot, chunk), chunk, lo, hi); break;
    case WEIGHT_Q3_K: three_bit_codes(chunk_word(words, slot, chunk), words.z, chunk, lo, hi); break;
    case WEIGHT_Q6_K: six_bit_codes(own.lo.x, chunk_word(words, slot, chunk), chunk, lo, hi); break;
    case WEIGHT_IQ2_XXS: iq2_xxs_codes(words, chunk, lo, hi); break;
    case WEIGHT_IQ2_XS: iq2_xs_codes(words, slot, chunk, lo, hi); break;
    case WEIGHT_IQ2_S: iq2_s_codes(words, chunk, lo, hi); break;
    case WEIGHT_IQ3_XXS: iq3_xxs_codes(words, slot, chunk, lo, hi); break;
    case WEIGHT_IQ3_S: iq3_s_codes(words, slot, chunk, lo, hi); break;
    case WEIGHT_IQ1_S: iq1_s_codes(words, chunk, lo, hi); break;
    case WEIGHT_IQ1_M: iq1_m_codes(words, chunk, lo, hi); break;
    case WEIGHT_Q1_0: q1_0_codes(words.x, chunk, lo, hi); break;
    case WEIGHT_TQ1_0: tq1_0_codes(cell, slot, chunk, words, lo, hi); break;
    case WEIGHT_Q8_0: lo = q8_codes(own.lo.x), hi = q8_codes(own.hi.x); break;
#ifndef WEIGHT_INTS
    case WEIGHT_IQ4_NL:
    case WEIGHT_IQ4_XS: iq4_codes(own.lo.x, lo, hi); break;
    case WEIGHT_MXFP4:
    case WEIGHT_NVFP4:
    case WEIGHT_NVFP4_S: fp4_codes(own.lo.x, lo, hi); break;
    case WEIGHT_F8_E4M3: lo = f8_codes(own.lo.x), hi = f8_codes(own.hi.x); break;
    case WEIGHT_F16: lo = f16_codes(own.lo.xy), hi = f16_codes(own.hi.xy); break;
    case WEIGHT_BF16: lo = bf16_codes(own.lo.xy), hi = bf16_codes(own.hi.xy); break;
    default: lo = uintBitsToFloat(own.lo), hi = uintBitsToFloat(own.hi);
#endif
    }
}

// All that a chunk of a row is made of, as it is loaded, so that a kernel can load it long before it waits for it.
struct WeightChunk {
    Unit unit;
    uvec4 words;
    ChunkWords own;
};
const bool WEIGHT_TWO_WORDS = WEIGHT_TYPE == WEIGHT_Q2_K || WEIGHT_TYPE == WEIGHT_Q3_K || WEIGHT_TYPE == WEIGHT_Q6_K ||
                              WEIGHT_TYPE == WEIGHT_TQ2_0 || WEIGHT_TYPE == WEIGHT_Q2_0 || WEIGHT_TYPE == WEIGHT_IQ2_XS ||
                              WEIGHT_TYPE == WEIGHT_IQ3_XXS || WEIGHT_TYPE == WEIGHT_IQ3_S;  // those of chunk_words
void load_codes(const uint cell, const Slot slot, const uint chunk, inout WeightChunk to) {
    to.words = weight_cell(cell, slot);
    if (WEIGHT_TWO_WORDS) to.words.x = weight_word(to.words.x + chunk / 2, slot);
    to.own = chunk_words_at(cell_first_word(cell) + chunk * WEIGHT_CHUNK_WORDS, 0, slot);
}
WeightChunk load_weights(const uint cell, const Slot slot, const uint chunk) {
    WeightChunk loaded;
    loaded.unit = weight_unit(cell, slot);
    load_codes(cell, slot, chunk, loaded);
    return loaded;
}

// Of the columns around `chunk` that share it.
Affine weight_affine(const uint cell, const uint chunk, const Unit unit, const uvec4 words) {
    const uint i = cell % WEIGHT_UNIT_CELLS;
    switch (WEIGHT_TYPE) {
    case WEIGHT_Q4_0: return q4_0_affine(unit);
    case WEIGHT_Q4_1: return q4_1_affine(unit);
    case WEIGHT_Q5_0: return q5_0_affine(unit);
    case WEIGHT_Q5_1: return q5_1_affine(unit);
    case WEIGHT_Q2_K: return q2_k_affine(unit, words.z, i, chunk);
    case WEIGHT_Q3_K: return q3_k_affine(unit, i, chunk);
    case WEIGHT_Q4_K: return six_bit_affine(unit, i, 16.0);
    case WEIGHT_Q5_K: return six_bit_affine(unit, i, 32.0);
    case WEIGHT_Q6_K: return q6_k_affine(unit, words.z, i, chunk);
    case WEIGHT_F32:
    case WEIGHT_F16:
    case WEIGHT_BF16: return Affine(1.0, 0.0, 0.0);
    case WEIGHT_IQ2_XXS: return iq2_xxs_affine(unit, words);
    case WEIGHT_IQ2_XS:
    case WEIGHT_IQ2_S: return iq2_affine(unit, i, chunk);
    case WEIGHT_IQ3_XXS: return iq3_xxs_affine(unit, words);
    case WEIGHT_IQ3_S: return iq3_s_affine(unit, i);
    case WEIGHT_IQ1_S: return iq1_s_affine(unit, words);
    case WEIGHT_IQ1_M: return iq1_m_affine(unit, i, chunk);
    case WEIGHT_TQ1_0: return tq1_0_affine(unit);
    case WEIGHT_TQ2_0:
    case WEIGHT_Q2_0: return two_bit_affine(unit);
#ifndef WEIGHT_INTS
    case WEIGHT_IQ4_XS: return iq4_xs_affine(unit, i);
    case WEIGHT_MXFP4: return mxfp4_affine(unit.word >> unit.bit & 0xFFu);
    case WEIGHT_NVFP4: return nvfp4_affine(unit.word, i, chunk);
    case WEIGHT_NVFP4_S: return nvfp4_s_affine(unit, i, chunk);
#endif
    default: return Affine(unit_d(unit).x, 0.0, 0.0);  // q8_0, q1_0, iq4_nl, f8_e4m3
    }
}
Affine weight_affine(const uint cell, const Slot slot, const uint chunk) {
    return weight_affine(cell, chunk, weight_unit(cell, slot), weight_cell(cell, slot));
}

// How much a code that is a whole number counts in the float codes that Affine is for, which begin at 1 (else at 0).
float weight_step() {
    switch (WEIGHT_TYPE) {
    case WEIGHT_Q2_K:
    case WEIGHT_TQ2_0:
    case WEIGHT_Q2_0: return 1.0 / 4.0;
    case WEIGHT_Q3_K: return 1.0 / 8.0;
    case WEIGHT_Q4_0:
    case WEIGHT_Q4_1:
    case WEIGHT_Q4_K: return 1.0 / 16.0;
    case WEIGHT_Q5_0:
    case WEIGHT_Q5_1:
    case WEIGHT_Q5_K: return 1.0 / 32.0;
    case WEIGHT_Q6_K: return 1.0 / 64.0;
#ifdef WEIGHT_INTS
    case WEIGHT_TQ1_0: return 1.0 / 4.0;
    case WEIGHT_IQ1_S:
    case WEIGHT_IQ1_M: return 1.0 / 32.0;
#endif
    default: return 1.0;
    }
}
// A weight is x code + y; `whole`: codes of whole bits are whole numbers.
vec2 weight_line(const Affine affine, const bool whole) {
    const bool halves = CODE_HALVES && WEIGHT_HALF_CODES;
    const float step = whole || halves ? weight_step() : 1.0, first = step == 1.0 ? 0.0 : 1.0;
    const float whole_one = halves ? step * 16777216.0 : step;
    return vec2(affine.scale * whole_one,
                WEIGHT_SHIFTED ? affine.offset + affine.scale * (first - affine.zero) : 0.0);
}

#ifndef WEIGHT_INTS
// The file's values, bit for bit.
precise vec4 weight_values(vec4 codes, Affine affine) {
    if (WEIGHT_PLAIN) return codes;
    if (WEIGHT_TYPE == WEIGHT_MXFP4 || WEIGHT_TYPE == WEIGHT_NVFP4 || WEIGHT_TYPE == WEIGHT_NVFP4_S ||
        WEIGHT_TYPE == WEIGHT_F8_E4M3) {
        // A code of -0 stands for 0. On bits: compilers may take 0 and -0 for the same (Mesa 26 does).
        const uvec4 bits = floatBitsToUint(codes);
        codes = uintBitsToFloat(mix(bits, uvec4(0), equal(bits, uvec4(0x80000000u))));
    }
    precise vec4 product;
    if (WEIGHT_TYPE == WEIGHT_MXFP4) {
        product = affine.zero * codes;
        product *= affine.offset;
        return product;
    }
    product = affine.scale * (codes - affine.zero);
    if (WEIGHT_OFFSET) product += affine.offset;
    return product;
}
void weight_values(const WeightChunk loaded, const uint cell, const Slot slot, const uint chunk, out vec4 lo,
                   out vec4 hi) {
    weight_codes(cell, slot, chunk, loaded.words, loaded.own, lo, hi);
    const Affine affine = weight_affine(cell, chunk, loaded.unit, loaded.words);
    lo = weight_values(lo, affine);
    hi = weight_values(hi, affine);
}
void weight_values(const uint cell, const Slot slot, const uint chunk, out vec4 lo, out vec4 hi) {
    weight_values(load_weights(cell, slot, chunk), cell, slot, chunk, lo, hi);
}
#endif
