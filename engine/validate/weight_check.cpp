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

/// Where the scale of a block lies, which is a half, and the typical size of a value where it is 1; likewise
/// the scale of the minima, where there is one, in the next half.
struct HalfScales {
    TensorType type;
    size_t at;
    double size, minimum_size = 0;
};
constexpr HalfScales half_scales[] = {
    {TensorType::f16, 0, 1},        {TensorType::q4_0, 0, 4},      {TensorType::q4_1, 0, 4, 1},
    {TensorType::q5_0, 0, 8},       {TensorType::q5_1, 0, 8, 1},   {TensorType::q8_0, 0, 64},
    {TensorType::q2_k, 80, 16, 8},  {TensorType::q3_k, 108, 40},   {TensorType::q4_k, 0, 320, 36},
    {TensorType::q5_k, 0, 640, 36}, {TensorType::q6_k, 208, 1300}, {TensorType::iq2_xxs, 0, 50},
    {TensorType::iq2_xs, 0, 50},    {TensorType::iq2_s, 0, 50},    {TensorType::iq3_xxs, 0, 140},
    {TensorType::iq3_s, 0, 130},    {TensorType::iq1_s, 0, 6},     {TensorType::iq4_nl, 0, 60},
    {TensorType::iq4_xs, 0, 1100},  {TensorType::tq1_0, 52, 1},    {TensorType::tq2_0, 64, 1},
    {TensorType::q1_0, 0, 1},       {TensorType::q2_0, 0, 1},      {TensorType::f8_e4m3, 0, 0.5},
};

/// Rows past the end hold NaN: nothing may depend on them.
std::vector<std::byte> planes_of(const CheckWeight& weight, uint32_t first, uint32_t rows) {
    const uint64_t row_bytes = file_row_bytes(weight.type, weight.cols);
    std::vector<std::byte> planes(layout_bytes(weight.type, rows, weight.cols), std::byte{0xFF});
    repack(weight.type, rows, weight.cols,
           std::span(weight.file).subspan(first * row_bytes, rows * row_bytes), 0, 1, planes);
    return planes;
}

/// The file's rows over and over, copied on the device: a vocabulary's worth of them takes no second.
vk::Buffer repeated_shard(CheckContext& context, const CheckWeight& weight, uint32_t rows) {
    vk::Buffer shard(context.device, layout_bytes(weight.type, rows, weight.cols), vk::MemoryUse::device);
    const vk::Buffer whole = context.buffer(planes_of(weight, 0, std::min(rows, weight_period)));
    const uint32_t rest = rows % weight_period;
    const vk::Buffer last = rest ? context.buffer(planes_of(weight, 0, rest)) : vk::Buffer();
    context.run([&](OpContext& ops) {
        ops.recorder.fill(shard.view(), 0xFFFFFFFFu);
        for (uint32_t first = 0; first < rows; first += weight_period) {
            const uint32_t count = std::min(weight_period, rows - first);
            const vk::Buffer& from = count == weight_period ? whole : last;
            for (const PlaneCopy& copy : plane_copies(weight.type, rows, weight.cols, first, count))
                ops.recorder.copy(from.view(copy.from, copy.bytes), shard.view(copy.to, copy.bytes));
        }
    });
    return shard;
}

}  // namespace

reference::Rows CheckWeight::reference() const {
    return {rows, cols, [this](uint32_t row, std::span<double> out) {
                const uint64_t bytes = file_row_bytes(type, cols);
                if (file.size() < rows * bytes)
                    for (const DeviceWeight::Shard& shard : device.shards)
                        if (row >= shard.first_row && row < shard.first_row + shard.rows) {
                            row = (row - shard.first_row) % weight_period;
                            break;
                        }
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
        const uint64_t all_bytes = rows * row_bytes;
        weight.buffers.push_back(weight.file.size() < all_bytes
                                     ? repeated_shard(context, weight, count)
                                     : context.buffer(planes_of(weight, first, count)));
        weight.device.shards.push_back({weight.buffers.back().view(), first, count});
    }
    return weight;
}

std::vector<std::byte> random_blocks(TensorType type, uint32_t rows, uint32_t cols, uint64_t seed) {
    std::mt19937 random(uint32_t(seed * 2654435761u + uint32_t(type)));
    std::vector<std::byte> file(rows * file_row_bytes(type, cols));
    for (std::byte& byte : file) byte = std::byte(random());
    // Near the target as halves, both signs; 0 to 2^-14 where that is below the normal ones.
    const auto half = [&](double target) {
        const int exponent = std::clamp(int(std::lround(std::log2(target))) + 15, 0, 30);
        return uint16_t((random() & 0x8000u) | uint32_t(exponent) << 10 | (random() & 0x3FFu));
    };
    const double sigma = 1 / std::sqrt(double(cols));
    const auto scales = std::ranges::find(half_scales, type, &HalfScales::type);
    const uint32_t block_bytes = tensor_type_info(type).block_bytes;
    for (size_t at = 0; at < file.size(); at += block_bytes) {
        const auto put = [&](size_t offset, auto value) {
            std::memcpy(&file[at + offset], &value, sizeof value);
        };
        if (scales != std::end(half_scales)) {
            put(scales->at, half(sigma / scales->size));
            if (scales->minimum_size != 0) put(scales->at + 2, half(sigma / scales->minimum_size));
        } else if (type == TensorType::f32) {
            put(0, float(sigma * (double(random()) / 2147483648.0 - 1)));
        } else if (type == TensorType::bf16) {
            put(0, uint16_t((half(sigma) & 0x8000u) | (0x3C00u + random() % 0x180u)));
        } else if (type == TensorType::mxfp4) {
            // Now and then a scale that is a subnormal float.
            const bool least = random() % 16 == 0;
            put(0, uint8_t(least ? random() % 2
                                 : uint32_t(std::lround(std::log2(sigma / 5))) + 127 + random() % 2));
        } else if (type == TensorType::iq1_m) {
            const uint16_t d = half(sigma / 6);  // a nibble of it above 12 bits of scales
            for (uint32_t part = 0; part < 4; ++part)
                put(48 + 2 * part, uint16_t((random() & 0xFFFu) | (d >> (4 * part) & 15u) << 12));
        }
        if (type == TensorType::nvfp4 || type == TensorType::nvfp4_s)
            for (uint32_t sub = 0; sub < 4; ++sub)  // 2^-9 to 4, and zero
                put((type == TensorType::nvfp4 ? 0 : 4) + sub, uint8_t(random() % 0x48u));
        if (type == TensorType::nvfp4_s) put(0, float(3 * sigma * (double(random()) / 2147483648.0 - 1)));
    }
    return file;
}

}  // namespace scoria::validate
