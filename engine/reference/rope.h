// Reference: rotary positions in double precision (Su et al. 2021, eq. 34).
#pragma once

#include "architecture.h"

#include <span>

namespace scoria::reference {

/// Rotates every head_dim consecutive elements of x, in place, as a token at `position`.
void rope(std::span<double> x, uint32_t head_dim, const Rope& rope, uint64_t position);

}  // namespace scoria::reference
