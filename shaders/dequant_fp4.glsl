// Nibbles that are E2M1 floats, v = 0 1/2 1 3/2 2 3 4 6 and their negatives (-0 is 0: weight_values); codes are v 2^-14.
//   mxfp4  2^(e - 127) v(q)   unit of 32: 4 words of codes, side the byte e  (OCP Microscaling 1.0)
//   nvfp4  s v(q)             unit of 64: a word of E4M3 scales s of 16 columns each, 8 of codes
//   nvfp4_s  d s v(q)         the same behind a word of the float d

// Of the low nibbles. Added to those of 2^-15, three bits make h = 2^(e - 15) (1 + m / 2): right but for e = 0, where
// m 2^-15 is wanted. 2 h - 2^-14 is that, and no less than h elsewhere.
vec4 fp4_values(const uint q) {
    const vec4 h = uintBitsToFloat(byte_fields(q, 0, 22, 3) + 0x38000000u);
    const uvec4 signs = uvec4(q << 28, q << 20, q << 12, q << 4) & 0x80000000u;
    return uintBitsToFloat(floatBitsToUint(min(h, 2.0 * h - 6.103515625e-05)) | signs);
}
// Nibbles 16 bits apart whose lowest bits are bits 9 and 25 of `magnitudes`, their signs the bits below 15 and 31 of `signs`:
// below the exponent of a half they are that float, subnormal ones as well.
vec2 fp4_halves(const uint magnitudes, const uint signs) {
    return unpackHalf2x16(magnitudes & 0x0E000E00u | signs & 0x80008000u);
}
#ifdef COMPACT
void start_fp4() { lane_table = fp4_values(sg_lane()).xx; }
#endif
void fp4_codes(const uint q, out vec4 lo, out vec4 hi) {
#ifdef COMPACT
    if (LANE_TABLES) {
        lo = signed_values(q);
        hi = signed_values(q >> 4);
        return;
    }
#endif
    if (HALVES_FLUSH) {
        lo = fp4_values(q);
        hi = fp4_values(q >> 4);
    } else {
        lo = vec4(fp4_halves(q << 9, q << 12), fp4_halves(q << 1, q << 4)).xzyw;
        hi = vec4(fp4_halves(q << 5, q << 8), fp4_halves(q >> 3, q)).xzyw;
    }
}

// A scale times 2^14 may be more than floats hold. Sums take the largest float then, and not infinity, by which 0 is none;
// values the last power of two, as the zero, and as the offset what is still to be multiplied (weight_values).
Affine mxfp4_affine(const uint e) {
    return Affine(uintBitsToFloat(min((e + 14u) << 23, 0x7F7FFFFFu)), uintBitsToFloat(min(e + 14u, 254u) << 23),
                  e > 240u ? uintBitsToFloat((e - 113u) << 23) : 1.0);
}
// 2^14 times a float of E4M3, whose seven bits are a half's over 2^8 (f8_codes).
float e4m3_scale(const uint s) {
    if (!HALVES_FLUSH) return 4194304.0 * unpackHalf2x16(s << 7 & 0x3F80u).x;
    const uint exponent = s >> 3 & 15u, fraction = s & 7u;
    return exponent == 0u ? float(fraction) * 32.0 : uintBitsToFloat((exponent + 134u) << 23 | fraction << 20);
}
Affine nvfp4_affine(const uint scales, const uint i, const uint chunk) {
    const uint s = byte_of(scales, i % 2 * 2 + chunk / 2);
    return Affine(s == 0x7Fu ? 0.0 : e4m3_scale(s), 0.0, 0.0);  // NaN counts as zero
}
Unit nvfp4_s_unit(const uint unit, const Slot slot) {
    return Unit(weight_word(unit * 10, slot), 0, uvec3(weight_word(unit * 10 + 1, slot), 0, 0));
}
Affine nvfp4_s_affine(const Unit unit, const uint i, const uint chunk) {
    Affine affine = nvfp4_affine(unit.words.x, i, chunk);
    affine.scale *= uintBitsToFloat(unit.word);
    return affine;
}
