// See position_tables.h.
#include "position_tables.h"

#include <algorithm>
#include <cmath>

namespace scoria {
namespace {

/// Half of the buckets one distance each, the others logarithmic up to `most`.
uint32_t bucket_of(uint32_t distance, uint32_t buckets, uint32_t most) {
    const uint32_t exact = buckets / 2;
    if (distance < exact) return distance;
    const double share = std::log(double(distance) / exact) / std::log(double(most) / exact);
    return std::min(buckets - 1, exact + static_cast<uint32_t>(share * (buckets - exact)));
}

/// `visit(column, bucket)` for the columns of an expanded table.
template <class Visit> void each_column(uint32_t count, uint32_t most, bool both, const Visit& visit) {
    const uint32_t usable = both ? count / 2 : count;
    for (uint32_t col = 0; col <= (both ? 2 * most : most); ++col) {
        const bool ahead = both && col > most;  // the key is after the query
        const uint32_t distance = !both ? col : ahead ? col - most : most - col;
        visit(col, bucket_of(distance, usable, most) + (ahead ? usable : 0));
    }
}

/// Sines and cosines, of which pair k turns by 10000^(-k / slowest) per position.
std::vector<double> sinusoid_row(uint32_t position, uint32_t width, bool by_turns, double slowest) {
    std::vector<double> row(width);
    const uint32_t sines = (width + 1) / 2;
    for (uint32_t k = 0; k < width; ++k) {
        const double angle = position * std::pow(10000.0, -double(by_turns ? k / 2 : k % sines) / slowest);
        row[k] = (by_turns ? k % 2 == 0 : k < sines) ? std::sin(angle) : std::cos(angle);
    }
    return row;
}

/// Of what `row` says of each position; what it leaves out at the end of a row is 0.
template <class Row> std::vector<float> table_of(uint32_t positions, uint32_t width, const Row& row) {
    std::vector<float> table(size_t{positions} * width);
    for (uint32_t t = 0; t < positions; ++t) {
        float* to = table.data() + size_t{t} * width;
        for (const double value : row(t)) *to++ = static_cast<float>(value);
    }
    return table;
}

}  // namespace

std::vector<float> expand_buckets(std::span<const float> buckets, uint32_t heads, uint32_t most, bool both) {
    const size_t cols = both ? 2 * size_t{most} + 1 : size_t{most} + 1;
    std::vector<float> table(heads * cols);
    each_column(static_cast<uint32_t>(buckets.size() / heads), most, both, [&](size_t col, size_t bucket) {
        for (size_t head = 0; head < heads; ++head) table[head * cols + col] = buckets[bucket * heads + head];
    });
    return table;
}

std::vector<float> collect_buckets(std::span<const float> table, uint32_t heads, uint32_t most, bool both,
                                   uint32_t count) {
    const size_t cols = table.size() / heads;
    std::vector<float> buckets(size_t{count} * heads);
    each_column(count, most, both, [&](size_t col, size_t bucket) {
        for (size_t head = 0; head < heads; ++head) buckets[bucket * heads + head] = table[head * cols + col];
    });
    return buckets;
}

std::vector<float> sinusoids(uint32_t positions, uint32_t width, bool by_turns) {
    return table_of(positions, width,
                    [&](uint32_t t) { return sinusoid_row(t, width, by_turns, width / 2.0); });
}

std::vector<float> sinusoids_to_slowest(uint32_t first, uint32_t positions, uint32_t width) {
    const uint32_t half = width / 2;
    const double slowest = half > 1 ? half - 1 : 1;
    return table_of(positions, width,
                    [&](uint32_t t) { return sinusoid_row(first + t, 2 * half, false, slowest); });
}

std::vector<float> distance_keys(std::span<const float> r, uint32_t heads, uint32_t span, uint32_t hidden) {
    const size_t head_dim = r.size() / hidden / heads;
    std::vector<float> keys(r.size() / hidden * span);
    for (uint32_t n = 0; n < span; ++n) {
        const std::vector<double> row = sinusoid_row(n, hidden, false, hidden / 2.0);
        for (size_t i = 0; i < heads * head_dim; ++i) {
            double sum = 0;
            for (size_t k = 0; k < hidden; ++k) sum += static_cast<double>(r[i * hidden + k]) * row[k];
            const size_t head = i / head_dim;
            keys[(head * span + n) * head_dim + i % head_dim] = static_cast<float>(sum);
        }
    }
    return keys;
}

std::vector<uint32_t> signed_buckets(uint32_t most, uint32_t span, uint32_t buckets, uint32_t far) {
    const int64_t exact = buckets ? buckets / 2 : most;
    const float whole = buckets ? std::log(float(double(far - 1) / double(exact))) : 1;
    std::vector<uint32_t> rows;
    for (int64_t behind = -int64_t{most}; behind <= int64_t{most}; ++behind) {
        int64_t bucket = behind;
        if (const int64_t apart = std::abs(behind); apart > exact) {
            const float share = std::log(float(apart) / float(exact)) / whole;
            bucket = int64_t(std::ceil(share * float(exact - 1))) + exact;
            if (behind < 0) bucket = -bucket;
        }
        rows.push_back(uint32_t(std::clamp<int64_t>(bucket + span, 0, 2 * int64_t{span} - 1)));
    }
    std::ranges::reverse(rows);
    return rows;
}

std::vector<float> projected_rows(std::span<const float> w, std::span<const float> b,
                                  std::span<const double> rows, std::span<const uint32_t> columns,
                                  uint32_t heads) {
    const size_t outputs = b.size(), hidden = w.size() / outputs, count = rows.size() / hidden,
                 dim = outputs / heads;
    std::vector<double> by_column(rows.size());  // [hidden, count]: what is summed lies side by side
    for (size_t r = 0; r < count; ++r)
        for (size_t k = 0; k < hidden; ++k) by_column[k * count + r] = rows[r * hidden + k];
    std::vector<float> result(outputs * columns.size());
    std::vector<double> sums(count);
    for (size_t i = 0; i < outputs; ++i) {
        std::ranges::fill(sums, double(b[i]));
        for (size_t k = 0; k < hidden; ++k) {
            const double factor = w[i * hidden + k];
            const double* const of = by_column.data() + k * count;
            for (size_t r = 0; r < count; ++r) sums[r] += factor * of[r];
        }
        for (size_t col = 0; col < columns.size(); ++col)
            result[(i / dim * columns.size() + col) * dim + i % dim] = float(sums[columns[col]]);
    }
    return result;
}

std::vector<float> clipped_rows(std::span<const float> table, uint32_t span, uint32_t heads) {
    const size_t dim = table.size() / (2 * size_t{span} - 1);
    std::vector<float> rows;
    for (uint32_t head = 0; head < heads; ++head)
        for (size_t n = 0; n < span; ++n) {
            const auto row = table.begin() + static_cast<ptrdiff_t>((span - 1 - n) * dim);
            rows.insert(rows.end(), row, row + static_cast<ptrdiff_t>(dim));
        }
    return rows;
}

}  // namespace scoria
