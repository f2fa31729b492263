// Codes from bits. Without a conversion: bits set as the top mantissa bits of 1.0 make 1 + q / 2^bits exactly, by one
// shift and one and-or where a conversion would take a shift, an and and a convert. Or, with CODE_BYTES, as bytes, four
// by one shift and one and, and numbers 0, 1, ... of those, where an instruction converts any byte of a word. Or, of four and six
// bits with CODE_HALVES, as subnormal halves, two by one and, where the devices' halves are not flushed and an instruction converts
// either one of a word: q / 2^24 of columns 0-3, and 16 times as much of 4-7, which kernels take from x.
//
// A chunk of 8 columns lies in the bytes of a word: columns 0-3 in the low field of bytes 0-3, columns 4-7
// in the next field. Single bits lie in column order.

// Of each byte of q `width` bits from bit `from` on, moved to bit `bit`, which is at least 16 more.
uvec4 byte_fields(const uint q, const uint from, const uint bit, const uint width) {
    const uint left = bit - from;
    return uvec4(q << left, q << (left - 8), q << (left - 16), q >> (24 - left)) & (((1u << width) - 1u) << bit);
}
// Of each byte its upper four bits, moved to bit `bit`, which is at most 20.
uvec4 upper_fields(const uint q, const uint bit) {
    return uvec4(q << (bit - 4), q << (bit - 12), q >> (20 - bit), q >> (28 - bit)) & (15u << bit);
}
// Bits `from` to from + 3 of h, moved to bit `bit`.
uvec4 single_bits(const uint h, const uint from, const uint bit) {
    const uint left = bit - from;
    return uvec4(h << left, h << (left - 1), h << (left - 2), h << (left - 3)) & (1u << bit);
}
// Two codes a word, columns 0 and 2, 1 and 3, 4 and 6, 5 and 7 of a chunk: codes of the former two words stand at the bottom
// of 16 bits, those of the latter two as 16 times as much.
uvec4 four_bit_pairs(const uint q) { return uvec4(uvec2(q, q >> 8) & 0x000F000Fu, uvec2(q, q >> 8) & 0x00F000F0u); }
// The fifth bits in a word of 32 columns.
uvec4 five_bit_pairs(const uint q, uint high, const uint chunk) {
    high >>= 8 * chunk;
    const uvec2 bits = (uvec2(high << 4, high << 3) & 0x00000110u) | (uvec2(high << 18, high << 17) & 0x01100000u);
    return four_bit_pairs(q) | uvec4(bits & 0x00100010u, bits & 0x01000100u);
}
// The two high bits as in two_bit_codes.
uvec4 six_bit_pairs(const uint q, uint high, const uint chunk) {
    high >>= 4 * (chunk % 2);
    const uvec2 above = uvec2(high, high >> 8);
    return four_bit_pairs(q) | uvec4(above << 4 & 0x00300030u, above << 6 & 0x03000300u);
}
#ifndef ONE_BITS
#define ONE_BITS 0x3F800000u
#endif
vec4 one_plus(const uvec4 mantissa) { return uintBitsToFloat(mantissa | ONE_BITS); }

// Bytes as numbers, 0 to 255.
vec4 bytes_of(const uint word) { return vec4(ivec4(uvec4(word, word >> 8, word >> 16, word >> 24) & 0xFFu)); }

// As integers, a byte a column: q itself, columns 0-3 in lo and 4-7 in hi.

// Bits 0 to 3 of h, one at the bottom of each byte.
uint spread_bits(const uint h) { return (h & 15u) * 0x00204081u & 0x01010101u; }

// A word holds two chunks, in the low and the high nibbles of its bytes.
void two_bit_codes(uint q, const uint chunk, out uint lo, out uint hi) {
    q >>= 4 * (chunk % 2);
    lo = q & 0x03030303u;
    hi = q >> 2 & 0x03030303u;
}
// Two low bits as above, the high ones in a word of 32 columns.
void three_bit_codes(uint q, uint high, const uint chunk, out uint lo, out uint hi) {
    two_bit_codes(q, chunk, lo, hi);
    high >>= 8 * chunk;
    lo |= spread_bits(high) << 2;
    hi |= spread_bits(high >> 4) << 2;
}
void four_bit_codes(const uint q, out uint lo, out uint hi) {
    lo = q & 0x0F0F0F0Fu;
    hi = q >> 4 & 0x0F0F0F0Fu;
}
// The fifth bits in a word of 32 columns.
void five_bit_codes(const uint q, uint high, const uint chunk, out uint lo, out uint hi) {
    four_bit_codes(q, lo, hi);
    high >>= 8 * chunk;
    lo |= spread_bits(high) << 4;
    hi |= spread_bits(high >> 4) << 4;
}
// The two high bits as in two_bit_codes.
void six_bit_codes(const uint q, uint high, const uint chunk, out uint lo, out uint hi) {
    four_bit_codes(q, lo, hi);
    high >>= 4 * (chunk % 2);
    lo |= (high & 0x03030303u) << 4;
    hi |= (high >> 2 & 0x03030303u) << 4;
}

