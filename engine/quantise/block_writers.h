// What the writers of blocks share. For this folder only.
#pragma once

#include "architecture.h"
#include "reference/dequantise.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>

namespace scoria {

/// Writes one block. x: its weights; weights: how much the error of each counts; out: zeroed.
using BlockWriter = void (*)(std::span<const float> x, std::span<const float> weights, std::byte* out);

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

/// Stores `value` as a half and returns what readers will see.
inline float store_half(float value, std::byte* out) {
    const uint16_t half = to_half(value);
    std::memcpy(out, &half, sizeof half);
    return reference::half_to_float(half);
}

/// Adds `value` at bit `first` of a zeroed byte.
inline void put_bits(std::byte* at, int value, size_t first) {
    *at |= static_cast<std::byte>(value << first);
}

// k_blocks.cpp: blocks of 256
void write_q2_k(std::span<const float> x, std::span<const float> weights, std::byte* out);
void write_q3_k(std::span<const float> x, std::span<const float> weights, std::byte* out);
void write_q4_k(std::span<const float> x, std::span<const float> weights, std::byte* out);
void write_q5_k(std::span<const float> x, std::span<const float> weights, std::byte* out);
void write_q6_k(std::span<const float> x, std::span<const float> weights, std::byte* out);

}  // namespace scoria
