// q4_0: d (q - 8); unit: 4 words of codes, side d.  q4_1: d q + m; unit: d | m << 16, 4 words of codes.

void q4_0_codes(uint cell, Slot slot, uint chunk, out CODES lo, out CODES hi) {
    four_bit_codes(weight_word(cell * 4 + chunk, slot), lo, hi);
}
void q4_1_codes(uint cell, Slot slot, uint chunk, out CODES lo, out CODES hi) {
    four_bit_codes(weight_word(cell * 5 + 1 + chunk, slot), lo, hi);
}

Affine q4_0_affine(Unit unit) { return Affine(16.0 * unit.d.x, 1.5, 0.0); }
Affine q4_1_affine(Unit unit) { return Affine(16.0 * unit.d.x, 1.0, unit.d.y); }
