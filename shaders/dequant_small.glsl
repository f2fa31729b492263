// Ternary and smaller.
//   tq1_0  d (q - 1)    unit of 256: 13 words of five base-3 digits a byte (the last word: four), side d
//   tq2_0  d (q - 1)    unit of 256: 16 words of two-bit codes, side d
//   q2_0   d (q - 1)    unit of 64: 4 words of two-bit codes, side d
//   q1_0   +-d          unit of 128: 4 words of one-bit codes in column order, side d

const uint TQ1_0_WORDS = 13;

// (q - 1) / 4 where q is digit n of every byte. A byte is five digits as a fraction of 256, rounded up: multiplied by
// powers of 3 the next digit stands above the byte. Two bytes at a time.
uint ternary_digits(const uint bytes, const uint power) { return (bytes & 0x00FF00FFu) * power & 0x00FF00FFu; }
CODES ternary_codes(const uint q, const uint n) {
    const uint power = n == 0u ? 1u : n == 1u ? 3u : n == 2u ? 9u : n == 3u ? 27u : 81u;
    const uint even = ternary_digits(q, power) * 3u, odd = ternary_digits(q >> 8, power) * 3u;
#ifdef WEIGHT_INTS
    return (even >> 8 & 0x00030003u | odd & 0x03000300u) + 0x7F7F7F7Fu ^ 0x80808080u;  // q - 1
#else
    return one_plus(uvec4(even << 13, odd << 13, even >> 3, odd >> 3) & 0x600000u) - 1.25;
#endif
}
// Columns 0-159: words 0-7, digit = column / 32; 160-239: words 8-11, digit = (column - 160) / 16; then word 12.
#ifdef COMPACT
// Taken in the order of the digits, four columns at a time: the eight fours of a cell lie in three words, not eight.
uint tq1_0_word(const uint i) { return i * 52 / 256; }  // i / 5 up to 64
uint tq1_0_quad(const uint quad) {
    const uint i = quad % 64, word = tq1_0_word(i), digit = i - 5 * word;
    return quad - i + (i < 40 ? 8 * digit + word : i < 60 ? 32 + 4 * digit + word : i);
}
uvec4 tq1_0_words(const uint cell, const Slot slot) {
    const uint first = cell / 8 * TQ1_0_WORDS, word = tq1_0_word(cell % 8 * 8);
    return uvec4(weight_word(first + word, slot), weight_word(first + word, 1, slot),
                 weight_word(first + min(word + 2, 12), slot), 0);
}
// 1 + q / 4 of one digit after the other: `rest` is what is left of bytes 0 and 2, and of 1 and 3.
uvec2 tq1_0_rest(const uint word) { return uvec2(word, word >> 8) & 0x00FF00FFu; }
vec4 next_ternary_codes(inout uvec2 rest) {
    const uvec2 digits = rest * 3u;
    rest = digits & 0x00FF00FFu;
    return one_plus(uvec4(digits << 13, digits >> 3) & 0x600000u);
}
vec4 tq1_0_four(const uvec4 words, const uint first, const uint quad) {
    const uint word = tq1_0_word(quad), i = word - tq1_0_word(first);
    return ternary_codes(i == 0 ? words.x : i == 1 ? words.y : words.z, quad - 5 * word);
}
void tq1_0_codes(const uint cell, const Slot slot, const uint chunk, const uvec4 words, out CODES lo, out CODES hi) {
    const uint first = cell % 8 * 8, quad = first + 2 * chunk;
    lo = tq1_0_four(words, first, quad);
    hi = tq1_0_four(words, first, quad + 1);
}
#else
uvec4 tq1_0_words(const uint cell, const Slot slot) { return uvec4(0); }
CODES tq1_0_four(const uint cell, const Slot slot, const uint i) {
    const uint word = i < 160u ? i % 32 / 4 : i < 240u ? 8 + i % 16 / 4 : 12;
    const uint digit = i < 160u ? i / 32 : i < 240u ? (i - 160) / 16 : (i - 240) / 4;
    return ternary_codes(weight_word(cell / 8 * TQ1_0_WORDS + word, slot), digit);
}
void tq1_0_codes(const uint cell, const Slot slot, const uint chunk, const uvec4 words, out CODES lo, out CODES hi) {
    const uint i = cell % 8 * 32 + 8 * chunk;
    lo = tq1_0_four(cell, slot, i);
    hi = tq1_0_four(cell, slot, i + 4);
}
#endif
void q1_0_codes(const uint bits, const uint chunk, out CODES lo, out CODES hi) {
    const uint minus = ~(bits >> (8 * chunk));
    lo = with_signs(sizes_of(0x01010101u), minus);
    hi = with_signs(sizes_of(0x01010101u), minus >> 4);
}

Affine tq1_0_affine(const Unit unit) { return Affine(4.0 * unit_d(unit).x, 0.0, 0.0); }
Affine two_bit_affine(const Unit unit) { return Affine(4.0 * unit_d(unit).x, 1.25, 0.0); }
