// What the writers of blocks share. For this folder only.
#pragma once

#include "architecture.h"
#include "half.h"

#include <bit>
#include <cmath>
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
    return from_half(half);
}

/// The half nearest to `scale`, or the next one away from 0 where `most`, the largest integer, would no
/// longer reach as far by it: halves below 2^-14 lie that far apart.
inline float half_scale(float scale, float most) {
    const uint16_t half = to_half(scale);
    const float nearest = from_half(half);
    const bool reaches = std::abs(scale) * most <= std::abs(nearest) * (most + 0.5f);
    return reaches ? nearest : from_half(static_cast<uint16_t>(half + 1));
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
