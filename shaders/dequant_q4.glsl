// q4_0: d (q - 8); unit: 4 words of codes, side d.  q4_1: d q + m; unit: d | m << 16, 4 words of codes.

Affine q4_0_affine(const Unit unit) { return Affine(16.0 * unit_d(unit).x, 1.5, 0.0); }
Affine q4_1_affine(const Unit unit) { return Affine(16.0 * unit_d(unit).x, 1.0, unit_d(unit).y); }
