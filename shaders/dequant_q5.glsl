// q5_0: d (q - 16); unit: fifth bits, 4 words of low bits, side d.  q5_1: d q + m; unit: d | m << 16 first.

Affine q5_0_affine(const Unit unit) { return Affine(32.0 * unit_d(unit).x, 1.5, 0.0); }
Affine q5_1_affine(const Unit unit) { return Affine(32.0 * unit_d(unit).x, 1.0, unit_d(unit).y); }
