// Weight i of a block of each type that is not simple enough for dequantise.cpp, and what these share. For
// the reference room only.
#pragma once

#include "dequantise.h"
#include "half.h"

#include <cstdint>
#include <cstring>

namespace scoria::reference {

template <class T> T load(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}
inline float load_half(const std::byte* from) { return from_half(load<uint16_t>(from)); }
/// Bits [first, first + count) of byte `at`.
inline int bits(const std::byte* at, size_t first, int count) {
    return std::to_integer<int>(*at) >> first & ((1 << count) - 1);
}

// dequantise_k.cpp: blocks of 256
float q2_k(const std::byte* block, size_t i);
float q3_k(const std::byte* block, size_t i);
float q4_k(const std::byte* block, size_t i);
float q5_k(const std::byte* block, size_t i);
float q6_k(const std::byte* block, size_t i);
float tq1_0(const std::byte* block, size_t i);
float tq2_0(const std::byte* block, size_t i);

// dequantise_iq.cpp: blocks of 256
float iq2_xxs(const std::byte* block, size_t i);
float iq2_xs(const std::byte* block, size_t i);
float iq2_s(const std::byte* block, size_t i);
float iq3_xxs(const std::byte* block, size_t i);
float iq3_s(const std::byte* block, size_t i);
float iq1_s(const std::byte* block, size_t i);
float iq1_m(const std::byte* block, size_t i);
float iq4_xs(const std::byte* block, size_t i);
/// The sixteen values of iq4_nl and iq4_xs.
extern const int8_t iq4_values[16];

}  // namespace scoria::reference
