// Points of a ternary grid, all shifted up or down by an eighth: d (1 + 2 s) (v +- 1/8). The table plane holds
// 2048 entries of 16 bits, two a column, v + 1; units of 256 columns.
//   iq1_s  8 words of index bytes; 4 of halves: 4 x 3 high index bits, s (3 bits), shift of the cell; side d
//   iq1_m  8 words of index bytes; 4 of nibbles: 3 high index bits, shift; 2 of s (3 bits, of 16 columns)
//          in 12 bits of every half, with a nibble of d above

// 8 (v + shift) of four columns, a signed byte each.
uint iq1_eighths(const uint four, const bool down) {
    const uint twos = (four | four << 12) & 0x000F000Fu, bytes = (twos | twos << 6) & 0x03030303u;
    return (bytes << 3) + (down ? 0x77777777u : 0x79797979u) ^ 0x80808080u;
}
// v + 1 + shift in ones, as dequant_bits.glsl: (1 + (v + 1) / 4) - 1.25 + shift / 4, exact.
void iq1_codes(const uint index, const bool down, out CODES lo, out CODES hi) {
    const uint entry = weight_table(index / 2) >> (16 * (index % 2));
#ifdef WEIGHT_INTS
    lo = iq1_eighths(entry & 0xFFu, down);
    hi = iq1_eighths(entry >> 8 & 0xFFu, down);
#else
    const float shift = down ? -1.28125 : -1.21875;
    const uvec4 at = uvec4(entry << 21, entry << 19, entry << 17, entry << 15);
    const uvec4 next = uvec4(entry << 13, entry << 11, entry << 9, entry << 7);
    lo = one_plus(at & 0x600000u) + shift;
    hi = one_plus(next & 0x600000u) + shift;
#endif
}
// Index bytes of a cell, and what else it has of index bits.
uvec4 iq1_s_words(const uint cell, const Slot slot) {
    const uint first = cell / 8 * 12, i = cell % 8;
    return uvec4(weight_word(first + i, slot), weight_word(first + 8 + i / 2, slot) >> (16 * (i % 2)) & 0xFFFFu, 0, 0);
}
uvec4 iq1_m_words(const uint cell, const Slot slot) {
    const uint first = cell / 8 * 14, i = cell % 8;
    return uvec4(weight_word(first + i, slot), weight_word(first + 8 + i / 2, slot) >> (16 * (i % 2)), 0, 0);
}
void iq1_s_codes(const uvec4 words, const uint chunk, out CODES lo, out CODES hi) {
    const uint high = words.y >> (3 * chunk) & 7u;
    iq1_codes(byte_of(words.x, chunk) | high << 8, (words.y & 0x8000u) != 0, lo, hi);
}
void iq1_m_codes(const uvec4 words, const uint chunk, out CODES lo, out CODES hi) {
    const uint high = words.y >> (4 * chunk);
    iq1_codes(byte_of(words.x, chunk) | (high & 7u) << 8, (high & 8u) != 0, lo, hi);
}

// Codes are quarters, hence 4 d.
Affine iq1_s_affine(const Unit unit, const uvec4 words) {
    return Affine(4.0 * unit_d(unit).x * float(1u + 2u * (words.y >> 12 & 7u)), 0.0, 0.0);
}
Unit iq1_m_unit(const uint unit, const Slot slot) {
    const uint a = weight_word(unit * 14, 12, slot), b = weight_word(unit * 14, 13, slot);
    const uint d = (a >> 12 & 0xFu) | (a >> 24 & 0xF0u) | (b >> 4 & 0xF00u) | (b >> 16 & 0xF000u);
    return Unit(d, 0, uvec3(a, b, 0));
}
Affine iq1_m_affine(const Unit unit, const uint i, const uint chunk) {
    const uint scales = i < 4 ? unit.words.x : unit.words.y;
    const uint s = scales >> (16 * (i / 2 % 2) + 6 * (i % 2) + 3 * (chunk / 2)) & 7u;
    return Affine(4.0 * unit_d(unit).x * float(1u + 2u * s), 0.0, 0.0);
}
