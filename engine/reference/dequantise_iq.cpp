// The IQ types of 256 weights. Formats: ggml's block_iq1_s ... block_iq4_xs; 8 (IQ3: 4) weights are one point
// of a grid.
#include "block_weights.h"
#include "quant_grids.h"

#include <bit>

namespace scoria::reference {
namespace {

/// Bit i of seven sign bits; the eighth makes the number of ones even.
bool negative(uint32_t seven, size_t i) {
    return i < 7 ? (seven >> i & 1) != 0 : std::popcount(seven & 127u) % 2 != 0;
}
float point(TensorType type, uint32_t index, size_t i, bool minus) {
    const int value = quant_grid(type)->value(index, static_cast<uint32_t>(i));
    return static_cast<float>(minus ? -value : value);
}
/// 4 x 7 sign bits and a scale.
struct SignsAndScale {
    uint32_t word;
    explicit SignsAndScale(const std::byte* at) : word(load<uint32_t>(at)) {}
    bool minus(size_t i) const { return negative(word >> (i % 32 / 8 * 7), i % 8); }
    float scale() const { return 0.5f + static_cast<float>(word >> 28); }
};
float nibble_scale(const std::byte* scales, size_t sub) {
    return static_cast<float>(bits(scales + sub / 2, sub % 2 * 4, 4));
}
/// Steps of an IQ1 point, which is shifted by an eighth.
float shifted_point(uint32_t index, size_t i, bool down) {
    return point(TensorType::iq1_s, index, i, false) + (down ? -0.125f : 0.125f);
}

}  // namespace

float iq2_xxs(const std::byte* block, size_t i) {
    const std::byte* const part = block + 2 + i / 32 * 8;  // 4 indices; signs and scale
    const SignsAndScale rest(part + 4);
    const auto index = load<uint8_t>(part + i % 32 / 8);
    return load_half(block) * rest.scale() * 0.25f * point(TensorType::iq2_xxs, index, i % 8, rest.minus(i));
}

float iq2_xs(const std::byte* block, size_t i) {
    const auto q = load<uint16_t>(block + 2 + i / 8 * 2);  // 9 bits of index, 7 of signs
    return load_half(block) * (0.5f + nibble_scale(block + 66, i / 16)) * 0.25f *
           point(TensorType::iq2_xs, q & 511u, i % 8, negative(q >> 9, i % 8));
}

float iq2_s(const std::byte* block, size_t i) {
    const size_t chunk = i / 8;
    const auto high = static_cast<uint32_t>(bits(block + 66 + i / 32, chunk % 4 * 2, 2));
    const uint32_t index = load<uint8_t>(block + 2 + chunk) | high << 8;
    return load_half(block) * (0.5f + nibble_scale(block + 74, i / 16)) * 0.25f *
           point(TensorType::iq2_s, index, i % 8, bits(block + 34 + chunk, i % 8, 1) != 0);
}

float iq3_xxs(const std::byte* block, size_t i) {
    const SignsAndScale rest(block + 66 + i / 32 * 4);
    return load_half(block) * rest.scale() * 0.5f *
           point(TensorType::iq3_xxs, load<uint8_t>(block + 2 + i / 4), i % 4, rest.minus(i));
}

float iq3_s(const std::byte* block, size_t i) {
    const auto ninth = static_cast<uint32_t>(bits(block + 66 + i / 32, i % 32 / 4, 1));
    const uint32_t index = load<uint8_t>(block + 2 + i / 4) | ninth << 8;
    return load_half(block) * (1 + 2 * nibble_scale(block + 106, i / 32)) *
           point(TensorType::iq3_s, index, i % 4, bits(block + 74 + i / 8, i % 8, 1) != 0);
}

float iq1_s(const std::byte* block, size_t i) {
    const uint32_t head = load<uint16_t>(block + 34 + i / 32 * 2);  // 4 x 3 bits of index, scale, shift
    const uint32_t index = load<uint8_t>(block + 2 + i / 8) | (head >> (i % 32 / 8 * 3) & 7u) << 8;
    return load_half(block) * static_cast<float>(2 * (head >> 12 & 7u) + 1) *
           shifted_point(index, i % 8, (head & 0x8000u) != 0);
}

float iq1_m(const std::byte* block, size_t i) {
    const auto scales = load<uint64_t>(block + 48);  // of every 16 bits, 4 x 3 are scales and 4 of d
    uint32_t d = 0;
    for (uint32_t part = 0; part < 4; ++part)
        d |= static_cast<uint32_t>(scales >> (16 * part + 12) & 15u) << (4 * part);
    const size_t sub = i / 16;
    const auto scale = static_cast<float>(2 * (scales >> (sub / 4 * 16 + sub % 4 * 3) & 7u) + 1);
    const auto head = static_cast<uint32_t>(bits(block + 32 + i / 16, i % 16 / 8 * 4, 4));
    const uint32_t index = load<uint8_t>(block + i / 8) | (head & 7u) << 8;
    return from_half(static_cast<uint16_t>(d)) * scale * shifted_point(index, i % 8, (head & 8u) != 0);
}

const int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

float iq4_xs(const std::byte* block, size_t i) {
    const size_t sub = i / 32;
    const int scale = bits(block + 4 + sub / 2, sub % 2 * 4, 4) | (load<uint16_t>(block + 2) >> (2 * sub) & 3)
                                                                      << 4;
    const int q = bits(block + 8 + sub * 16 + i % 16, i % 32 / 16 * 4, 4);
    return load_half(block) * static_cast<float>(scale - 32) * static_cast<float>(iq4_values[q]);
}

}  // namespace scoria::reference
