// The K types: units of 256 columns, i = cell % 8 of 32; scales and minima of 16 or 32 columns are small
// integers s and m, multiples of the unit's d and dmin.
//
// Words of a unit, two-bit and high parts as dequant_bits.glsl says:
//   q2_k  d s q - dmin m        4 of scales (s | m << 4 of 16 columns a byte), 16 of codes, d | dmin << 16
//   q3_k  d (s - 32) (q - 4)    8 of third bits, 16 of low bits, 3 of six-bit scales; side d
//   q4_k  d s q - dmin m        d | dmin << 16, 3 of six-bit scales, 32 of codes
//   q5_k  d s q - dmin m        d | dmin << 16, 3 of six-bit scales, 8 of fifth bits, 32 of low bits
//   q6_k  d s (q - 32)          32 of low bits, 16 of high bits, 4 of scales (signed bytes); side d

// Codes of a cell, two words, then what else is in words of its own.
uvec4 q2_k_words(const uint unit, const uint i, const Slot slot) {
    const uint first = unit * 21;
    return uvec4(chunk_words(first + 4 + 2 * i, slot), weight_word(first + i / 2, slot), 0);
}
uvec4 q3_k_words(const uint unit, const uint i, const Slot slot) {
    const uint first = unit * 27;
    return uvec4(chunk_words(first + 8 + 2 * i, slot), weight_word(first + i, slot), 0);
}
uvec4 q6_k_words(const uint unit, const uint i, const Slot slot) {
    const uint first = unit * 52;
    return uvec4(chunk_words(first + 32 + 2 * i, slot), weight_word(first + 48 + i / 2, slot), 0);
}

// d and dmin, and the words of six-bit scales.
Unit six_bit_unit(const uint first, const Slot slot) {
    return Unit(weight_word(first, slot), 0,
                uvec3(weight_word(first, 1, slot), weight_word(first, 2, slot), weight_word(first, 3, slot)));
}
Unit q3_k_unit(const uint unit, const Slot slot) {
    const uint first = unit * 27 + 24;
    return side_unit(unit, slot, uvec3(weight_word(first, slot), weight_word(first, 1, slot), weight_word(first, 2, slot)));
}

Affine q2_k_affine(const Unit unit, const uint words, const uint i, const uint chunk) {
    const uint scales = byte_of(words, i % 2 * 2 + chunk / 2);
    return Affine(4.0 * unit_d(unit).x * float(scales & 15u), 1.0, -(unit_d(unit).y * float(scales >> 4)));
}
// Low four bits of scale i: byte i % 8, nibble i / 8; high two: byte 8 + i % 4, from bit 2 (i / 4).
Affine q3_k_affine(const Unit unit, const uint cell, const uint chunk) {
    const uint i = cell * 2 + chunk / 2;
    const uint low = (i % 8 < 4 ? unit.words.x : unit.words.y) >> (8 * (i % 4) + 4 * (i / 8)) & 15u;
    const uint high = unit.words.z >> (8 * (i % 4) + 2 * (i / 4)) & 3u;
    return Affine(8.0 * unit_d(unit).x * float(int(low | high << 4) - 32), 1.5, 0.0);
}
// Scales and minima of cells 0-3: six bits of bytes 0-3 and 4-7; of cells 4-7: low four bits in the nibbles
// of bytes 8-11, high two on top of the former. `step` is what a code must be multiplied by to count in ones.
Affine six_bit_affine(const Unit unit, const uint i, const float step) {
    const uint at = 8 * (i % 4), late = i / 4;
    const uvec2 low = (late == 0 ? unit.words.xy : unit.words.zz) >> uvec2(at, at + 4 * late);
    const uvec2 scales = (low & 15u) | (unit.words.xy >> (at + 2 * late) & 48u);
    return Affine(step * unit_d(unit).x * float(scales.x), 1.0, -(unit_d(unit).y * float(scales.y)));
}
Affine q6_k_affine(const Unit unit, const uint words, const uint i, const uint chunk) {
    const int scale = int(words << (24 - 8 * (i % 2 * 2 + chunk / 2))) >> 24;
    return Affine(64.0 * unit_d(unit).x * float(scale), 1.5, 0.0);
}
