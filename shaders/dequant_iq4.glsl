// Nibbles that index sixteen values.
//   iq4_nl  d v(q)             unit of 32: 4 words of codes, side d
//   iq4_xs  d (s - 32) v(q)    unit of 256: d | high scale bits << 16, low scale bits, 32 words of codes
// The values lie in constants: a look-up in memory costs CPU drivers more than the selects.

vec4 iq4_values(uint q) {
    const uvec4 i = uvec4(q, q >> 8, q >> 16, q >> 24);
    const uvec4 lower = mix(uvec4(0xBFAD9881u), uvec4(0xF6EADDCFu), notEqual(i & 4u, uvec4(0)));  // -127 -104 ... -10
    const uvec4 upper = mix(uvec4(0x26190D01u), uvec4(0x71594535u), notEqual(i & 4u, uvec4(0)));  // 1 13 ... 113
    const uvec4 four = mix(lower, upper, notEqual(i & 8u, uvec4(0)));
    return vec4(ivec4(four << (24u - 8u * (i & 3u))) >> 24);
}
void iq4_codes(uint q, out vec4 lo, out vec4 hi) {
    lo = iq4_values(q);
    hi = iq4_values(q >> 4);
}
void iq4_nl_codes(uint cell, uint slot, uint chunk, out vec4 lo, out vec4 hi) {
    iq4_codes(weight_word(cell * 4 + chunk, slot), lo, hi);
}
void iq4_xs_codes(uint cell, uint slot, uint chunk, out vec4 lo, out vec4 hi) {
    iq4_codes(weight_word(cell / 8 * 34 + 2 + cell % 8 * 4 + chunk, slot), lo, hi);
}

Affine iq4_nl_affine(uint cell, uint slot) { return Affine(weight_half(cell, slot), 0.0, 0.0); }
Affine iq4_xs_affine(uint cell, uint slot) {
    const uint first = cell / 8 * 34, i = cell % 8;
    const uint head = weight_word(first, slot);
    const uint scale = (weight_word(first + 1, slot) >> (4 * i) & 15u) | (head >> (16 + 2 * i) & 3u) << 4;
    return Affine(unpackHalf2x16(head).x * float(int(scale) - 32), 0.0, 0.0);
}
