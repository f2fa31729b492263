// Where the rows of a role lie in the tensors that Layout tells of.
#pragma once

#include "binding.h"

namespace scoria {

/// A role's shape in the terms of Layout, with vectors as rows of one column, and where q, k and v begin.
struct Frame {
    uint64_t rows, cols, groups;
    bool vector;
    Role role;
    const Layer& layer;
    uint64_t stored_rows;  // 1 to `rows`, of a tensor that may have fewer
    uint64_t rows_before;  // of a table of positions

    const Attention& attention() const { return layer.attention; }
    uint64_t group_rows() const { return rows / groups; }
    std::vector<uint64_t> shape(std::vector<uint64_t> sizes) const {  // the last size is `cols`
        if (vector) sizes.pop_back();
        return sizes;
    }
};

Strip strip(uint64_t first, uint64_t row_stride, uint64_t col_stride, uint64_t rows);

/// Of layouts of one tensor, or of one for each expert.
Laid lay(const Frame& frame, Layout layout);

/// The taps of a state space's channels, in their order, by what multiplies them.
std::vector<Strip> channel_strips(const Recurrence& shape, uint64_t taps);

}  // namespace scoria
