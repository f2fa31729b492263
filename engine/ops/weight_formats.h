// How each tensor type's blocks are rearranged into the units of shaders/weight_planes.h.
#pragma once

#include "architecture.h"

#include <cstddef>

namespace scoria {

/// Where one row of a shard starts in its planes: unit u, word w lies 16 (u * words + w) words further, the
/// side of unit u 16 u * side_bytes bytes further.
template <class Byte> struct RowPlace { Byte *words, *side; };

struct WeightFormat {
    TensorType type;
    uint32_t cols, words, side_bytes;  // of a unit
    /// A row as in the file, of row_bytes, to its place, and back. A last block may be cut short if it is of
    /// a float type; its end counts as zeros.
    void (*pack)(const std::byte* row, uint64_t row_bytes, uint32_t units, RowPlace<std::byte> to);
    void (*unpack)(RowPlace<const std::byte> from, uint32_t units, uint64_t row_bytes, std::byte* row);
};

const WeightFormat& weight_format(TensorType type);

}  // namespace scoria
