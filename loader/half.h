// Floats of 16 bits.
#pragma once

#include <bit>
#include <cstdint>

namespace scoria {

/// Nearest even, down to subnormals; magnitudes from 65520 give infinity.
inline uint16_t to_half(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value), magnitude = bits & 0x7fffffff;
    const uint32_t sign = bits >> 16 & 0x8000;
    if (magnitude < 0x38800000) {  // below 2^-14: 0.5 has its last bit where a subnormal half has it, 2^-24
        const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
        return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000));
    }
    if (magnitude >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);
    const uint32_t nearest = magnitude + 0xfff + (magnitude >> 13 & 1);
    return static_cast<uint16_t>(sign | (nearest - 0x38000000) >> 13);  // biases 127 and 15
}

inline float from_half(uint16_t bits) {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
    const uint32_t exponent = bits >> 10 & 31u, fraction = bits & 1023u;
    if (exponent == 0) {  // subnormal: a multiple of 2^-24, exact in float32
        const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
        return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
    }
    const uint32_t rebased = exponent == 31 ? 255 : exponent + 112;  // biases 15 and 127
    return std::bit_cast<float>(sign | rebased << 23 | fraction << 13);
}

/// The nearest BF16, even of two; NaN stays one.
inline uint16_t to_bf16(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const bool nan = (bits & 0x7fffffff) > 0x7f800000;
    return static_cast<uint16_t>((nan ? bits | 0x400000 : bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline float from_bf16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

}  // namespace scoria
