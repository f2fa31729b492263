// E2M1 floats, v = 0 1/2 1 3/2 2 3 4 6 and their negatives (-0 is 0: weight_values); codes are v 2^-14.
//   mxfp4  2^(e - 127) v(q)   unit of 32: 4 words of codes, side the byte e  (OCP Microscaling 1.0)
//   nvfp4  s v(q)             unit of 64: a word of scales s of 16 columns each, 8 of codes
//   nvfp4_s  d s v(q)         the same behind a word of the float d
//
// In a word of codes the three bits of columns 0, 1, 4 and 5 begin at bits 0, 7, 3 and 10, and their signs are bits 6, 13, 14 and
// 15; those of columns 2, 3, 6 and 7 lie 16 higher. From bit 9 of a half on, three bits are the float itself, subnormal or not, so
// two columns are made at once, of columns 0 to 3 by one shift. Four such places that are shifts of each other do not fit.
// A word of scales has four of seven bits (E4M3 without sign and NaN: weight_formats.cpp), which begin at bits 7, 23, 0 and 16:
// from bit 7 of a half on they are the scale over 2^8.

// Of bits 22 to 24 and 31. Added to those of 2^-15, three bits make h = 2^(e - 15) (1 + m / 2): right but for e = 0, where
// m 2^-15 is wanted. 2 h - 2^-14 is that, and no less than h elsewhere.
vec4 fp4_values(const uvec4 magnitudes, const uvec4 signs) {
    const vec4 h = uintBitsToFloat((magnitudes & 0x01C00000u) + 0x38000000u);
    return uintBitsToFloat(floatBitsToUint(min(h, 2.0 * h - 6.103515625e-05)) | signs & 0x80000000u);
}
// Bits 9 to 11 and 25 to 27 of `magnitudes`, 15 and 31 of `signs`.
vec2 fp4_halves(const uint magnitudes, const uint signs) {
    return unpackHalf2x16(magnitudes & 0x0E000E00u | signs & 0x80008000u);
}
#ifdef COMPACT
void start_fp4() { lane_table = fp4_values(uvec4(sg_lane() << 22), uvec4(0)).xx; }
vec4 signed_values(const uvec4 magnitudes, const uvec4 signs) {
    return uintBitsToFloat(floatBitsToUint(eight_values(lane_table.x, magnitudes)) ^ signs & 0x80000000u);
}
#endif
void fp4_codes(const uint q, out vec4 lo, out vec4 hi) {
    const uvec4 lo_signs = uvec4(q << 25, q << 18, q << 9, q << 2), hi_signs = uvec4(q << 17, q << 16, q << 1, q);
#ifdef COMPACT
    if (LANE_TABLES) {
        lo = signed_values(uvec4(q, q >> 7, q >> 16, q >> 23), lo_signs);
        hi = signed_values(uvec4(q >> 3, q >> 10, q >> 19, q >> 26), hi_signs);
        return;
    }
#endif
    if (HALVES_FLUSH) {
        lo = fp4_values(uvec4(q << 22, q << 15, q << 6, q >> 1), lo_signs);
        hi = fp4_values(uvec4(q << 19, q << 12, q << 3, q >> 4), hi_signs);
    } else {
        lo = vec4(fp4_halves(q << 9, q << 9), fp4_halves(q << 2, q << 2)).xzyw;
        hi = vec4(fp4_halves(q << 6, q << 1), fp4_halves(q >> 1, q)).xzyw;
    }
}

// A scale times 2^14 may be more than floats hold. Sums take the largest float then, and not infinity, by which 0 is none;
// values the last power of two, as the zero, and as the offset what is still to be multiplied (weight_values).
Affine mxfp4_affine(const uint e) {
    return Affine(uintBitsToFloat(min((e + 14u) << 23, 0x7F7FFFFFu)), uintBitsToFloat(min(e + 14u, 254u) << 23),
                  e > 240u ? uintBitsToFloat((e - 113u) << 23) : 1.0);
}
Affine nvfp4_affine(const uint scales, const uint i, const uint chunk) {
    const uint half_bits = (scales << 7 * (i % 2) & 0x3F803F80u) >> 16 * (chunk / 2);
    const uint exponent = half_bits >> 10 & 15u, fraction = half_bits >> 7 & 7u;
    const float scale = !HALVES_FLUSH ? 4194304.0 * unpackHalf2x16(half_bits).x
                        : exponent == 0u ? float(fraction) * 32.0
                                         : uintBitsToFloat((exponent + 134u) << 23 | fraction << 20);
    return Affine(scale, 0.0, 0.0);
}
Unit nvfp4_s_unit(const uint unit, const Slot slot) {
    return Unit(weight_word(unit * 10, slot), 0, uvec3(weight_word(unit * 10, 1, slot), 0, 0));
}
Affine nvfp4_s_affine(const Unit unit, const uint i, const uint chunk) {
    Affine affine = nvfp4_affine(unit.words.x, i, chunk);
    affine.scale *= uintBitsToFloat(unit.word);
    return affine;
}
