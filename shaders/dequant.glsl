// Weights of one shard as floats. The includer declares `readonly buffer { uint weight_words[]; }` and
// WEIGHT_HIGH_PLANE and WEIGHT_SCALE_PLANE, the first words of those planes (weight_planes.h).
//
// A weight is scale * (code - zero) + offset: `code` is what the bits give most cheaply, and the rest is
// the same for a block, so that kernels multiply codes and apply scale and offset once per block:
//   sum w x = scale * sum code x + (offset - scale * zero) * sum x.
// Evaluated as written it is the file's value bit for bit: code - zero and its product with scale are exact.
//
// A type is one file of these functions and one line in each table below.
#include "weight_planes.h"

layout(constant_id = 2) const uint WEIGHT_TYPE = WEIGHT_F32;

struct Affine {
    float scale, zero, offset;
};

uint weight_word(uint word, uint slot) { return weight_words[word * WEIGHT_GROUP_ROWS + slot]; }
uint weight_high(uint cell, uint slot) {
    return weight_words[WEIGHT_HIGH_PLANE + cell * WEIGHT_GROUP_ROWS + slot];
}
vec2 weight_halves(uint cell, uint slot) {
    return unpackHalf2x16(weight_words[WEIGHT_SCALE_PLANE + cell * WEIGHT_GROUP_ROWS + slot]);
}
// Slots 0-7 are the even rows: slots i and i + 8 share a word.
float weight_half(uint cell, uint slot) {
    const vec2 pair = unpackHalf2x16(
        weight_words[WEIGHT_SCALE_PLANE + cell * WEIGHT_GROUP_PAIRS + slot % WEIGHT_GROUP_PAIRS]);
    return slot < WEIGHT_GROUP_PAIRS ? pair.x : pair.y;
}

#include "dequant_float.glsl"
#include "dequant_q4.glsl"
#include "dequant_q5.glsl"
#include "dequant_q8.glsl"

// Whether codes are the values themselves, and whether `offset - scale * zero` is not always zero.
const bool WEIGHT_PLAIN = WEIGHT_TYPE == WEIGHT_F32 || WEIGHT_TYPE == WEIGHT_F16 || WEIGHT_TYPE == WEIGHT_BF16;
const bool WEIGHT_SHIFTED = !WEIGHT_PLAIN && WEIGHT_TYPE != WEIGHT_Q8_0;

// Codes of columns 4 * chunk + 0..3 (lo) and 16 + 4 * chunk + 0..3 (hi) of a block; chunk is 0 to 3.
void weight_codes(uint cell, uint slot, uint chunk, out vec4 lo, out vec4 hi) {
    if (WEIGHT_TYPE == WEIGHT_Q4_0 || WEIGHT_TYPE == WEIGHT_Q4_1) {
        q4_codes(cell, slot, chunk, lo, hi);
    } else if (WEIGHT_TYPE == WEIGHT_Q5_0 || WEIGHT_TYPE == WEIGHT_Q5_1) {
        q5_codes(cell, slot, chunk, lo, hi);
    } else if (WEIGHT_TYPE == WEIGHT_Q8_0) {
        lo = q8_codes(cell, slot, 4 * chunk);
        hi = q8_codes(cell, slot, 4 * chunk + 16);
    } else if (WEIGHT_TYPE == WEIGHT_F16) {
        lo = f16_codes(cell, slot, 4 * chunk);
        hi = f16_codes(cell, slot, 4 * chunk + 16);
    } else if (WEIGHT_TYPE == WEIGHT_BF16) {
        lo = bf16_codes(cell, slot, 4 * chunk);
        hi = bf16_codes(cell, slot, 4 * chunk + 16);
    } else {
        lo = f32_codes(cell, slot, 4 * chunk);
        hi = f32_codes(cell, slot, 4 * chunk + 16);
    }
}

Affine weight_affine(uint cell, uint slot) {
    if (WEIGHT_TYPE == WEIGHT_Q4_0) return q4_0_affine(cell, slot);
    if (WEIGHT_TYPE == WEIGHT_Q4_1) return q4_1_affine(cell, slot);
    if (WEIGHT_TYPE == WEIGHT_Q5_0) return q5_0_affine(cell, slot);
    if (WEIGHT_TYPE == WEIGHT_Q5_1) return q5_1_affine(cell, slot);
    if (WEIGHT_TYPE == WEIGHT_Q8_0) return q8_0_affine(cell, slot);
    return Affine(1.0, 0.0, 0.0);
}

// The file's values, bit for bit.
precise vec4 weight_values(vec4 codes, Affine affine) {
    if (WEIGHT_PLAIN) return codes;
    precise vec4 product = affine.scale * (codes - affine.zero);
    if (WEIGHT_TYPE == WEIGHT_Q4_1 || WEIGHT_TYPE == WEIGHT_Q5_1) product += affine.offset;
    return product;
}
