// The K types and the ternary ones of 256 weights. Formats: ggml's block_q2_K ... block_tq2_0.
#include "block_weights.h"

namespace scoria::reference {
namespace {

/// Two bits of weight i: each byte holds weights 32 apart, 128 weights to 32 bytes.
int two_bits(const std::byte* packed, size_t i) {
    return bits(packed + i / 128 * 32 + i % 32, i % 128 / 32 * 2, 2);
}
/// One bit of weight i: bit b of byte j is that of weight 32 b + j.
int one_bit(const std::byte* packed, size_t i) { return bits(packed + i % 32, i / 32, 1); }
/// Four bits of weight i: a byte holds weights 32 apart, 64 weights to 32 bytes.
int four_bits(const std::byte* packed, size_t i) {
    return bits(packed + i / 64 * 32 + i % 32, i % 64 / 32 * 4, 4);
}

/// Scale and minimum number `sub` of eight, 6 bits each, in 12 bytes.
struct SixBits {
    int scale, minimum;
};
SixBits six_bits(const std::byte* packed, size_t sub) {
    if (sub < 4) return {bits(packed + sub, 0, 6), bits(packed + sub + 4, 0, 6)};
    return {bits(packed + sub + 4, 0, 4) | bits(packed + sub - 4, 6, 2) << 4,
            bits(packed + sub + 4, 4, 4) | bits(packed + sub, 6, 2) << 4};
}
/// d s q - dmin m, with d and dmin first in the block and the 12 bytes next.
float scaled(const std::byte* block, size_t i, int q) {
    const SixBits sub = six_bits(block + 4, i / 32);
    const float scale = load_half(block) * static_cast<float>(sub.scale);
    return scale * static_cast<float>(q) - load_half(block + 2) * static_cast<float>(sub.minimum);
}

}  // namespace

float q2_k(const std::byte* block, size_t i) {
    const int scale = bits(block + i / 16, 0, 4), minimum = bits(block + i / 16, 4, 4);
    return load_half(block + 80) * static_cast<float>(scale) * static_cast<float>(two_bits(block + 16, i)) -
           load_half(block + 82) * static_cast<float>(minimum);
}

float q3_k(const std::byte* block, size_t i) {
    const size_t sub = i / 16;
    const int scale = bits(block + 96 + sub % 8, sub / 8 * 4, 4) | bits(block + 104 + sub % 4, sub / 4 * 2, 2)
                                                                       << 4;
    const int q = two_bits(block + 32, i) | one_bit(block, i) << 2;
    return load_half(block + 108) * static_cast<float>(scale - 32) * static_cast<float>(q - 4);
}

float q4_k(const std::byte* block, size_t i) { return scaled(block, i, four_bits(block + 16, i)); }

float q5_k(const std::byte* block, size_t i) {
    return scaled(block, i, four_bits(block + 48, i) | one_bit(block + 16, i) << 4);
}

float q6_k(const std::byte* block, size_t i) {
    // Low bits: a byte holds weights 64 apart, 128 weights to 64 bytes.
    const int low = bits(block + i / 128 * 64 + i % 64, i % 128 / 64 * 4, 4);
    const int q = low | two_bits(block + 128, i) << 4;
    return load_half(block + 208) * static_cast<float>(load<int8_t>(block + 192 + i / 16)) *
           static_cast<float>(q - 32);
}

float tq1_0(const std::byte* block, size_t i) {
    // Five digits a byte, 32 (then 16) weights apart, and four in the last four bytes.
    const size_t at = i < 160 ? i % 32 : i < 240 ? 32 + i % 16 : 48 + i % 4;
    const size_t digit = i < 160 ? i / 32 : i < 240 ? (i - 160) / 16 : (i - 240) / 4;
    constexpr int powers[] = {1, 3, 9, 27, 81};
    const int rest = std::to_integer<int>(block[at]) * powers[digit] & 255;
    return static_cast<float>((rest * 3 >> 8) - 1) * load_half(block + 52);
}

float tq2_0(const std::byte* block, size_t i) {
    return static_cast<float>(two_bits(block, i) - 1) * load_half(block + 64);
}

}  // namespace scoria::reference
