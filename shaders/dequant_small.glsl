// Ternary and smaller.
//   tq1_0  d (q - 1)    unit of 256: 13 words of five base-3 digits a byte (the last word: four), side d
//   tq2_0  d (q - 1)    unit of 256: 16 words of two-bit codes, side d
//   q2_0   d (q - 1)    unit of 64: 4 words of two-bit codes, side d
//   q1_0   +-d          unit of 128: 4 words of one-bit codes in column order, side d

// Digit n of every byte. A byte is five digits as a fraction of 256, rounded up: each multiplication by 3 moves
// the next digit above the byte.
vec4 ternary_digits(uint q, uint n) {
    const uint power = n == 0u ? 1u : n == 1u ? 3u : n == 2u ? 9u : n == 3u ? 27u : 81u;
    const uvec4 rest = uvec4(q, q >> 8, q >> 16, q >> 24) * power & 0xFFu;
    return vec4(ivec4(rest * 3u >> 8) - 1);
}
// Columns 0-159: words 0-7, digit = column / 32; 160-239: words 8-11, digit = (column - 160) / 16; then word 12.
vec4 tq1_0_codes(uint cell, uint slot, uint k) {
    const uint i = cell % 8 * 32 + k;
    const uint word = i < 160u ? i % 32 / 4 : i < 240u ? 8 + i % 16 / 4 : 12;
    const uint digit = i < 160u ? i / 32 : i < 240u ? (i - 160) / 16 : (i - 240) / 4;
    return ternary_digits(weight_word(cell / 8 * 13 + word, slot), digit);
}
void q1_0_codes(uint bits, uint chunk, out vec4 lo, out vec4 hi) {
    const uint minus = ~(bits >> (8 * chunk));
    lo = with_signs(vec4(1.0), minus);
    hi = with_signs(vec4(1.0), minus >> 4);
}

Affine two_bit_affine(Unit unit) { return Affine(4.0 * unit.d.x, 1.25, 0.0); }
