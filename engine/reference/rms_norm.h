// Reference: RMS norm in double precision (Zhang & Sennrich 2019, eq. 4).
#pragma once

#include <cstddef>
#include <span>

namespace scoria::reference {

/// Each `weight.size()` consecutive elements of x: out = x / sqrt(mean(x^2) + epsilon) * weight. out may be x.
void rms_norm(std::span<const double> x, std::span<const double> weight, double epsilon, std::span<double> out);

}  // namespace scoria::reference
