// See linear_tools.h.
#include "linear_tools.h"

#include "linear.push.h"
#include "reference/norm.h"
#include "weight_planes.h"

#include <algorithm>
#include <cmath>

namespace scoria::validate {
namespace {

/// How far from halfway between two steps values are kept, in steps, so that all devices round them alike:
/// floats of so many steps as two bytes have are known to a few thousandths of one.
constexpr struct Ties {
    double levels, clear;
} all_ties[] = {{LINEAR_BYTE_LEVELS, 2e-3}, {LINEAR_WIDE_LEVELS, 2e-2}};

/// Visits the blocks of columns of [rows, cols] numbers, `size` in all: (first, count).
template <class Visit> void each_block(size_t size, uint32_t cols, const Visit& visit) {
    for (size_t first = 0, count; first < size; first += count) {
        count = std::min<size_t>(WEIGHT_BLOCK, cols - first % cols);
        visit(first, count);
    }
}

}  // namespace

Bounds linear_bounds(const LinearVariant& variant, TensorType type, uint32_t tokens, uint32_t cols,
                     bool two_sums) {
    constexpr TensorType shifted_types[] = {TensorType::q4_0,  TensorType::q4_1, TensorType::q5_0,
                                            TensorType::q5_1,  TensorType::q2_k, TensorType::q3_k,
                                            TensorType::q4_k,  TensorType::q5_k, TensorType::q6_k,
                                            TensorType::tq2_0, TensorType::q2_0};
    const bool shifted = std::ranges::find(shifted_types, type) != std::end(shifted_types) ||
                         (type == TensorType::tq1_0 && tokens == 1);  // add_ternary_unit
    const bool halves = variant.operands() == LinearVariant::Operands::halves;
    const double sums = std::sqrt(double(cols) + 32) * std::exp2(-24) * (shifted ? 6 : 1);
    const bool half_sums = variant.shader == Shader::linear_tile_half;
    const double rounding = halves ? std::sqrt(half_sums ? 2 + 8.5 : 2) * std::exp2(-11) : 0;
    const double error = (sums + rounding) * (two_sums ? 2 : 1);
    // With few columns one product may be most of an element, and its rounding most of the error: the first
    // of a sum of halves is rounded at all 16 steps, where 8.5 was the mean.
    const double deviations = half_sums ? 8 * std::sqrt(16 / 8.5) : halves ? 8 : 6;
    return {error * error, 2 * error, deviations * error};
}

bool takes_minutes(CheckContext& context, const LinearVariant& variant) {
    return context.tier == Tier::quick && context.caps().is_cpu() && variant.part_rows && variant.rows > 32;
}

double largest_of(std::span<const double> block) {
    double largest = 0;
    for (const double value : block)
        largest = std::isfinite(value) ? std::max(largest, std::abs(value)) : NAN;
    return largest;
}

std::vector<double> stepped(std::vector<double> x, uint32_t cols, uint32_t levels) {
    if (levels == 0) return x;
    each_block(x.size(), cols, [&](size_t first, size_t count) {
        const std::span block = std::span(x).subspan(first, count);
        const double step = largest_of(block) / levels;
        for (double& value : block)
            value = std::isnan(step) ? NAN : step == 0 ? 0 : std::nearbyint(value / step) * step;
    });
    return x;
}

void leave_ties(std::vector<float>& x, uint32_t cols, std::span<const float> weight) {
    const auto scaled = [&](size_t i) {
        return double(x[i]) * (weight.empty() ? 1 : double(weight[i % cols]));
    };
    for (const Ties& ties : all_ties)
        each_block(x.size(), cols, [&](size_t first, size_t count) {
            std::vector<double> block(count);
            for (size_t i = 0; i < count; ++i) block[i] = scaled(first + i);
            const double step = largest_of(block) / ties.levels;
            for (size_t i = 0; i < count && step > 0; ++i) {
                const double steps = std::abs(block[i]) / step;
                const double from_tie = std::abs(steps - std::floor(steps) - 0.5);
                if (from_tie < ties.clear) x[first + i] *= float((steps - 0.1) / steps);
            }
        });
}

std::vector<double> normed(std::span<const float> x, std::span<const float> weight) {
    std::vector<double> in(x.begin(), x.end()), out(x.size());
    const std::vector<double> weights(weight.begin(), weight.end());
    if (weight.empty()) return in;
    reference::norm(in, NormKind::rms, weights.size(), weights, {}, double(norm_epsilon), out);
    return out;
}

}  // namespace scoria::validate
