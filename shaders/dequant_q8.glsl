// q8_0: d q with q a signed byte; unit: 8 words of 4 columns, side d.

CODES q8_codes(const uint word) {
#ifdef WEIGHT_INTS
    return word;
#else
    const int q = int(word);
    return vec4(ivec4(q << 24, q << 16, q << 8, q) >> 24);
#endif
}
