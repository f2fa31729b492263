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

/// The nearest BF16, even of two; NaN stays one.
inline uint16_t to_bf16(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const bool nan = (bits & 0x7fffffff) > 0x7f800000;
    return static_cast<uint16_t>((nan ? bits | 0x400000 : bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace scoria
