// Where the errors of a result lie: a small picture of its matrix, by how much of the bound each part uses.
#pragma once

#include "pictures/picture.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace scoria::validate {

struct ErrorMap {
    /// Levels: 0 is exact; up to `at_bound` an error within the bound, on a logarithmic scale of 16 octaves;
    /// up to `largest` one beyond it, of 24 octaves.
    static constexpr uint8_t at_bound = 128, largest = 252, not_finite = 254, never_written = 255;
    static constexpr size_t most = 256;  // cells in each direction

    size_t rows = 0, cols = 0;            // of the matrix
    size_t cell_rows = 0, cell_cols = 0;  // of the picture: a cell is the worst of its elements
    std::vector<uint8_t> cells;

    ErrorMap(size_t rows, size_t cols);
    void add(size_t row, size_t col, uint8_t level);
    /// `share`: |error| as a part of its bound.
    static uint8_t level_of(double share);
};

/// The map as a picture: exact is black, within the bound blue to white, beyond it yellow to red, not finite
/// magenta, never written green.
Picture error_map_picture(const ErrorMap& map);

}  // namespace scoria::validate
