// See weight_check.h.
#include "weight_check.h"

#include "ops/weight_layout.h"
#include "reference/dequantise.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

namespace scoria::validate {
namespace {

uint64_t file_row_bytes(TensorType type, uint32_t cols) {
    const TensorTypeInfo& info = tensor_type_info(type);
    return uint64_t(cols) / info.block * info.block_bytes;
}

}  // namespace

reference::Rows CheckWeight::reference() const {
    return {rows, cols, [this](uint32_t row, std::span<double> out) {
                const uint64_t bytes = file_row_bytes(type, cols);
                std::vector<float> values(cols);
                reference::dequantise(type, std::span(file).subspan(row * bytes, bytes), values);
                std::ranges::copy(values, out.begin());
            }};
}

CheckWeight check_weight(CheckContext& context, TensorType type, uint32_t rows, uint32_t cols,
                         std::vector<std::byte> file, uint32_t shard_rows) {
    CheckWeight weight{type, rows, cols, std::move(file), {}, {type, rows, cols, {}}};
    const uint64_t row_bytes = file_row_bytes(type, cols);
    const uint32_t most = shard_rows ? shard_rows : rows_within(type, rows, cols, context.caps().max_binding);
    for (uint32_t first = 0; first < rows; first += most) {
        const uint32_t count = std::min(most, rows - first);
        // Rows past the end hold NaN: nothing may depend on them.
        std::vector<std::byte> planes(layout_bytes(type, count, cols), std::byte{0xFF});
        repack(type, count, cols, std::span(weight.file).subspan(first * row_bytes, count * row_bytes), 0, 1,
               planes);
        weight.buffers.push_back(context.buffer(planes));
        weight.device.shards.push_back({weight.buffers.back().view(), first, count});
    }
    return weight;
}

std::vector<std::byte> random_blocks(TensorType type, uint32_t rows, uint32_t cols, uint64_t seed) {
    std::mt19937 random(uint32_t(seed * 2654435761u + uint32_t(type)));
    std::vector<std::byte> file(rows * file_row_bytes(type, cols));
    for (std::byte& byte : file) byte = std::byte(random());
    const TensorTypeInfo& info = tensor_type_info(type);
    // Scales near 2^exponent as halves, both signs: a value of type q is about a quarter of its range times
    // d.
    const auto half = [&](double target) {
        const int exponent = std::clamp(int(std::lround(std::log2(target))) + 15, 1, 30);
        return uint16_t((random() & 0x8000u) | uint32_t(exponent) << 10 | (random() & 0x3FFu));
    };
    const double sigma = 1 / std::sqrt(double(cols));
    const bool five = type == TensorType::q5_0 || type == TensorType::q5_1;
    const double range = type == TensorType::q8_0 ? 256 : five ? 32 : 16;
    for (size_t at = 0; at < file.size(); at += info.block_bytes) {
        const auto put = [&](size_t offset, auto value) {
            std::memcpy(&file[at + offset], &value, sizeof value);
        };
        if (type == TensorType::f32)
            put(0, float(sigma * (double(random()) / 2147483648.0 - 1)));
        else if (type == TensorType::bf16)
            put(0, uint16_t((half(sigma) & 0x8000u) | (0x3C00u + random() % 0x180u)));
        else
            put(0, half(type == TensorType::f16 ? sigma : 4 * sigma / range));
        if (type == TensorType::q4_1 || type == TensorType::q5_1) put(2, half(sigma));
    }
    return file;
}

}  // namespace scoria::validate
