// Small things that the checks of several ops need.
#pragma once

#include "check.h"
#include "fail.h"
#include "ops/kernel_variant.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace scoria::validate {

inline constexpr double unit_roundoff = 0x1p-24;        // of float32
inline constexpr double half_unit_roundoff = 0x1p-11;   // of float16
inline constexpr double bfloat_unit_roundoff = 0x1p-8;  // of bfloat16

inline std::vector<double> doubles(std::span<const float> values) { return {values.begin(), values.end()}; }

/// Bounds for results whose rounding errors are about `units` unit roundoffs of the row's scale each:
/// errors of elements are independent, so the worst one of a row is taken as eight times the typical one.
inline Bounds bounds_of(double units, double roundoff = unit_roundoff) {
    const double typical = units * roundoff;
    return {typical * typical, 2 * typical, 8 * typical};
}

/// The variants that `of` lists for this device and, on a CPU driver, where a workgroup is one subgroup,
/// those that a GPU of the same features would get: what goes wrong between subgroups is seen there, too.
inline std::vector<KernelVariant> proven_variants(const vk::Caps& caps,
                                                  std::vector<KernelVariant> (*of)(const vk::Caps&)) {
    std::vector<KernelVariant> variants = of(caps);
    if (!caps.is_cpu()) return variants;
    vk::Caps gpu = caps;
    gpu.type = vk::DeviceType::discrete;
    for (KernelVariant wide : of(gpu)) {
        const auto same = [&](const KernelVariant& v) {
            return v.shader == wide.shader && v.workgroup == wide.workgroup;
        };
        if (std::ranges::any_of(variants, same)) continue;
        wide.name = "subgroups";
        variants.push_back(wide);
    }
    return variants;
}

/// Runs `record` on every variant of a case and compares its output, whose rows are neither aligned nor side
/// by side: what lies between them must stay.
template <class Variants, class Record>
void run_variants(CheckContext& context, const char* op, const std::string& shape, const Variants& variants,
                  std::span<const double> expected, uint32_t cols, const Bounds& bounds,
                  const Record& record) {
    for (const auto& variant : variants) {
        constexpr uint32_t before = 1, between = 3;
        const uint32_t rows = uint32_t(expected.size() / cols), stride = cols + between;
        std::string error;
        const std::vector<float> words = context.run_twice(
            before + rows * stride,
            [&](OpContext& ops, const CheckContext::Output& output) {
                record(ops, Matrix{output.buffer.view(), rows, cols, stride, output.first + before}, variant);
            },
            error);
        std::vector<float> actual;
        for (uint32_t i = 0; i < words.size(); ++i) {
            const bool inside = i >= before && (i - before) % stride < cols;
            if (inside) actual.push_back(words[i]);
            if (!inside && error.empty() && std::bit_cast<uint32_t>(words[i]) != unwritten_word)
                error = cat("word ", i, " between rows of ", cols, " was overwritten");
        }
        context.compare(op, variant.name, shape, expected, actual, cols, bounds, error);
    }
}

}  // namespace scoria::validate
