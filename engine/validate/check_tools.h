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

/// Of an output of `rows` rows those that are compared, in rising order; rows 0: all there are.
struct RowSample {
    uint32_t rows = 0;
    std::vector<uint32_t> compared;
};

/// About `count` of `size` indices: the first, the last, those beside borders of tiles, and some between.
inline std::vector<uint32_t> sampled(uint32_t size, uint32_t count) {
    std::vector<uint32_t> picked;
    const uint32_t wanted[] = {0, size - 1, 15, 16, 63, 64, 127, 128, size / 2, size / 3};
    for (const uint32_t index : wanted)
        if (index < size && picked.size() < count) picked.push_back(index);
    for (uint32_t i = 0; picked.size() < std::min(size, count); ++i)
        picked.push_back(uint32_t((uint64_t(i) * 2654435761u) % size));
    std::ranges::sort(picked);
    picked.erase(std::unique(picked.begin(), picked.end()), picked.end());
    return picked;
}

/// `count` random floats, cheaply: a run of prime length over and over.
inline std::vector<float> repeated_floats(size_t count, uint64_t seed) {
    constexpr size_t period = 65521;
    std::vector<float> values = random_floats(std::min(count, period), seed);
    values.resize(count);
    for (size_t i = period; i < count; ++i) values[i] = values[i - period];
    return values;
}

/// Runs `record` on every variant of a case and compares its output, whose rows are neither aligned nor side
/// by side: what lies between them must stay.
template <class Variants, class Record>
void run_variants(CheckContext& context, const char* op, const std::string& shape, const Variants& variants,
                  std::span<const double> expected, uint32_t cols, const Bounds& bounds, const Record& record,
                  const RowSample& sample = {}) {
    for (const auto& variant : variants) {
        if (context.leaves_out(op, variant)) continue;
        constexpr uint32_t before = 1, between = 3;
        const uint32_t rows = sample.rows ? sample.rows : uint32_t(expected.size() / cols),
                       stride = cols + between;
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
            if (inside &&
                (!sample.rows || std::ranges::binary_search(sample.compared, (i - before) / stride)))
                actual.push_back(words[i]);
            if (inside && sample.rows && error.empty() && std::bit_cast<uint32_t>(words[i]) == unwritten_word)
                error =
                    cat("row ", (i - before) / stride, " column ", (i - before) % stride, " was not written");
            if (!inside && error.empty() && std::bit_cast<uint32_t>(words[i]) != unwritten_word)
                error = cat("word ", i, " between rows of ", cols, " was overwritten");
        }
        context.compare(op, variant.name, shape, expected, actual, cols, bounds, error);
    }
}

}  // namespace scoria::validate
