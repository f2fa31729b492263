// q5_0: d (q - 16); unit: fifth bits, 4 words of low bits, side d.  q5_1: d q + m; unit: d | m << 16 first.

void q5_0_codes(uint cell, Slot slot, uint chunk, uint high, out CODES lo, out CODES hi) {
    five_bit_codes(weight_word(cell * 5 + 1 + chunk, slot), high, chunk, lo, hi);
}
void q5_1_codes(uint cell, Slot slot, uint chunk, uint high, out CODES lo, out CODES hi) {
    five_bit_codes(weight_word(cell * 6 + 2 + chunk, slot), high, chunk, lo, hi);
}

Affine q5_0_affine(Unit unit) { return Affine(32.0 * unit.d.x, 1.5, 0.0); }
Affine q5_1_affine(Unit unit) { return Affine(32.0 * unit.d.x, 1.0, unit.d.y); }
