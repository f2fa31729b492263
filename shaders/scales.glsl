// Scales that are halves: of blocks of weights, of groups of cached numbers. A module with them asks that subnormal halves
// are kept, where the device can promise it (platform/vulkan/pipelines.cpp).
#ifndef SCORIA_SCALES_GLSL
#define SCORIA_SCALES_GLSL

layout(constant_id = 63) const bool HALVES_FLUSH = false;  // vk::constant_halves_flush

// Those of 6-bit blocks are mostly subnormal, and those of groups of small values, which some devices take for zero. They
// keep normal floats.
float scale_of_bits(const uint bits) {
    const uint size = (bits & 0x7FFFu) << 13;
    const float value = size < 0x00800000u   ? uintBitsToFloat(size + 0x38800000u) - 6.103515625e-05  // 2^-14
                        : size < 0x0F800000u ? uintBitsToFloat(size + 0x38000000u)
                                             : uintBitsToFloat(size + 0x70000000u);
    return (bits & 0x8000u) != 0 ? -value : value;
}
#ifndef SCALES_BY_HAND
#define SCALES_BY_HAND false
#endif
vec2 unpack_scales(const uint word) {
    return HALVES_FLUSH || SCALES_BY_HAND ? vec2(scale_of_bits(word), scale_of_bits(word >> 16)) : unpackHalf2x16(word);
}

#endif
