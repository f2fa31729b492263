// Weights from file blocks to the planes of shaders/weight_planes.h and back.
//
// File blocks are odd-sized (17, 18, 20, 22, 34, 110, 210 bytes) and would force unaligned loads. They are
// repacked on the host, in the pass over bytes just read that fills the staging buffer anyway: a repack
// on the device would need the file's bytes there too, and one more pipeline per type at every cold start.
#pragma once

#include "architecture.h"

#include <cstddef>
#include <span>
#include <vector>

namespace scoria {

/// The unit in which a shard may be uploaded in pieces.
inline constexpr uint32_t weight_group_rows = 16;

/// Bytes from the start of a shard to each plane, and in all; and words of a row group in the first plane.
struct WeightPlanes {
    uint64_t side = 0, table = 0, bytes = 0;  // words come first
    uint32_t group_words = 0;
};
/// Of `rows` rows; rows are padded to weight_group_rows, columns to 32. Planes start at multiples of 256.
WeightPlanes weight_planes(TensorType type, uint32_t rows, uint32_t cols);
inline uint64_t layout_bytes(TensorType type, uint32_t rows, uint32_t cols) {
    return weight_planes(type, rows, cols).bytes;
}
/// Most rows, in whole groups unless all `rows` fit, whose planes take at most `limit` bytes; at least one
/// group.
uint32_t rows_within(TensorType type, uint32_t rows, uint32_t cols, uint64_t limit);

/// Writes whole rows as they are in the file to rows first_row, first_row + step, ... of `to`, the planes
/// of `rows` rows: step 1 for plain and concatenated matrices, 2 for interleaved gate and up (first_row 0
/// and 1). Rows never written keep their bytes; they affect only outputs that are never stored.
/// Writes of 4 bytes each: `to` should be cached memory.
void repack(TensorType type, uint32_t rows, uint32_t cols, std::span<const std::byte> from,
            uint32_t first_row, uint32_t step, std::span<std::byte> to);

/// The inverse, for tests.
void unpack(TensorType type, uint32_t rows, uint32_t cols, std::span<const std::byte> from,
            uint32_t first_row, uint32_t step, std::span<std::byte> to);

/// A shard in pieces: rows [first_row, first_row + rows) of a shard, repacked on their own as the planes
/// of `rows` rows, go to these places. first_row is a multiple of weight_group_rows; so is `rows`, unless
/// the piece is the shard's last.
struct PlaneCopy {
    uint64_t from, to, bytes;  // byte of the piece, byte of the shard
};
std::vector<PlaneCopy> plane_copies(TensorType type, uint32_t shard_rows, uint32_t cols, uint32_t first_row,
                                    uint32_t rows);

}  // namespace scoria
