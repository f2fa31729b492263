// What the writers of blocks share. For this folder only.
#pragma once

#include "architecture.h"
#include "half.h"
#include "reference/dequantise.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>

namespace scoria {

/// Writes one block. x: its weights; weights: how much the error of each counts; out: zeroed.
using BlockWriter = void (*)(std::span<const float> x, std::span<const float> weights, std::byte* out);

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
