// The K types: units of 256 columns, i = cell % 8 of 32; scales and minima of 16 or 32 columns are small
// integers s and m, multiples of the unit's d and dmin.
//
// Words of a unit, two-bit and high parts as dequant_bits.glsl says:
//   q2_k  d s q - dmin m        4 of scales (s | m << 4 of 16 columns a byte), 16 of codes, d | dmin << 16
//   q3_k  d (s - 32) (q - 4)    8 of third bits, 16 of low bits, 3 of six-bit scales; side d
//   q4_k  d s q - dmin m        d | dmin << 16, 3 of six-bit scales, 32 of codes
//   q5_k  d s q - dmin m        d | dmin << 16, 3 of six-bit scales, 8 of fifth bits, 32 of low bits
//   q6_k  d s (q - 32)          32 of low bits, 16 of high bits, 4 of scales (signed bytes); side d

void q2_k_codes(uint cell, uint slot, uint chunk, out CODES lo, out CODES hi) {
    two_bit_codes(weight_word(cell / 8 * 21 + 4 + cell % 8 * 2 + chunk / 2, slot), chunk, lo, hi);
}
void q3_k_codes(uint cell, uint slot, uint chunk, out CODES lo, out CODES hi) {
    const uint first = cell / 8 * 27, i = cell % 8;
    three_bit_codes(weight_word(first + 8 + i * 2 + chunk / 2, slot), weight_word(first + i, slot), chunk, lo, hi);
}
void q4_k_codes(uint cell, uint slot, uint chunk, out CODES lo, out CODES hi) {
    four_bit_codes(weight_word(cell / 8 * 36 + 4 + cell % 8 * 4 + chunk, slot), lo, hi);
}
void q5_k_codes(uint cell, uint slot, uint chunk, out CODES lo, out CODES hi) {
    const uint first = cell / 8 * 44 + 4, i = cell % 8;
    five_bit_codes(weight_word(first + 8 + i * 4 + chunk, slot), weight_word(first + i, slot), chunk, lo, hi);
}
void q6_k_codes(uint cell, uint slot, uint chunk, out CODES lo, out CODES hi) {
    const uint first = cell / 8 * 52, i = cell % 8;
    six_bit_codes(weight_word(first + i * 4 + chunk, slot), weight_word(first + 32 + i * 2 + chunk / 2, slot),
                  chunk, lo, hi);
}

Affine q2_k_affine(uint cell, uint slot, uint chunk) {
    const uint first = cell / 8 * 21, i = cell % 8 * 2 + chunk / 2;
    const uint scales = byte_of(weight_word(first + i / 4, slot), i % 4);
    const vec2 dm = unpackHalf2x16(weight_word(first + 20, slot));
    return Affine(4.0 * dm.x * float(scales & 15u), 1.0, -(dm.y * float(scales >> 4)));
}
// Low four bits of scale i: byte i % 8, nibble i / 8; high two: byte 8 + i % 4, from bit 2 (i / 4).
Affine q3_k_affine(uint cell, uint slot, uint chunk) {
    const uint first = cell / 8 * 27 + 24, i = cell % 8 * 2 + chunk / 2;
    const uint low = weight_word(first + i % 8 / 4, slot) >> (8 * (i % 4) + 4 * (i / 8)) & 15u;
    const uint high = weight_word(first + 2, slot) >> (8 * (i % 4) + 2 * (i / 4)) & 3u;
    return Affine(8.0 * weight_half(cell / 8, slot) * float(int(low | high << 4) - 32), 1.5, 0.0);
}
// Scales and minima of cells 0-3: six bits of bytes 0-3 and 4-7; of cells 4-7: low four bits in the nibbles
// of bytes 8-11, high two on top of the former. `step` is what a code must be multiplied by to count in ones.
Affine six_bit_affine(uint first, uint slot, uint i, float step) {
    const uint s = byte_of(weight_word(first + 1, slot), i % 4), m = byte_of(weight_word(first + 2, slot), i % 4);
    const uint late = byte_of(weight_word(first + 3, slot), i % 4);
    const vec2 dm = unpackHalf2x16(weight_word(first, slot));
    const uvec2 scales = i < 4 ? uvec2(s, m) & 63u : uvec2(late & 15u, late >> 4) | uvec2(s, m) >> 6 << 4;
    return Affine(step * dm.x * float(scales.x), 1.0, -(dm.y * float(scales.y)));
}
Affine q6_k_affine(uint cell, uint slot, uint chunk) {
    const uint i = cell % 8 * 2 + chunk / 2;
    const int scale = int(weight_word(cell / 8 * 52 + 48 + i / 4, slot) << (24 - 8 * (i % 4))) >> 24;
    return Affine(64.0 * weight_half(cell / 8, slot) * float(scale), 1.5, 0.0);
}
