// q5_0: d (q - 16).  q5_1: d q + m.  Low four bits as in q4; bit i of the high word is bit 4 of q_i.
// The code is 1 + q / 32, as in dequant_q4.glsl.

void q5_codes(uint cell, uint slot, uint chunk, out vec4 lo, out vec4 hi) {
    const uint q = weight_word(cell * 4 + chunk, slot);
    const uint h = weight_high(cell, slot) >> (4 * chunk);
    const uint high_bit = 1u << 22;
    lo = uintBitsToFloat((uvec4(q << 18, q << 10, q << 2, q >> 6) & 0x3C0000u) |
                         (uvec4(h << 22, h << 21, h << 20, h << 19) & high_bit) | 0x3F800000u);
    hi = uintBitsToFloat((uvec4(q << 14, q << 6, q >> 2, q >> 10) & 0x3C0000u) |
                         (uvec4(h << 6, h << 5, h << 4, h << 3) & high_bit) | 0x3F800000u);
}

Affine q5_0_affine(uint cell, uint slot) { return Affine(32.0 * weight_half(cell, slot), 1.5, 0.0); }

Affine q5_1_affine(uint cell, uint slot) {
    const vec2 dm = weight_halves(cell, slot);
    return Affine(32.0 * dm.x, 1.0, dm.y);
}
