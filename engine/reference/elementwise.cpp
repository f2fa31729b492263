// See elementwise.h.
#include "elementwise.h"

#include <cmath>

namespace scoria::reference {

double activate(Activation activation, double x) {
    switch (activation) {
        case Activation::silu: return x / (1 + std::exp(-x));
    }
    return x;
}

void glu(std::span<const double> gate, std::span<const double> up, Activation activation, std::span<double> out) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = activate(activation, gate[i]) * up[i];
}

void add(std::span<const double> a, std::span<const double> b, std::span<double> out) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = a[i] + b[i];
}

}  // namespace scoria::reference
