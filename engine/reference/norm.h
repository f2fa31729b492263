// Normalisation of each group of values: RMS (Zhang & Sennrich 2019) or layer norm (Ba et al. 2016).
#pragma once

#include "architecture.h"

#include <cmath>
#include <cstddef>
#include <span>

namespace scoria::reference {

/// x, out: any number of groups, one after the other; may be the same memory. weight and bias: empty, or
/// any number of values that divides x's: value i goes with element i, i + weight.size(), ...
inline void norm(std::span<const double> x, NormKind kind, size_t group, std::span<const double> weight,
                 std::span<const double> bias, double epsilon, std::span<double> out) {
    for (size_t first = 0; first < x.size(); first += group) {
        double mean = 0, squares = 0;
        for (size_t i = 0; kind == NormKind::layer && i < group; ++i)
            mean += x[first + i] / static_cast<double>(group);
        for (size_t i = 0; i < group; ++i) squares += (x[first + i] - mean) * (x[first + i] - mean);
        const double scale = 1 / std::sqrt(squares / static_cast<double>(group) + epsilon);
        for (size_t i = first; i < first + group; ++i)
            out[i] = (x[i] - mean) * scale * (weight.empty() ? 1 : weight[i % weight.size()]) +
                     (bias.empty() ? 0 : bias[i % bias.size()]);
    }
}

}  // namespace scoria::reference
