// Ops on one element at a time. Outputs may be an input's memory.
#pragma once

#include "architecture.h"

#include <cmath>
#include <cstddef>
#include <span>

namespace scoria::reference {

inline double activate(double x, Activation activation) {
    switch (activation) {
    case Activation::silu:
        return x / (1 + std::exp(-x));
    }
    return x;
}

/// out = act(gate) * up
inline void glu(std::span<const double> gate, std::span<const double> up, Activation activation,
                std::span<double> out) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = activate(gate[i], activation) * up[i];
}

inline void add(std::span<const double> a, std::span<const double> b, std::span<double> out) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = a[i] + b[i];
}

/// out = cap * tanh(x / cap)
inline void soft_cap(std::span<const double> x, double cap, std::span<double> out) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = cap * std::tanh(x[i] / cap);
}

}  // namespace scoria::reference
