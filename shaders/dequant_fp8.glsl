// f8_e4m3: d c with c the float that a byte is over 256; unit: 8 words of 4 columns, side d.

vec4 f8_codes(const uint word) {
    // Below the exponent of a half the seven bits are that float, subnormal ones as well.
    if (!HALVES_FLUSH) {
        const uint even = (word & 0x007F007Fu) << 7 | (word & 0x00800080u) << 8;
        const uint odd = word >> 1 & 0x3F803F80u | word & 0x80008000u;
        return vec4(unpackHalf2x16(even), unpackHalf2x16(odd)).xzyw;
    }
    // Added to those of 2^-15 they make h = 2^(e - 15) (1 + m / 8), right but for e = 0 (fp4_values).
    const uvec4 bytes = uvec4(word << 24, word << 16, word << 8, word);
    const vec4 h = uintBitsToFloat((bytes >> 4 & 0x07F00000u) + 0x38000000u);
    return uintBitsToFloat(floatBitsToUint(min(h, 2.0 * h - 6.103515625e-05)) | bytes & 0x80000000u);  // 2^-14
}
