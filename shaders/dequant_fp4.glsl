// Nibbles that are E2M1 floats, here doubled: 0 1 2 3 4 6 8 12 and their negatives (-0 is 0: weight_values).
//   mxfp4  2^(e - 128) v(q)   unit of 32: 4 words of codes, side the byte e  (OCP Microscaling 1.0)
//   nvfp4  s v(q) / 2         unit of 64: a word of E4M3 scales s of 16 columns each, 8 of codes
//   nvfp4_s  d s v(q) / 2     the same behind a word of the float d

// The low three bits, added to those of 1.0 from the top mantissa bit on, make h = 2^e (1 + m / 2): the value
// but for e = 0, where m is wanted. 2 h - 2 is that, and no less than h elsewhere.
vec4 fp4_values(const uint q) {
    const vec4 h = uintBitsToFloat(byte_fields(q, 0, 22, 3) + 0x3F800000u);
    const uvec4 signs = uvec4(q << 28, q << 20, q << 12, q << 4) & 0x80000000u;
    return uintBitsToFloat(floatBitsToUint(min(h, 2.0 * h - 2.0)) | signs);
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
    lo = fp4_values(q);
    hi = fp4_values(q >> 4);
}

// The scales of e = 0 and 1 are subnormal, the values they make are mostly not: so a normal scale and,
// as the offset, what is still to be multiplied (weight_values).
Affine mxfp4_affine(const uint e) {
    return Affine(uintBitsToFloat((max(e, 2u) - 1u) << 23), 0.0, e < 2u ? 0.25 * float(e + 1u) : 1.0);
}
Affine nvfp4_affine(const uint scales, const uint i, const uint chunk) {
    const uint s = byte_of(scales, i % 2 * 2 + chunk / 2);
    const uint exponent = s >> 3 & 15u, fraction = s & 7u;
    // 2^(exponent - 8) (1 + fraction / 8)
    const float normal = uintBitsToFloat((exponent + 119u) << 23 | fraction << 20);
    const float scale = exponent == 0u ? float(fraction) / 1024.0 : normal;
    return Affine(s == 0x7Fu ? 0.0 : scale, 0.0, 0.0);  // NaN counts as zero
}
Unit nvfp4_s_unit(const uint unit, const Slot slot) {
    return Unit(weight_word(unit * 10, slot), 0, uvec3(weight_word(unit * 10 + 1, slot), 0, 0));
}
Affine nvfp4_s_affine(const Unit unit, const uint i, const uint chunk) {
    Affine affine = nvfp4_affine(unit.words.x, i, chunk);
    affine.scale *= uintBitsToFloat(unit.word);
    return affine;
}
