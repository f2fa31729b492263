// q4_0: d (q - 8).  q4_1: d q + m.  Byte i of a block holds q_i low and q_{i+16} high, so word c holds
// elements 4c.. and 16 + 4c...
//
// A nibble set as the top mantissa bits of 1.0 is 1 + q / 16 exactly: one shift and one and-or where a
// conversion would take a shift, an and and a convert.

void q4_codes(uint cell, uint slot, uint chunk, out vec4 lo, out vec4 hi) {
    const uint q = weight_word(cell * 4 + chunk, slot);
    lo = uintBitsToFloat((uvec4(q << 19, q << 11, q << 3, q >> 5) & 0x780000u) | 0x3F800000u);
    hi = uintBitsToFloat((uvec4(q << 15, q << 7, q >> 1, q >> 9) & 0x780000u) | 0x3F800000u);
}

Affine q4_0_affine(uint cell, uint slot) { return Affine(16.0 * weight_half(cell, slot), 1.5, 0.0); }

Affine q4_1_affine(uint cell, uint slot) {
    const vec2 dm = weight_halves(cell, slot);
    return Affine(16.0 * dm.x, 1.0, dm.y);
}
