// Normalisation of each group of values: RMS (Zhang & Sennrich 2019), layer norm (Ba et al. 2016), or what
// else NormKind says.
#pragma once

#include "architecture.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

namespace scoria::reference {

/// x, out: any number of groups, one after the other; may be the same memory. weight and bias: empty, or
/// any number of values that divides x's: value i goes with element i, i + weight.size(), ... like: of
/// NormKind::match, `group` values for every row of x.
inline void norm(std::span<const double> x, NormKind kind, size_t group, std::span<const double> weight,
                 std::span<const double> bias, double epsilon, std::span<double> out,
                 std::span<const double> like = {}) {
    const double count = static_cast<double>(group);
    const size_t groups = like.empty() ? 1 : std::max<size_t>(x.size() / like.size(), 1);  // of a row
    for (size_t first = 0, index = 0; first < x.size(); first += group, ++index) {
        double mean = 0, squares = 0;
        for (size_t i = 0; (kind == NormKind::layer || kind == NormKind::cut) && i < group; ++i)
            mean += x[first + i] / count;
        for (size_t i = 0; i < group; ++i) squares += (x[first + i] - mean) * (x[first + i] - mean) / count;
        double scale = 1, cut = 0, length = 0;
        switch (kind) {
        case NormKind::rms:
        case NormKind::layer:
            scale = 1 / std::sqrt(squares + epsilon);
            break;
        case NormKind::scale:
            break;
        case NormKind::match:
            for (const double value : like.subspan(index / groups * group, group))
                length += value * value / count;
            scale = std::sqrt(length / std::max(squares, epsilon));
            break;
        case NormKind::cut:
            cut = epsilon * std::sqrt(squares);
            break;
        }
        for (size_t i = first; i < first + group; ++i) {
            out[i] = (x[i] - mean) * scale * (weight.empty() ? 1 : weight[i % weight.size()]) +
                     (bias.empty() ? 0 : bias[i % bias.size()]);
            if (kind == NormKind::cut) out[i] = out[i] < cut ? 0 : out[i] - cut;
        }
    }
}

}  // namespace scoria::reference
