// Points of a grid: 8 (IQ2) or 4 (IQ3) columns are one entry of a table, with signs and a scale. The table
// plane holds the entries, a byte a column. Units of 256 columns, side d; l is a chunk of 8 columns.
//   iq2_xxs  d (1/2 + s) / 4     a cell: indices of 4 chunks, then 4 x 7 signs and s
//   iq2_xs   d (1/2 + s) / 4     16 words of two chunks: index (9 bits) and 7 signs; 2 of scales
//   iq2_s    d (1/2 + s) / 4     8 words of indices, 8 of signs, 2 of high index bits, 2 of scales
//   iq3_xxs  d (1/2 + s) / 2     16 words of 4 indices; 8 of 4 x 7 signs and s
//   iq3_s    d (1 + 2 s)         16 words of 4 indices, 2 of ninth index bits, 8 of signs, 1 of scales
// s is 4 bits, of 16 columns in iq2_xs and iq2_s and of 32 in the others.

// The eighth of seven signs makes their number even. CPU drivers make ten instructions of bitCount(); bit 15 - i of 0x6996
// is the parity of i.
#ifdef COMPACT
uint eight_signs(const uint seven) { return seven | (0x6996u << ((seven ^ seven >> 4) & 15u) & 0x8000u) >> 8; }
#else
uint eight_signs(const uint seven) { return seven | (uint(bitCount(seven)) & 1u) << 7; }
#endif

void grid_codes(const uint entry, const uint signs, out CODES lo, out CODES hi) {
    const uvec2 points = weight_table_pair(entry);
    lo = with_signs(sizes_of(points.x), signs);
    hi = with_signs(sizes_of(points.y), signs >> 4);
}
// Indices of a cell, one or two words, then signs, then high bits of the indices.
uvec4 iq2_s_words(const uint unit, const uint i, const Slot slot) {
    const uint first = unit * 20;
    return uvec4(weight_word(first + i, slot), 0, weight_word(first + 8 + i, slot),
                 byte_of(weight_word(first + 16 + i / 4, slot), i % 4));
}
uvec4 iq3_xxs_words(const uint unit, const uint i, const Slot slot) {
    return uvec4(chunk_words(unit * 24 + 2 * i, slot), weight_word(unit * 24 + 16 + i, slot), 0);
}
uvec4 iq3_s_words(const uint unit, const uint i, const Slot slot) {
    const uint first = unit * 27;
    return uvec4(chunk_words(first + 2 * i, slot), weight_word(first + 18 + i, slot),
                 byte_of(weight_word(first + 16 + i / 4, slot), i % 4));
}
uint half_word(const uvec4 words, const Slot slot, const uint chunk) {
    return chunk_word(words, slot, chunk) >> (16 * (chunk % 2)) & 0xFFFFu;
}

void iq2_xxs_codes(const uvec4 words, const uint chunk, out CODES lo, out CODES hi) {
    grid_codes(byte_of(words.x, chunk), eight_signs(words.y >> (7 * chunk) & 127u), lo, hi);
}
void iq2_xs_codes(const uvec4 words, const Slot slot, const uint chunk, out CODES lo, out CODES hi) {
    const uint q = half_word(words, slot, chunk);
    grid_codes(q & 511u, eight_signs(q >> 9), lo, hi);
}
void iq2_s_codes(const uvec4 words, const uint chunk, out CODES lo, out CODES hi) {
    const uint high = words.w >> (2 * chunk) & 3u;
    grid_codes(byte_of(words.x, chunk) | high << 8, byte_of(words.z, chunk), lo, hi);
}
void iq3_xxs_codes(const uvec4 words, const Slot slot, const uint chunk, out CODES lo, out CODES hi) {
    const uint entries = half_word(words, slot, chunk);
    const uint signs = eight_signs(words.z >> (7 * chunk) & 127u);
    lo = with_signs(sizes_of(weight_table(entries & 255u)), signs);
    hi = with_signs(sizes_of(weight_table(entries >> 8)), signs >> 4);
}
void iq3_s_codes(const uvec4 words, const Slot slot, const uint chunk, out CODES lo, out CODES hi) {
    const uint entries = half_word(words, slot, chunk), ninth = words.w >> (2 * chunk), signs = byte_of(words.z, chunk);
    lo = with_signs(sizes_of(weight_table((entries & 255u) | (ninth & 1u) << 8)), signs);
    hi = with_signs(sizes_of(weight_table(entries >> 8 | (ninth >> 1 & 1u) << 8)), signs >> 4);
}

// d, and the words of scales from `first` on.
Unit iq2_unit(const uint unit, const Slot slot, const uint first) {
    return side_unit(unit, slot, uvec3(weight_word(first, slot), weight_word(first, 1, slot), 0));
}
Unit iq3_s_unit(const uint unit, const Slot slot) {
    return side_unit(unit, slot, uvec3(weight_word(unit * 27 + 26, slot), 0, 0));
}
// Scales of 16 columns, a nibble each.
Affine iq2_affine(const Unit unit, const uint i, const uint chunk) {
    const uint s = (i < 4 ? unit.words.x : unit.words.y) >> (8 * (i % 4) + 4 * (chunk / 2)) & 15u;
    return Affine(unit_d(unit).x * ((0.5 + float(s)) * 0.25), 0.0, 0.0);
}
Affine iq2_xxs_affine(const Unit unit, const uvec4 words) {
    return Affine(unit_d(unit).x * ((0.5 + float(words.y >> 28)) * 0.25), 0.0, 0.0);
}
Affine iq3_xxs_affine(const Unit unit, const uvec4 words) {
    return Affine(unit_d(unit).x * ((0.5 + float(words.z >> 28)) * 0.5), 0.0, 0.0);
}
Affine iq3_s_affine(const Unit unit, const uint i) {
    return Affine(unit_d(unit).x * float(1u + 2u * (unit.words.x >> (4 * i) & 15u)), 0.0, 0.0);
}