#ifndef CODE_BYTES
#define CODE_BYTES false
#endif
#define OR_BYTES(codes)                                           \
    if (CODE_BYTES) {                                             \
        uint bytes_lo, bytes_hi;                                  \
        codes;                                                    \
        lo = bytes_of(bytes_lo);                                  \
        hi = bytes_of(bytes_hi);                                  \
        return;                                                   \
    }

// As floats: 1 + q / 4, and so on by width; or q.
void two_bit_codes(uint q, const uint chunk, out vec4 lo, out vec4 hi) {
    OR_BYTES(two_bit_codes(q, chunk, bytes_lo, bytes_hi))
    q >>= 4 * (chunk % 2);
    lo = one_plus(byte_fields(q, 0, 21, 2));
    hi = one_plus(byte_fields(q, 2, 21, 2));
}
void three_bit_codes(uint q, uint high, const uint chunk, out vec4 lo, out vec4 hi) {
    OR_BYTES(three_bit_codes(q, high, chunk, bytes_lo, bytes_hi))
    q >>= 4 * (chunk % 2);
    high >>= 8 * chunk;
    lo = one_plus(byte_fields(q, 0, 20, 2) | single_bits(high, 0, 22));
    hi = one_plus(byte_fields(q, 2, 20, 2) | single_bits(high, 4, 22));
}
// Of bytes 0 and 2, and of 1 and 3.
vec4 four_halves(const uvec2 words) {
    const vec2 even = unpackHalf2x16(words.x), odd = unpackHalf2x16(words.y);
    return vec4(even.x, odd.x, even.y, odd.y);
}
void sixteenths(const uint q, out vec4 lo, out vec4 hi) {
    lo = one_plus(byte_fields(q, 0, 19, 4));
    hi = one_plus(upper_fields(q, 19));
}
void four_bit_codes(const uint q, out vec4 lo, out vec4 hi) {
    OR_BYTES(four_bit_codes(q, bytes_lo, bytes_hi))
    if (CODE_HALVES) {
        const uvec4 pairs = four_bit_pairs(q);
        lo = four_halves(pairs.xy);
        hi = four_halves(pairs.zw);
        return;
    }
    sixteenths(q, lo, hi);
}
void five_bit_codes(const uint q, uint high, const uint chunk, out vec4 lo, out vec4 hi) {
    OR_BYTES(five_bit_codes(q, high, chunk, bytes_lo, bytes_hi))
    high >>= 8 * chunk;
    lo = one_plus(byte_fields(q, 0, 18, 4) | single_bits(high, 0, 22));
    hi = one_plus(upper_fields(q, 18) | single_bits(high, 4, 22));
}
void six_bit_codes(const uint q, uint high, const uint chunk, out vec4 lo, out vec4 hi) {
    OR_BYTES(six_bit_codes(q, high, chunk, bytes_lo, bytes_hi))
    if (CODE_HALVES) {
        const uvec4 pairs = six_bit_pairs(q, high, chunk);
        lo = four_halves(pairs.xy);
        hi = four_halves(pairs.zw);
        return;
    }
    high >>= 4 * (chunk % 2);
    lo = one_plus(byte_fields(q, 0, 17, 4) | byte_fields(high, 0, 21, 2));
    hi = one_plus(upper_fields(q, 17) | byte_fields(high, 2, 21, 2));
}

// Numbers that are the bytes of a word.
CODES sizes_of(const uint word) {
#ifdef WEIGHT_INTS
    return word;
#else
    return bytes_of(word);
#endif
}
// Negated where the bit of `signs` is set: bit i is that of column i. Sizes have none; AMD's GPUs have an and-or, no and-xor.
vec4 with_signs(const vec4 sizes, const uint signs) {
    return uintBitsToFloat(floatBitsToUint(sizes) | single_bits(signs, 0, 31));
}
// No size is 0, which would carry into its neighbour.
uint with_signs(const uint sizes, const uint signs) {
    const uint minus = spread_bits(signs);
    return (sizes ^ ((minus << 8) - minus)) + minus;
}
uint byte_of(const uint word, const uint i) { return word >> (8 * i) & 0xFFu; }
