// Points of a ternary grid, all shifted up or down by an eighth: d (1 + 2 s) (v +- 1/8). The table plane holds
// 2048 entries of 16 bits, two a column, v + 1; units of 256 columns.
//   iq1_s  8 words of index bytes; 4 of halves: 4 x 3 high index bits, s (3 bits), shift of the cell; side d
//   iq1_m  8 words of index bytes; 4 of nibbles: 3 high index bits, shift; 2 of s (3 bits, of 16 columns)
//          in 12 bits of every half, with a nibble of d above

// v + 1 + shift in ones, as dequant_bits.glsl: (1 + (v + 1) / 4) - 1.25 + shift / 4, exact.
void iq1_codes(uint index, bool down, out vec4 lo, out vec4 hi) {
    const uint entry = weight_table(index / 2) >> (16 * (index % 2));
    const float shift = down ? -1.28125 : -1.21875;
    const uvec4 at = uvec4(entry << 21, entry << 19, entry << 17, entry << 15);
    const uvec4 next = uvec4(entry << 13, entry << 11, entry << 9, entry << 7);
    lo = one_plus(at & 0x600000u) + shift;
    hi = one_plus(next & 0x600000u) + shift;
}
uint iq1_s_head(uint cell, uint slot) {
    return weight_word(cell / 8 * 12 + 8 + cell % 8 / 2, slot) >> (16 * (cell % 2)) & 0xFFFFu;
}
void iq1_s_codes(uint cell, uint slot, uint chunk, out vec4 lo, out vec4 hi) {
    const uint head = iq1_s_head(cell, slot);
    const uint low = byte_of(weight_word(cell / 8 * 12 + cell % 8, slot), chunk);
    iq1_codes(low | (head >> (3 * chunk) & 7u) << 8, (head & 0x8000u) != 0, lo, hi);
}
void iq1_m_codes(uint cell, uint slot, uint chunk, out vec4 lo, out vec4 hi) {
    const uint first = cell / 8 * 14, i = cell % 8 * 4 + chunk;
    const uint head = weight_word(first + 8 + i / 8, slot) >> (4 * (i % 8));
    iq1_codes(byte_of(weight_word(first + cell % 8, slot), chunk) | (head & 7u) << 8, (head & 8u) != 0, lo, hi);
}

// Codes are quarters, hence 4 d.
Affine iq1_s_affine(uint cell, uint slot) {
    const uint s = iq1_s_head(cell, slot) >> 12 & 7u;
    return Affine(4.0 * weight_half(cell / 8, slot) * float(1u + 2u * s), 0.0, 0.0);
}
Affine iq1_m_affine(uint cell, uint slot, uint chunk) {
    const uint first = cell / 8 * 14 + 12, i = cell % 8;
    const uint a = weight_word(first, slot), b = weight_word(first + 1, slot);
    const uint d = (a >> 12 & 0xFu) | (a >> 24 & 0xF0u) | (b >> 4 & 0xF00u) | (b >> 16 & 0xF000u);
    const uint s = (i < 4 ? a : b) >> (16 * (i / 2 % 2) + 6 * (i % 2) + 3 * (chunk / 2)) & 7u;
    return Affine(4.0 * unpackHalf2x16(d).x * float(1u + 2u * s), 0.0, 0.0);
}
