// q5_0: d (q - 16); unit: fifth bits, 4 words of low bits, side d.  q5_1: d q + m; unit: d | m << 16 first.

void q5_0_codes(uint cell, uint slot, uint chunk, out CODES lo, out CODES hi) {
    five_bit_codes(weight_word(cell * 5 + 1 + chunk, slot), weight_word(cell * 5, slot), chunk, lo, hi);
}
void q5_1_codes(uint cell, uint slot, uint chunk, out CODES lo, out CODES hi) {
    five_bit_codes(weight_word(cell * 6 + 2 + chunk, slot), weight_word(cell * 6 + 1, slot), chunk, lo, hi);
}

Affine q5_0_affine(uint cell, uint slot) { return Affine(32.0 * weight_half(cell, slot), 1.5, 0.0); }
Affine q5_1_affine(uint cell, uint slot) {
    const vec2 dm = unpackHalf2x16(weight_word(cell * 6, slot));
    return Affine(32.0 * dm.x, 1.0, dm.y);
}
