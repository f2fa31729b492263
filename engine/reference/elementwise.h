// Ops on one element at a time. Outputs may be an input's memory.
#pragma once

#include "architecture.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <span>

namespace scoria::reference {

/// Formulas and sources: Activation.
inline double activate(double x, Activation activation) {
    switch (activation) {
    case Activation::identity:
        return x;
    case Activation::silu:
        return x / (1 + std::exp(-x));
    case Activation::gelu:
        return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
    case Activation::gelu_tanh:
        return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Activation::gelu_quick:
        return x / (1 + std::exp(-1.702 * x));
    case Activation::relu:
        return std::max(x, 0.0);
    case Activation::relu_squared:
        return std::max(x, 0.0) * std::max(x, 0.0);
    case Activation::sigmoid:
        return 1 / (1 + std::exp(-x));
    case Activation::elu:
        return x > 0 ? x : std::expm1(x);
    case Activation::selu:  // Klambauer et al. 2017
        return 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * std::expm1(x));
    case Activation::softplus:
        return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
    case Activation::tanh:
        return std::tanh(x);
    case Activation::xielu:  // xielu()
        break;
    }
    return x;
}

/// out = act(gate) * up, clamped as GluClamp says.
inline void glu(std::span<const double> gate, std::span<const double> up, Activation activation,
                const GluClamp& clamp, std::span<double> out) {
    const double limit{clamp.limit}, slope{clamp.slope}, offset{clamp.offset};
    for (size_t i = 0; i < out.size(); ++i) {
        if (limit == 0) {
            out[i] = activate(gate[i], activation) * up[i];
            continue;
        }
        const double u = std::clamp(up[i], -limit, limit);
        if (clamp.activated) {
            out[i] = std::min(activate(gate[i], activation), limit) * u;
        } else {
            const double g = std::min(gate[i], limit);
            out[i] = (u + offset) * g / (1 + std::exp(-slope * g));
        }
    }
}

inline void add(std::span<const double> a, std::span<const double> b, double scale, std::span<double> out) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = a[i] + scale * b[i];
}

inline void scale(std::span<const double> x, double factor, std::span<double> out) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = factor * x[i];
}

inline void clamp(std::span<const double> x, double limit, std::span<double> out) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = std::clamp(x[i], -limit, limit);
}

/// out = cap * tanh(x / cap)
inline void soft_cap(std::span<const double> x, double cap, std::span<double> out) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = cap * std::tanh(x[i] / cap);
}

inline void xielu(std::span<const double> x, double rise, double fall, std::span<double> out) {
    for (size_t i = 0; i < out.size(); ++i)
        out[i] = (x[i] > 0 ? rise * x[i] * x[i] : fall * (std::expm1(x[i]) - x[i])) + x[i] / 2;
}

inline void activate(std::span<const double> x, Activation activation, std::span<double> out) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = activate(x[i], activation);
}

/// op::Mix of `rows` rows of `width` columns a stream; factors may be empty.
inline void mix(std::span<const double> x, std::span<const double> y, std::span<const double> factors,
                size_t rows, size_t width, double offset, double factor, size_t first,
                std::span<double> out) {
    if (rows == 0) return;
    const size_t inputs = y.size() / rows / width, streams = out.size() / rows / width,
                 x_cols = x.size() / rows;
    for (size_t t = 0; t < rows; ++t)
        for (size_t i = 0; i < streams; ++i)
            for (size_t c = 0; c < width; ++c) {
                double value = x[t * x_cols + i * width + c];
                for (size_t j = 0; j < inputs && i >= first; ++j) {
                    const double share = factors.empty() ? 0 : factors[(t * streams + i) * inputs + j];
                    value += (offset + factor * share) * y[(t * inputs + j) * width + c];
                }
                out[(t * streams + i) * width + c] = value;
            }
}

/// out[t] = act(gate[t]) * x[t]; x, out: [gate.size(), cols]
inline void gate(std::span<const double> x, std::span<const double> gate, Activation activation,
                 std::span<double> out) {
    const size_t cols = x.size() / gate.size();
    for (size_t i = 0; i < x.size(); ++i) out[i] = activate(gate[i / cols], activation) * x[i];
}

}  // namespace scoria::reference
