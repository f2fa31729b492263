// f32, f16 and bf16: values as they are; elements 2i and 2i + 1 share a word where they are 16 bits wide.

vec4 f32_codes(uint cell, Slot slot, uint k) {
    const uint word = cell * 32 + k;
    return uintBitsToFloat(uvec4(weight_word(word, slot), weight_word(word + 1, slot),
                                 weight_word(word + 2, slot), weight_word(word + 3, slot)));
}

vec4 f16_codes(uint cell, Slot slot, uint k) {
    const uint word = cell * 16 + k / 2;
    return vec4(unpackHalf2x16(weight_word(word, slot)), unpackHalf2x16(weight_word(word + 1, slot)));
}

vec4 bf16_codes(uint cell, Slot slot, uint k) {
    const uint word = cell * 16 + k / 2;
    const uint a = weight_word(word, slot), b = weight_word(word + 1, slot);
    return uintBitsToFloat(uvec4(a << 16, a & 0xFFFF0000u, b << 16, b & 0xFFFF0000u));
}
