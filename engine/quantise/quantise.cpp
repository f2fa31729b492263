// Types of one scale per block; the table of all. Formats: see reference/dequantise.cpp, the inverse.
#include "quantise/quantise.h"

#include "quantise/block_writers.h"
#include "quantise/scale_search.h"
#include "reference/block_weights.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <limits>

namespace scoria {
namespace {

using Floats = std::span<const float>;

constexpr size_t most_block = 256;

void put_nibble(std::byte* packed, size_t i, int q) { put_bits(packed + i % 16, q, i / 16 * 4); }
void put_five_bits(std::byte* high, std::byte* packed, size_t i, int q) {
    put_nibble(packed, i, q & 15);
    put_bits(high + i / 8, q >> 4, i % 8);
}

float store_scale(float scale, float most, std::byte* out) {
    return store_half(half_scale(scale, most), out);
}

void write_f32(Floats x, Floats, std::byte* out) { std::memcpy(out, x.data(), sizeof(float)); }
void write_f16(Floats x, Floats, std::byte* out) { store_half(x[0], out); }
void write_bf16(Floats x, Floats, std::byte* out) {
    const uint16_t nearest = to_bf16(x[0]);
    std::memcpy(out, &nearest, sizeof nearest);
}

/// The integers of 32 weights, plus `bias`.
template <class Put>
void integers(Floats x, float scale, float offset, int lowest, int highest, const Put& put) {
    const float inverse = inverse_of(scale);
    for (size_t i = 0; i < x.size(); ++i)
        put(i, static_cast<int>(rounded((x[i] - offset) * inverse, static_cast<float>(lowest),
                                        static_cast<float>(highest))));
}

void write_q4_0(Floats x, Floats weights, std::byte* out) {
    const float scale = store_scale(symmetric_scale(x, weights, -8, 7), 8, out);
    integers(x, scale, 0, -8, 7, [&](size_t i, int q) { put_nibble(out + 2, i, q + 8); });
}
void write_q5_0(Floats x, Floats weights, std::byte* out) {
    const float scale = store_scale(symmetric_scale(x, weights, -16, 15), 16, out);
    integers(x, scale, 0, -16, 15, [&](size_t i, int q) { put_five_bits(out + 2, out + 6, i, q + 16); });
}
void write_q4_1(Floats x, Floats weights, std::byte* out) {
    const Affine fit = affine_scale(x, weights, 15, false);
    const float scale = store_scale(fit.scale, 15, out), offset = store_half(fit.offset, out + 2);
    integers(x, scale, offset, 0, 15, [&](size_t i, int q) { put_nibble(out + 4, i, q); });
}
void write_q5_1(Floats x, Floats weights, std::byte* out) {
    const Affine fit = affine_scale(x, weights, 31, false);
    const float scale = store_scale(fit.scale, 31, out), offset = store_half(fit.offset, out + 2);
    integers(x, scale, offset, 0, 31, [&](size_t i, int q) { put_five_bits(out + 4, out + 8, i, q); });
}

float largest_magnitude(Floats x) {
    float most = 0;
    for (const float value : x) most = std::max(most, std::abs(value));
    return most;
}

/// Q8_0 given the scale.
void write_bytes(Floats x, float wanted_scale, std::byte* out) {
    const float scale = store_scale(wanted_scale, 127, out);
    integers(x, scale, 0, -127, 127, [&](size_t i, int q) { out[2 + i] = static_cast<std::byte>(q); });
}
void write_q8_0(Floats x, Floats, std::byte* out) { write_bytes(x, largest_magnitude(x) / 127, out); }

/// The index of the IQ4 value nearest to v. The points halfway between two of them are multiples of 1/2.
size_t nearest_iq4(float v) {
    static const auto table = [] {
        std::array<uint8_t, 512> indices{};
        for (size_t i = 0; i < indices.size(); ++i) {
            const float at = (static_cast<float>(i) - 256) / 2 + 0.25f;
            const auto distance = [&](int8_t value) { return std::abs(static_cast<float>(value) - at); };
            const auto nearest =
                std::min_element(std::begin(reference::iq4_values), std::end(reference::iq4_values),
                                 [&](int8_t a, int8_t b) { return distance(a) < distance(b); });
            indices[i] = static_cast<uint8_t>(nearest - reference::iq4_values);
        }
        return indices;
    }();
    return table[static_cast<size_t>(std::floor(std::clamp(2 * v, -256.0f, 255.0f)) + 256)];
}

/// As symmetric_scale, with the integers replaced by the nearest of the 16 values.
void write_iq4_nl(Floats x, Floats weights, std::byte* out) {
    const float extreme =
        *std::max_element(x.begin(), x.end(), [](float a, float b) { return std::abs(a) < std::abs(b); });
    if (std::abs(extreme) < 1e-12f) return;  // the scale stays 0
    float best_gain = -1, best = 0;
    const auto attempt = [&](float inverse) {
        float xq = 0, qq = 0;
        for (size_t i = 0; i < x.size(); ++i) {
            const float q = reference::iq4_values[nearest_iq4(x[i] * inverse)];
            xq += weights[i] * q * x[i];
            qq += weights[i] * q * q;
        }
        const float gain = qq > 0 ? xq * (xq / qq) : -1;
        if (gain <= best_gain) return false;
        best_gain = gain;
        best = xq / qq;
        return true;
    };
    for (const float end : {-127.0f, 113.0f})
        for (float step = -12; step <= 12; step += 2) attempt((end + step) / extreme);
    for (int i = 0; i < 3 && attempt(inverse_of(best)); ++i) {
    }
    const float inverse = inverse_of(store_half(best, out));
    for (size_t i = 0; i < x.size(); ++i)
        put_nibble(out + 2, i, static_cast<int>(nearest_iq4(x[i] * inverse)));
}

/// What the error of a weight is multiplied by.
enum class Weighting {
    none,        // the writer looks at nothing but x
    importance,  // importance; with it, by_size as well
    by_size,     // importance * sqrt(mean(x^2) + x^2)
};
struct Writer {
    TensorType type;
    BlockWriter write;
    Weighting weighting;
};
constexpr Writer writers[] = {
    {TensorType::f32, write_f32, Weighting::none},
    {TensorType::f16, write_f16, Weighting::none},
    {TensorType::bf16, write_bf16, Weighting::none},
    {TensorType::q8_0, write_q8_0, Weighting::none},
    {TensorType::q4_0, write_q4_0, Weighting::importance},
    {TensorType::q4_1, write_q4_1, Weighting::importance},
    {TensorType::q5_0, write_q5_0, Weighting::importance},
    {TensorType::q5_1, write_q5_1, Weighting::importance},
    {TensorType::iq4_nl, write_iq4_nl, Weighting::by_size},
    {TensorType::q2_k, write_q2_k, Weighting::by_size},
    {TensorType::q3_k, write_q3_k, Weighting::by_size},
    {TensorType::q4_k, write_q4_k, Weighting::by_size},
    {TensorType::q5_k, write_q5_k, Weighting::by_size},
    {TensorType::q6_k, write_q6_k, Weighting::by_size},
};

/// How much the error of each weight of a block counts, see quantise.h; at most 1, so that sums are finite.
/// All ones where nothing would count.
void block_weights(Floats x, Floats importance, std::span<float> out) {
    float squares = 0, most = 0;
    for (const float value : x) squares += value * value;
    const float mean = squares / static_cast<float>(x.size());
    for (size_t i = 0; i < out.size(); ++i) {
        out[i] = std::sqrt(mean + x[i] * x[i]) * (importance.empty() ? 1 : importance[i]);
        most = std::max(most, out[i]);
    }
    const bool usable = most > 0 && std::isfinite(most);
    for (float& weight : out) weight = usable ? weight / most : 1;
}

}  // namespace

bool can_quantise(TensorType type) {
    return std::ranges::find(writers, type, &Writer::type) != std::end(writers);
}

float largest_value(TensorType type) {
    if (type == TensorType::f32) return std::numeric_limits<float>::max();
    if (type == TensorType::bf16) return std::bit_cast<float>(0x7f7f0000u);
    // Scales and offsets are halves; a fitted offset may lie beyond the weights.
    return type == TensorType::f16 ? 65504.0f : 32768.0f;
}

void quantise_row(TensorType type, Floats row, Floats importance, std::span<std::byte> out) {
    const auto writer = std::ranges::find(writers, type, &Writer::type);
    assert(writer != std::end(writers));
    const TensorTypeInfo& info = tensor_type_info(type);
    assert(row.size() % info.block == 0 && out.size() == row.size() / info.block * info.block_bytes);
    std::memset(out.data(), 0, out.size());
    float weights[most_block];
    for (size_t i = 0, block = 0; i < row.size(); i += info.block, ++block) {
        const Floats x = row.subspan(i, info.block);
        const std::span<float> used(weights, writer->weighting != Weighting::none ? info.block : 0);
        if (writer->weighting == Weighting::by_size || !importance.empty())
            block_weights(x, importance.empty() ? importance : importance.subspan(i, info.block), used);
        else
            std::fill(used.begin(), used.end(), 1.0f);
        writer->write(x, used, out.data() + block * info.block_bytes);
    }
}

void quantise_row_int8(Floats row, std::span<std::byte> out) {
    constexpr size_t block = 32, block_bytes = 34;
    const float scale = largest_magnitude(row) / 127;
    for (size_t i = 0; i < row.size() / block; ++i)
        write_bytes(row.subspan(i * block, block), scale, out.data() + i * block_bytes);
}

}  // namespace scoria
