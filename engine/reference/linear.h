// out = x W^T + bias. W comes row by row, since whole it may not fit in memory as doubles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace scoria::reference {

/// A weight matrix [rows, cols]: `row` writes the values of one row.
struct Rows {
    uint32_t rows = 0, cols = 0;
    std::function<void(uint32_t row, std::span<double> out)> row;
};

/// x: [tokens, cols]; out: [tokens, rows]; bias: [rows] or empty. Each row of W is read once.
inline void linear(std::span<const double> x, const Rows& weight, std::span<const double> bias,
                   std::span<double> out) {
    const size_t cols = weight.cols, rows = weight.rows, tokens = x.size() / cols;
    std::vector<double> row(cols);
    for (size_t r = 0; r < rows; ++r) {
        weight.row(static_cast<uint32_t>(r), row);
        for (size_t t = 0; t < tokens; ++t) {
            // Four sums, because one would chain every addition behind the last.
            double sums[4] = {};
            size_t c = 0;
            for (; c + 4 <= cols; c += 4)
                for (size_t lane = 0; lane < 4; ++lane) sums[lane] += x[t * cols + c + lane] * row[c + lane];
            for (; c < cols; ++c) sums[0] += x[t * cols + c] * row[c];
            out[t * rows + r] = (sums[0] + sums[1]) + (sums[2] + sums[3]) + (bias.empty() ? 0 : bias[r]);
        }
    }
}

}  // namespace scoria::reference
