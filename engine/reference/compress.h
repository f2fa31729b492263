// Moves a compressed memory on by one segment, in a contiguous cache: see CompressedMemory.
#pragma once

#include "architecture.h"

#include <cstddef>
#include <vector>

namespace scoria::reference {

/// rows: [positions, cols], keys or values.
inline void compress(std::vector<double>& rows, size_t cols, const CompressedWindow& before,
                     const CompressedWindow& after, size_t rate) {
    std::vector<double> slots;  // the old ones, then the averages
    const auto row = [&](size_t position, size_t col) { return rows[position * cols + col]; };
    for (size_t position = before.low; position < before.memory; ++position)
        for (size_t col = 0; col < cols; ++col) slots.push_back(row(position, col));
    for (size_t first = before.memory; first + rate <= after.memory; first += rate)
        for (size_t col = 0; col < cols; ++col) {
            double sum = 0;
            for (size_t i = 0; i < rate; ++i) sum += row(first + i, col);
            slots.push_back(sum / static_cast<double>(rate));
        }
    const size_t kept = (after.memory - after.low) * cols;
    for (size_t i = 0; i < kept; ++i) rows[after.low * cols + i] = slots[slots.size() - kept + i];
}

}  // namespace scoria::reference
