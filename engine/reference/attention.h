// Reference: causal grouped-query attention of one token, in double precision, over a contiguous cache.
#pragma once

#include "architecture.h"

#include <span>

namespace scoria::reference {

/// q and out [heads * head_dim]; keys and values [positions, kv_heads * head_dim], of which the token at
/// `position` sees 0 .. position, or the last shape.window of these.
void attention(std::span<const double> q, std::span<const double> keys, std::span<const double> values,
               const Attention& shape, size_t position, std::span<double> out);

}  // namespace scoria::reference
