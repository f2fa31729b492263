// See weight_layout.h and shaders/weight_planes.h.
#include "weight_layout.h"

#include "quant_grids.h"
#include "weight_formats.h"
#include "weight_planes.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace scoria {
namespace {

constexpr uint32_t group_rows = WEIGHT_GROUP_ROWS;
static_assert(group_rows == weight_group_rows);

uint64_t groups_of(uint32_t rows) { return (uint64_t(rows) + group_rows - 1) / group_rows; }
uint32_t units_of(const WeightFormat& format, uint32_t cols) {
    return (cols + format.cols - 1) / format.cols;
}
constexpr uint64_t plane_alignment = 256;  // of views, at most
uint64_t aligned(uint64_t bytes) { return (bytes + plane_alignment - 1) / plane_alignment * plane_alignment; }

/// Bytes of one row in a file. Only float rows may end inside a unit.
uint64_t row_bytes(TensorType type, uint32_t cols) {
    const TensorTypeInfo& info = tensor_type_info(type);
    assert(cols % info.block == 0);
    return uint64_t(cols) / info.block * info.block_bytes;
}

/// The bytes of a column of an entry in the table plane: one each (IQ2, IQ3), or the entry as it is (IQ1,
/// whose 2048 entries would fill a cache).
uint64_t table_bytes(TensorType type) {
    const QuantGrid* const grid = quant_grid(type);
    if (!grid) return 0;
    return grid->values[0] < 0 ? grid->entries.size_bytes() : grid->entries.size() * grid->weights;
}
void write_table(TensorType type, std::byte* to) {
    const QuantGrid* const grid = quant_grid(type);
    if (!grid) return;
    if (grid->values[0] < 0) {
        std::memcpy(to, grid->entries.data(), grid->entries.size_bytes());
        return;
    }
    for (uint32_t entry = 0; entry < grid->entries.size(); ++entry)
        for (uint32_t weight = 0; weight < grid->weights; ++weight)
            *to++ = std::byte(grid->value(entry, weight));
}

template <class Byte>
RowPlace<Byte> place_of(const WeightFormat& format, const WeightPlanes& planes, uint32_t row, uint32_t cols,
                        Byte* shard) {
    const uint32_t in_group = row % group_rows;
    const uint32_t slot = in_group % 2 * WEIGHT_GROUP_PAIRS + in_group / 2;
    const uint64_t first = uint64_t(row / group_rows) * units_of(format, cols);
    return {shard + (first * format.words * group_rows + slot) * 4,
            shard + planes.side + (first * group_rows + in_group) * format.side_bytes};
}

}  // namespace

WeightPlanes weight_planes(TensorType type, uint32_t rows, uint32_t cols) {
    const WeightFormat& format = weight_format(type);
    const uint32_t group_units = units_of(format, cols) * group_rows;
    const uint64_t unit_rows = groups_of(rows) * group_units;
    WeightPlanes planes;
    planes.side = aligned(unit_rows * format.words * 4);
    planes.table = planes.side + aligned(unit_rows * format.side_bytes);
    planes.bytes = planes.table + aligned(table_bytes(type));
    planes.group_words = group_units * format.words;
    return planes;
}

uint32_t rows_within(TensorType type, uint32_t rows, uint32_t cols, uint64_t limit) {
    if (layout_bytes(type, rows, cols) <= limit) return rows;
    const WeightFormat& format = weight_format(type);
    const uint64_t group_bytes =
        uint64_t(units_of(format, cols)) * group_rows * (format.words * 4 + format.side_bytes);
    const uint64_t besides = aligned(table_bytes(type)) + 2 * plane_alignment;
    const uint64_t groups = limit > besides ? (limit - besides) / group_bytes : 0;
    return uint32_t(std::max<uint64_t>(groups, 1)) * group_rows;
}

void repack(TensorType type, uint32_t rows, uint32_t cols, std::span<const std::byte> from,
            uint32_t first_row, uint32_t step, std::span<std::byte> to) {
    const WeightFormat& format = weight_format(type);
    const WeightPlanes planes = weight_planes(type, rows, cols);
    const uint64_t row_size = row_bytes(type, cols);
    assert(to.size() >= planes.bytes && from.size() % row_size == 0);
    uint32_t row = first_row;
    for (uint64_t first = 0; first < from.size(); first += row_size, row += step) {
        assert(row < rows);
        format.pack(from.data() + first, row_size, units_of(format, cols),
                    place_of(format, planes, row, cols, to.data()));
    }
    write_table(type, to.data() + planes.table);
}

void unpack(TensorType type, uint32_t rows, uint32_t cols, std::span<const std::byte> from,
            uint32_t first_row, uint32_t step, std::span<std::byte> to) {
    const WeightFormat& format = weight_format(type);
    const WeightPlanes planes = weight_planes(type, rows, cols);
    const uint64_t row_size = row_bytes(type, cols);
    uint32_t row = first_row;
    for (uint64_t first = 0; first < to.size(); first += row_size, row += step)
        format.unpack(place_of(format, planes, row, cols, from.data()), units_of(format, cols), row_size,
                      to.data() + first);
}

std::vector<PlaneCopy> plane_copies(TensorType type, uint32_t shard_rows, uint32_t cols, uint32_t first_row,
                                    uint32_t rows) {
    assert(first_row % group_rows == 0 && (rows % group_rows == 0 || first_row + rows == shard_rows));
    const WeightFormat& format = weight_format(type);
    const WeightPlanes piece = weight_planes(type, rows, cols), shard = weight_planes(type, shard_rows, cols);
    const uint64_t before = uint64_t(first_row) * units_of(format, cols);
    const uint64_t count = groups_of(rows) * group_rows * units_of(format, cols);
    std::vector<PlaneCopy> copies{{0, before * format.words * 4, count * format.words * 4}};
    if (const uint32_t bytes = format.side_bytes)
        copies.push_back({piece.side, shard.side + before * bytes, count * bytes});
    if (first_row == 0 && piece.bytes != piece.table)
        copies.push_back({piece.table, shard.table, piece.bytes - piece.table});
    return copies;
}

}  // namespace scoria
