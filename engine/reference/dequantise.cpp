// Formats: ggml's block_q4_0 ... block_q8_0. A block holds 32 weights; its first value byte packs weights
// 0 (low nibble) and 16 (high nibble). Arithmetic is float32, in ggml's order, so results are its bits.
#include "dequantise.h"

#include <bit>
#include <cstdint>
#include <cstring>

namespace scoria::reference {
namespace {

constexpr size_t block_weights = 32;

template <class T> T load(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}
float load_half(const std::byte* from) { return half_to_float(load<uint16_t>(from)); }

/// Weight i of 16 bytes of packed nibbles.
int nibble(const std::byte* packed, size_t i) {
    const int byte = std::to_integer<int>(packed[i % 16]);
    return i < 16 ? byte & 15 : byte >> 4;
}
/// Weight i of packed nibbles and a 32-bit word of fifth bits.
int five_bits(const std::byte* high, const std::byte* packed, size_t i) {
    return nibble(packed, i) | static_cast<int>(load<uint32_t>(high) >> i & 1u) << 4;
}

float q4_0(const std::byte* block, size_t i) {
    return static_cast<float>(nibble(block + 2, i) - 8) * load_half(block);
}
float q4_1(const std::byte* block, size_t i) {
    return static_cast<float>(nibble(block + 4, i)) * load_half(block) + load_half(block + 2);
}
float q5_0(const std::byte* block, size_t i) {
    return static_cast<float>(five_bits(block + 2, block + 6, i) - 16) * load_half(block);
}
float q5_1(const std::byte* block, size_t i) {
    return static_cast<float>(five_bits(block + 4, block + 8, i)) * load_half(block) + load_half(block + 2);
}
float q8_0(const std::byte* block, size_t i) {
    return static_cast<float>(load<int8_t>(block + 2 + i)) * load_half(block);
}
float f32(const std::byte* value, size_t) { return load<float>(value); }
float f16(const std::byte* value, size_t) { return load_half(value); }
float bf16(const std::byte* value, size_t) {
    return std::bit_cast<float>(static_cast<uint32_t>(load<uint16_t>(value)) << 16);
}

template <float (*weight)(const std::byte*, size_t), size_t weights = block_weights>
void unpack(std::span<const std::byte> blocks, size_t block_bytes, std::span<float> out) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = weight(&blocks[i / weights * block_bytes], i % weights);
}

}  // namespace

float half_to_float(uint16_t bits) {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
    const uint32_t exponent = bits >> 10 & 31u, fraction = bits & 1023u;
    if (exponent == 0) {  // subnormal: a multiple of 2^-24, exact in float32
        const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
        return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
    }
    const uint32_t rebased = exponent == 31 ? 255 : exponent + 112;  // biases 15 and 127
    return std::bit_cast<float>(sign | rebased << 23 | fraction << 13);
}

void dequantise(TensorType type, std::span<const std::byte> blocks, std::span<float> out) {
    switch (type) {
    case TensorType::f32:
        return unpack<f32, 1>(blocks, 4, out);
    case TensorType::f16:
        return unpack<f16, 1>(blocks, 2, out);
    case TensorType::bf16:
        return unpack<bf16, 1>(blocks, 2, out);
    case TensorType::q4_0:
        return unpack<q4_0>(blocks, 18, out);
    case TensorType::q4_1:
        return unpack<q4_1>(blocks, 20, out);
    case TensorType::q5_0:
        return unpack<q5_0>(blocks, 22, out);
    case TensorType::q5_1:
        return unpack<q5_1>(blocks, 24, out);
    case TensorType::q8_0:
        return unpack<q8_0>(blocks, 34, out);
    }
}

}  // namespace scoria::reference
