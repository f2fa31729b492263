// Weights as products of matrix units take them, by arithmetic of halves: code * scale + offset, two at a time, where scale and
// offset are rounded to halves, too. Codes count from their middle, so that no large offset cancels. Columns stand
// in the order of code_pairs(), and x must stand so, too.
const bool WEIGHT_IQ4 = WEIGHT_TYPE == WEIGHT_IQ4_NL || WEIGHT_TYPE == WEIGHT_IQ4_XS;
const bool WEIGHT_HALF_PAIRS = WEIGHT_IQ4 || WEIGHT_HALF_CODES || WEIGHT_TYPE == WEIGHT_Q5_0 || WEIGHT_TYPE == WEIGHT_Q5_1 ||
                               WEIGHT_TYPE == WEIGHT_Q5_K || WEIGHT_TYPE == WEIGHT_Q8_0;
const bool CODE_IS_BYTE = WEIGHT_TYPE == WEIGHT_Q8_0;
const float CODE_MIDDLE = WEIGHT_IQ4 ? 0.0 : CODE_IS_BYTE ? 128.0 : WEIGHT_TYPE == WEIGHT_Q6_K ? 32.0 : WEIGHT_HALF_CODES ? 8.0 : 16.0;

uvec4 code_pairs(const WeightChunk loaded, const Slot slot, const uint chunk) {
    const uint word = loaded.own.lo.x, last = loaded.own.hi.x;
    switch (WEIGHT_TYPE) {
    case WEIGHT_Q5_0:
    case WEIGHT_Q5_1:
    case WEIGHT_Q5_K: return five_bit_pairs(word, loaded.words.x, chunk);
    case WEIGHT_Q6_K: return six_bit_pairs(word, chunk_word(loaded.words, slot, chunk), chunk);
    case WEIGHT_IQ4_NL:
    case WEIGHT_IQ4_XS: return iq4_pairs(word);
    case WEIGHT_Q8_0: return uvec4(word, word >> 8, last, last >> 8) & 0x00FF00FFu ^ 0x00800080u;  // signed
    default: return four_bit_pairs(word);
    }
}
// Eight halves in the order of columns, in that of code_pairs().
uvec4 crossed(const uvec4 halves) {
    const uvec2 first = halves.xz, second = halves.yw;
    const uvec2 low = (first & 0xFFFFu) | second << 16, high = first >> 16 | (second & 0xFFFF0000u);
    return uvec4(low.x, high.x, low.y, high.y);
}
// A code below the mantissa of 1024 is 1024 + code.
f16vec2 codes_from_middle(const uint pair, const bool sixteenfold) {
    if (WEIGHT_IQ4) return iq4_pair(pair);
    const f16vec2 codes = unpackFloat2x16(pair | 0x64006400u);
    if (sixteenfold) return fma(codes, f16vec2(0.0625), f16vec2(float16_t(-64.0 - CODE_MIDDLE)));
    return codes - f16vec2(float16_t(1024.0 + CODE_MIDDLE));
}
// `line`: of weight_line(), with codes as whole numbers.
uvec4 crossed_weights(const uvec4 pairs, const vec2 line) {
    const f16vec2 scale = f16vec2(float16_t(line.x));
    const f16vec2 offset = f16vec2(float16_t(CODE_IS_BYTE ? 0.0 : fma(CODE_MIDDLE, line.x, line.y)));
    uvec4 halves;
    [[unroll]] for (uint i = 0; i < 4; ++i)
        halves[i] = packFloat2x16(fma(codes_from_middle(pairs[i], i >= 2 && !CODE_IS_BYTE), scale, offset));
    return halves;
}
