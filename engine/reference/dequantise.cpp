// Formats: ggml's block_q4_0 ... block_q8_0 and others of few parts. A block of 32 weights packs weights
// 0 (low nibble) and 16 (high nibble) in its first value byte. Arithmetic is float32, in ggml's order, so
// results are its bits.
#include "block_weights.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace scoria::reference {
namespace {

/// Weight i of 16 bytes of packed nibbles.
int nibble(const std::byte* packed, size_t i) { return bits(packed + i % 16, i / 16 * 4, 4); }
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
float bf16(const std::byte* value, size_t) { return from_bf16(load<uint16_t>(value)); }

float iq4_nl(const std::byte* block, size_t i) {
    return static_cast<float>(iq4_values[nibble(block + 2, i)]) * load_half(block);
}
float q1_0(const std::byte* block, size_t i) {
    return static_cast<float>(2 * bits(block + 2 + i / 8, i % 8, 1) - 1) * load_half(block);
}
float q2_0(const std::byte* block, size_t i) {
    return static_cast<float>(bits(block + 2 + i / 4, i % 4 * 2, 2) - 1) * load_half(block);
}

/// Twice the values of E2M1 (OCP Microscaling 1.0); the halves are in the scales. Minus zero is zero.
constexpr int fp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

float mxfp4(const std::byte* block, size_t i) {
    const int exponent = load<uint8_t>(block) - 128;
    return static_cast<float>(fp4_values[nibble(block + 1, i)]) * std::ldexp(1.0f, exponent);
}
/// Of a code in E4M3, whatever its sign (Micikevicius et al. 2022).
float e4m3_magnitude(int code) {
    const int exponent = code >> 3 & 15, fraction = code & 7;
    return exponent == 0 ? std::ldexp(static_cast<float>(fraction), -9)
                         : std::ldexp(1 + static_cast<float>(fraction) / 8, exponent - 7);
}
/// Four scales in unsigned E4M3, whose NaN counts as zero; each is of 16 weights, which pack 8 apart.
float nvfp4(const std::byte* block, size_t i, float factor) {
    const int scale = load<uint8_t>(block + i / 16);
    const int q = bits(block + 4 + i / 16 * 8 + i % 8, i % 16 / 8 * 4, 4);
    const float half = scale == 0x7F ? 0.0f : e4m3_magnitude(scale) / 2;
    return half * factor * static_cast<float>(fp4_values[q]);
}
float nvfp4(const std::byte* block, size_t i) { return nvfp4(block, i, 1); }
float nvfp4_s(const std::byte* block, size_t i) { return nvfp4(block + 4, i, load<float>(block)); }

/// The scale is 256 times what multiplies codes. Minus zero is zero.
float f8_e4m3(const std::byte* block, size_t i) {
    const int code = load<uint8_t>(block + 2 + i);
    const float magnitude = e4m3_magnitude(code);
    return (code < 128 || magnitude == 0 ? magnitude : -magnitude) * (load_half(block) / 256);
}

template <float (*weight)(const std::byte*, size_t)>
void unpack(const TensorTypeInfo& info, const std::byte* blocks, std::span<float> out) {
    for (size_t i = 0; i < out.size(); ++i)
        out[i] = weight(blocks + i / info.block * info.block_bytes, i % info.block);
}

struct Reader {
    TensorType type;
    void (*read)(const TensorTypeInfo&, const std::byte*, std::span<float>);
};
constexpr Reader readers[] = {
    {TensorType::f32, unpack<f32>},         {TensorType::f16, unpack<f16>},
    {TensorType::bf16, unpack<bf16>},       {TensorType::q4_0, unpack<q4_0>},
    {TensorType::q4_1, unpack<q4_1>},       {TensorType::q5_0, unpack<q5_0>},
    {TensorType::q5_1, unpack<q5_1>},       {TensorType::q8_0, unpack<q8_0>},
    {TensorType::q2_k, unpack<q2_k>},       {TensorType::q3_k, unpack<q3_k>},
    {TensorType::q4_k, unpack<q4_k>},       {TensorType::q5_k, unpack<q5_k>},
    {TensorType::q6_k, unpack<q6_k>},       {TensorType::iq2_xxs, unpack<iq2_xxs>},
    {TensorType::iq2_xs, unpack<iq2_xs>},   {TensorType::iq2_s, unpack<iq2_s>},
    {TensorType::iq3_xxs, unpack<iq3_xxs>}, {TensorType::iq3_s, unpack<iq3_s>},
    {TensorType::iq1_s, unpack<iq1_s>},     {TensorType::iq1_m, unpack<iq1_m>},
    {TensorType::iq4_nl, unpack<iq4_nl>},   {TensorType::iq4_xs, unpack<iq4_xs>},
    {TensorType::tq1_0, unpack<tq1_0>},     {TensorType::tq2_0, unpack<tq2_0>},
    {TensorType::mxfp4, unpack<mxfp4>},     {TensorType::nvfp4, unpack<nvfp4>},
    {TensorType::q1_0, unpack<q1_0>},       {TensorType::q2_0, unpack<q2_0>},
    {TensorType::f8_e4m3, unpack<f8_e4m3>}, {TensorType::nvfp4_s, unpack<nvfp4_s>},
};

}  // namespace

void dequantise(TensorType type, std::span<const std::byte> blocks, std::span<float> out) {
    const auto reader = std::ranges::find(readers, type, &Reader::type);
    assert(reader != std::end(readers));
    reader->read(tensor_type_info(type), blocks.data(), out);
}

}  // namespace scoria::reference
