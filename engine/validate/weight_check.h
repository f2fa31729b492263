// Random weights for checks: as a file holds them, as the device does, and as the reference reads them.
#pragma once

#include "check.h"
#include "reference/linear.h"

namespace scoria::validate {

struct CheckWeight {
    TensorType type;
    uint32_t rows, cols;
    std::vector<std::byte> file;  // rows as in a file
    std::vector<vk::Buffer> buffers;
    DeviceWeight device;
    reference::Rows reference() const;  // valid as long as this is
};

/// Rows after which large weights repeat themselves: no power of two, as tiles and folded grids are.
inline constexpr uint32_t weight_period = 61 * 16;

/// `file`: rows of blocks, all or the first weight_period; shards of at most `shard_rows` rows (0: as few as
/// bindings allow), each of which begins with the file's first row if the file has fewer.
CheckWeight check_weight(CheckContext& context, TensorType type, uint32_t rows, uint32_t cols,
                         std::vector<std::byte> file, uint32_t shard_rows);
/// Random blocks of every code and sign, scaled so that values are of the order of 1 / sqrt(cols).
std::vector<std::byte> random_blocks(TensorType type, uint32_t rows, uint32_t cols, uint64_t seed);

}  // namespace scoria::validate
