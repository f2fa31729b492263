// The points of the IQ types, the one copy of these tables: the reference reads them as they are, the repack
// writes them behind the weights for the kernels (shaders/weight_planes.h).
#pragma once

#include "architecture.h"

#include <cstdint>
#include <span>

namespace scoria {

/// Entry i stands for `weights` neighbouring weights of `bits` bits each, the first in the lowest.
struct QuantGrid {
    std::span<const uint16_t> entries;
    uint32_t weights, bits;
    int8_t values[8];  // of a code
    int value(uint32_t entry, uint32_t weight) const {
        return values[entries[entry] >> (bits * weight) & ((1u << bits) - 1)];
    }
};

/// Null for types without one.
const QuantGrid* quant_grid(TensorType type);

}  // namespace scoria
