// Points of a grid: 8 (IQ2) or 4 (IQ3) columns are one entry of a table, with signs and a scale. The table
// plane holds the entries, a byte a column. Units of 256 columns, side d; l is a chunk of 8 columns.
//   iq2_xxs  d (1/2 + s) / 4     a cell: indices of 4 chunks, then 4 x 7 signs and s
//   iq2_xs   d (1/2 + s) / 4     16 words of two chunks: index (9 bits) and 7 signs; 2 of scales
//   iq2_s    d (1/2 + s) / 4     8 words of indices, 8 of signs, 2 of high index bits, 2 of scales
//   iq3_xxs  d (1/2 + s) / 2     16 words of 4 indices; 8 of 4 x 7 signs and s
//   iq3_s    d (1 + 2 s)         16 words of 4 indices, 2 of ninth index bits, 8 of signs, 1 of scales
// s is 4 bits, of 16 columns in iq2_xs and iq2_s and of 32 in the others.

// The eighth of seven signs makes their number even.
uint eight_signs(uint seven) { return seven | (uint(bitCount(seven)) & 1u) << 7; }

void grid_codes(uint entry, uint signs, out vec4 lo, out vec4 hi) {
    lo = with_signs(bytes_of(weight_table(2 * entry)), signs);
    hi = with_signs(bytes_of(weight_table(2 * entry + 1)), signs >> 4);
}
void iq2_xxs_codes(uint cell, uint slot, uint chunk, out vec4 lo, out vec4 hi) {
    const uint entry = byte_of(weight_word(2 * cell, slot), chunk);
    grid_codes(entry, eight_signs(weight_word(2 * cell + 1, slot) >> (7 * chunk) & 127u), lo, hi);
}
void iq2_xs_codes(uint cell, uint slot, uint chunk, out vec4 lo, out vec4 hi) {
    const uint q = weight_word(cell / 8 * 18 + cell % 8 * 2 + chunk / 2, slot) >> (16 * (chunk % 2)) & 0xFFFFu;
    grid_codes(q & 511u, eight_signs(q >> 9), lo, hi);
}
void iq2_s_codes(uint cell, uint slot, uint chunk, out vec4 lo, out vec4 hi) {
    const uint first = cell / 8 * 20, i = cell % 8;
    const uint high = byte_of(weight_word(first + 16 + i / 4, slot), i % 4) >> (2 * chunk) & 3u;
    grid_codes(byte_of(weight_word(first + i, slot), chunk) | high << 8,
               byte_of(weight_word(first + 8 + i, slot), chunk), lo, hi);
}
void iq3_xxs_codes(uint cell, uint slot, uint chunk, out vec4 lo, out vec4 hi) {
    const uint first = cell / 8 * 24, i = cell % 8;
    const uint entries = weight_word(first + i * 2 + chunk / 2, slot) >> (16 * (chunk % 2));
    const uint signs = eight_signs(weight_word(first + 16 + i, slot) >> (7 * chunk) & 127u);
    lo = with_signs(bytes_of(weight_table(entries & 255u)), signs);
    hi = with_signs(bytes_of(weight_table(entries >> 8 & 255u)), signs >> 4);
}
void iq3_s_codes(uint cell, uint slot, uint chunk, out vec4 lo, out vec4 hi) {
    const uint first = cell / 8 * 27, i = cell % 8;
    const uint entries = weight_word(first + i * 2 + chunk / 2, slot) >> (16 * (chunk % 2));
    const uint ninth = byte_of(weight_word(first + 16 + i / 4, slot), i % 4) >> (2 * chunk);
    const uint signs = byte_of(weight_word(first + 18 + i, slot), chunk);
    lo = with_signs(bytes_of(weight_table((entries & 255u) | (ninth & 1u) << 8)), signs);
    hi = with_signs(bytes_of(weight_table((entries >> 8 & 255u) | (ninth >> 1 & 1u) << 8)), signs >> 4);
}

Affine grid_affine(uint unit, uint slot, float scale) { return Affine(weight_half(unit, slot) * scale, 0.0, 0.0); }
// Scales of 16 columns: nibble i of the words from `first`.
Affine iq2_affine(uint cell, uint slot, uint chunk, uint first) {
    const uint i = cell % 8 * 2 + chunk / 2;
    const uint s = weight_word(first + i / 8, slot) >> (4 * (i % 8)) & 15u;
    return grid_affine(cell / 8, slot, (0.5 + float(s)) * 0.25);
}
Affine iq2_xxs_affine(uint cell, uint slot) {
    return grid_affine(cell / 8, slot, (0.5 + float(weight_word(2 * cell + 1, slot) >> 28)) * 0.25);
}
Affine iq3_xxs_affine(uint cell, uint slot) {
    const uint s = weight_word(cell / 8 * 24 + 16 + cell % 8, slot) >> 28;
    return grid_affine(cell / 8, slot, (0.5 + float(s)) * 0.5);
}
Affine iq3_s_affine(uint cell, uint slot) {
    const uint s = weight_word(cell / 8 * 27 + 26, slot) >> (4 * (cell % 8)) & 15u;
    return grid_affine(cell / 8, slot, float(1u + 2u * s));
}
