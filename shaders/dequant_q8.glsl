// q8_0: d q with q a signed byte; unit: 8 words of 4 columns, side d.

CODES q8_codes(uint cell, Slot slot, uint k) {
    const int q = int(weight_word(cell * 8 + k / 4, slot));
#ifdef WEIGHT_INTS
    return uint(q);
#else
    return vec4(ivec4(q << 24, q << 16, q << 8, q) >> 24);
#endif
}
