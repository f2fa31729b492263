// What arithmetic less exact than double makes of the operands of products and of the cache.
#pragma once

#include "architecture.h"

#include <functional>
#include <span>

namespace scoria::reference {

/// Each function rounds in place; one that is empty rounds nothing.
struct Rounding {
    std::function<void(std::span<double> row)> weights;      // a row of a matrix
    std::function<void(std::span<double> row)> activations;  // of one token, before a matrix
    /// Keys, or values, that attention reads: [positions, kv_heads * head_dim].
    std::function<void(std::span<double> rows, const scoria::Attention&, bool values)> cache;
};

}  // namespace scoria::reference
