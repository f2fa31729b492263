// Reference: elementwise ops in double precision.
#pragma once

#include "architecture.h"

#include <span>

namespace scoria::reference {

double activate(Activation activation, double x);
/// out = act(gate) * up
void glu(std::span<const double> gate, std::span<const double> up, Activation activation, std::span<double> out);
/// out = a + b
void add(std::span<const double> a, std::span<const double> b, std::span<double> out);

}  // namespace scoria::reference
