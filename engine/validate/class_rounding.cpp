// See class_rounding.h. The formats are those of shaders/linear_pack.comp, linear_pack_int.comp and
// ops/kv_layout.h.
#include "class_rounding.h"

#include "cache_tools.h"
#include "linear_tools.h"
#include "weight_planes.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace scoria::validate {
namespace {

/// Halves keep 10 bits of a float's 23, and below 2^-14 lie 2^-24 apart. Whole models go through here.
float half_value(float value, bool nearest) {
    if (std::abs(value) < 0x1p-14f) {
        const float steps = value * 0x1p24f;
        return (nearest ? std::nearbyint(steps) : std::trunc(steps)) * 0x1p-24f;
    }
    const uint32_t bits = std::bit_cast<uint32_t>(value), up = nearest ? 0xFFFu + (bits >> 13 & 1) : 0;
    return std::bit_cast<float>((bits + up) & ~0x1FFFu);
}

void to_nearest_half(std::span<double> row) {
    for (double& value : row) value = double(half_value(float(value), true));
}
void to_half_towards_zero(std::span<double> row) {
    for (double& value : row) value = double(half_value(float(value), false));
}

/// The largest is in [2^14, 2^15) while it is rounded.
void to_scaled_half(std::span<double> row) {
    const double largest = largest_of(row);
    if (largest == 0 || !std::isfinite(largest)) return;
    const double power = std::ldexp(1.0, 14 - std::ilogb(largest));
    for (double& value : row) value = double(half_value(float(value * power), true)) / power;
}

void to_bytes(std::span<double> row) {
    for (size_t first = 0; first < row.size(); first += WEIGHT_BLOCK) {
        const auto block = row.subspan(first, std::min<size_t>(WEIGHT_BLOCK, row.size() - first));
        const double step = largest_of(block) / 127;
        for (double& value : block)
            if (step > 0 && std::isfinite(step)) value = std::nearbyint(value / step) * step;
    }
}

void to_cache(KvType type, std::span<double> rows, const Attention& shape, bool values) {
    HostCache cache(type, shape.kv_heads, shape.head_dim, 1, 1, 0);
    const std::vector<uint32_t> table = cache.own(1);
    const bool spread = !values && kv_spread(type, kv_planes(shape));
    const size_t cols = size_t(shape.kv_heads) * shape.head_dim;
    for (size_t first = 0; first < rows.size(); first += cols) {
        const auto row = rows.subspan(first, cols);
        if (spread) spread_heads(row, shape.head_dim);
        cache.set(table, false, 0, std::vector<float>(row.begin(), row.end()));
        for (uint32_t column = 0; column < cols; ++column) row[column] = cache.get(table, false, 0, column);
        if (spread) spread_heads(row, shape.head_dim);  // its own inverse
    }
}

}  // namespace

std::vector<reference::Rounding> class_roundings(Precision precision, KvType kv) {
    reference::Rounding nearest;
    if (kv != KvType::f32)
        nearest.cache = [kv](std::span<double> rows, const Attention& shape, bool values) {
            to_cache(kv, rows, shape, values);
        };
    if (precision == Precision::strict)
        return kv == KvType::f32 ? std::vector<reference::Rounding>{} : std::vector{nearest};
    nearest.activations = precision == Precision::fast ? to_bytes : to_scaled_half;
    reference::Rounding towards_zero = nearest;
    nearest.weights = to_nearest_half;
    towards_zero.weights = to_half_towards_zero;
    return {nearest, towards_zero};
}

}  // namespace scoria::validate
