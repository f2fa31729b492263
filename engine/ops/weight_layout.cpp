// See weight_layout.h and shaders/weight_planes.h.
#include "weight_layout.h"

#include "weight_planes.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <type_traits>

namespace scoria {
namespace {

/// What 32 columns of one row hold, in the order of a file block. A new type is one line.
struct BlockParts {
    TensorType type;
    uint32_t scale_bytes;  // 0, 2 (d) or 4 (d, m)
    uint32_t high_bytes;   // fifth bits: 0 or 4
    uint32_t quant_bytes;
};
constexpr BlockParts block_parts[] = {
    {TensorType::f32, 0, 0, 128}, {TensorType::f16, 0, 0, 64},  {TensorType::bf16, 0, 0, 64},
    {TensorType::q4_0, 2, 0, 16}, {TensorType::q4_1, 4, 0, 16}, {TensorType::q5_0, 2, 4, 16},
    {TensorType::q5_1, 4, 4, 16}, {TensorType::q8_0, 2, 0, 32},
};

const BlockParts& parts_of(TensorType type) {
    const auto found = std::ranges::find(block_parts, type, &BlockParts::type);
    assert(found != std::end(block_parts));
    return *found;
}

constexpr uint32_t group_rows = WEIGHT_GROUP_ROWS;
static_assert(group_rows == weight_group_rows);

uint64_t groups_of(uint32_t rows) { return (uint64_t(rows) + group_rows - 1) / group_rows; }
uint32_t blocks_of(uint32_t cols) { return (cols + WEIGHT_BLOCK - 1) / WEIGHT_BLOCK; }
uint64_t aligned(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

constexpr std::integral_constant<size_t, 2> half{};  // sizes as types: a copy is then one load and one store
constexpr std::integral_constant<size_t, 4> word{};

/// Calls move(byte in the row as in the file, byte in the planes, bytes) for every part of one row.
template <class Move>
void each_part(const BlockParts& parts, const WeightPlanes& planes, uint32_t row, uint32_t cols,
               Move&& move) {
    const uint32_t in_group = row % group_rows;
    const uint32_t slot = in_group % 2 * WEIGHT_GROUP_PAIRS + in_group / 2;
    const uint64_t first_cell = uint64_t(row / group_rows) * blocks_of(cols);
    uint64_t at = 0;
    for (uint64_t cell = first_cell; cell < first_cell + blocks_of(cols); ++cell) {
        if (parts.scale_bytes == 4) move(at, planes.scales + (cell * group_rows + slot) * 4, word);
        if (parts.scale_bytes == 2) move(at, planes.scales + (cell * group_rows + in_group) * 2, half);
        at += parts.scale_bytes;
        if (parts.high_bytes) move(at, planes.high + (cell * group_rows + slot) * 4, word);
        at += parts.high_bytes;
        const uint32_t words = parts.quant_bytes / 4;
        for (uint32_t w = 0; w < words; ++w, at += 4)
            move(at, planes.quants + ((cell * words + w) * group_rows + slot) * 4, word);
    }
}

/// Bytes of one row in a file. Only float rows may end inside a block.
uint64_t row_bytes(const BlockParts& parts, uint32_t cols) {
    if (parts.scale_bytes) assert(cols % WEIGHT_BLOCK == 0);
    return uint64_t(parts.scale_bytes + parts.high_bytes + parts.quant_bytes) * cols / WEIGHT_BLOCK;
}

}  // namespace

WeightPlanes weight_planes(TensorType type, uint32_t rows, uint32_t cols) {
    const BlockParts& parts = parts_of(type);
    const uint64_t cell_rows = groups_of(rows) * blocks_of(cols) * group_rows;
    WeightPlanes planes;
    planes.high = aligned(cell_rows * parts.quant_bytes);
    planes.scales = planes.high + aligned(cell_rows * parts.high_bytes);
    planes.bytes = planes.scales + aligned(cell_rows * parts.scale_bytes);
    return planes;
}

uint32_t rows_within(TensorType type, uint32_t rows, uint32_t cols, uint64_t limit) {
    if (layout_bytes(type, rows, cols) <= limit) return rows;
    // Planes are padded to 64 bytes each, hence the margin of one group.
    const uint64_t group_bytes = layout_bytes(type, weight_group_rows, cols);
    const uint64_t groups = limit / group_bytes;
    return uint32_t(std::max<uint64_t>(groups > 1 ? groups - 1 : 1, 1)) * weight_group_rows;
}

void repack(TensorType type, uint32_t rows, uint32_t cols, std::span<const std::byte> from,
            uint32_t first_row, uint32_t step, std::span<std::byte> to) {
    const BlockParts& parts = parts_of(type);
    const WeightPlanes planes = weight_planes(type, rows, cols);
    const uint64_t row_size = row_bytes(parts, cols);
    assert(to.size() >= planes.bytes && from.size() % row_size == 0);
    uint32_t row = first_row;
    for (uint64_t first = 0; first < from.size(); first += row_size, row += step) {
        assert(row < rows);
        each_part(parts, planes, row, cols, [&](uint64_t at, uint64_t place, auto size) {
            std::byte* const target = to.data() + place;
            if (at + size <= row_size) {
                std::memcpy(target, from.data() + first + at, size);
            } else {  // the last block of a float row, padded with zeros
                std::memset(target, 0, size);
                if (at < row_size) std::memcpy(target, from.data() + first + at, row_size - at);
            }
        });
    }
}

void unpack(TensorType type, uint32_t rows, uint32_t cols, std::span<const std::byte> from,
            uint32_t first_row, uint32_t step, std::span<std::byte> to) {
    const BlockParts& parts = parts_of(type);
    const WeightPlanes planes = weight_planes(type, rows, cols);
    const uint64_t row_size = row_bytes(parts, cols);
    uint32_t row = first_row;
    for (uint64_t first = 0; first < to.size(); first += row_size, row += step)
        each_part(parts, planes, row, cols, [&](uint64_t at, uint64_t place, auto size) {
            if (at < row_size)
                std::memcpy(to.data() + first + at, from.data() + place,
                            std::min<uint64_t>(size, row_size - at));
        });
}

std::vector<PlaneCopy> plane_copies(TensorType type, uint32_t shard_rows, uint32_t cols, uint32_t first_row,
                                    uint32_t rows) {
    assert(first_row % group_rows == 0 && (rows % group_rows == 0 || first_row + rows == shard_rows));
    const BlockParts& parts = parts_of(type);
    const WeightPlanes piece = weight_planes(type, rows, cols), shard = weight_planes(type, shard_rows, cols);
    const uint64_t before = uint64_t(first_row) * blocks_of(cols);
    const uint64_t count = groups_of(rows) * group_rows * blocks_of(cols);
    std::vector<PlaneCopy> copies;
    const auto add = [&](uint64_t from, uint64_t to, uint32_t bytes) {
        if (bytes) copies.push_back({from, to + before * bytes, count * bytes});
    };
    add(piece.quants, shard.quants, parts.quant_bytes);
    add(piece.high, shard.high, parts.high_bytes);
    add(piece.scales, shard.scales, parts.scale_bytes);
    return copies;
}

}  // namespace scoria
