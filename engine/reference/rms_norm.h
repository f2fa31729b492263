// y = x / sqrt(mean(x^2) + epsilon) * weight over each group of weight.size() values (Zhang & Sennrich 2019).
#pragma once

#include <cmath>
#include <cstddef>
#include <span>

namespace scoria::reference {

/// x, out: any number of groups, one after the other; may be the same memory.
inline void rms_norm(std::span<const double> x, std::span<const double> weight, double epsilon,
                     std::span<double> out) {
    const size_t group = weight.size();
    for (size_t first = 0; first < x.size(); first += group) {
        double squares = 0;
        for (size_t i = 0; i < group; ++i) squares += x[first + i] * x[first + i];
        const double scale = 1 / std::sqrt(squares / static_cast<double>(group) + epsilon);
        for (size_t i = 0; i < group; ++i) out[first + i] = x[first + i] * scale * weight[i];
    }
}

}  // namespace scoria::reference
