// Compares what a device computed with what the reference expects.
#include "check.h"

#include "fail.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace scoria::validate {
namespace {

/// Floats as integers in their order: neighbours differ by one, both zeros are equal.
int64_t place_of(float value) {
    const int32_t bits = std::bit_cast<int32_t>(value);
    return bits < 0 ? int64_t(INT32_MIN) - bits : bits;
}

size_t ulp_bucket(double expected, float actual) {
    const uint64_t apart = uint64_t(std::abs(place_of(float(expected)) - place_of(actual)));
    const size_t bucket = apart == 0 ? 0 : size_t(std::bit_width(apart - 1)) + 1;
    return std::min(bucket, UlpHistogram{}.size() - 1);
}

bool comparable(double expected, double actual) {
    return std::isfinite(expected) == std::isfinite(actual) && std::isnan(expected) == std::isnan(actual) &&
           (!std::isinf(expected) || expected == actual);
}

bool untouched(float value) { return std::bit_cast<uint32_t>(value) == unwritten_word; }

struct RowError {
    double error = 0, power = 0;  // sums of squares
    double largest = 0;           // |error|
    size_t largest_at = 0;
    /// A row of zeros has no scale: there any error is compared with 1.
    double scale(size_t cols, double floor) const {
        return std::max(power > 0 ? std::sqrt(power / double(cols)) : floor > 0 ? 0 : 1, floor);
    }
};

RowError row_error(std::span<const double> expected, std::span<const float> actual) {
    RowError row;
    for (size_t i = 0; i < expected.size(); ++i) {
        const double e = expected[i], a = double(actual[i]);
        if (!comparable(e, a) || !std::isfinite(e)) continue;
        row.error += (a - e) * (a - e);
        row.power += e * e;
        if (std::abs(a - e) >= row.largest) {
            row.largest = std::abs(a - e);
            row.largest_at = i;
        }
    }
    return row;
}

/// Calls `each` with the index of every row and its values.
template <class Each>
void for_rows(std::span<const double> expected, std::span<const float> actual, uint32_t cols,
              const Each& each) {
    for (size_t first = 0; first < expected.size(); first += cols) {
        const size_t count = std::min<size_t>(cols, expected.size() - first);
        each(first / cols, expected.subspan(first, count), actual.subspan(first, count));
    }
}

/// The detail of the first element that cannot be compared, or of the worst one.
std::string describe_element(const CheckResult& result, bool never_written) {
    return cat(result.incomparable ? "element " : "worst element ", result.col_at, " of row ", result.row_at,
               ": expected ", result.expected_there, ", got ", result.actual_there,
               never_written ? " (never written)" : "");
}

}  // namespace

double CheckResult::share() const {
    if (incomparable > 0) return HUGE_VAL;
    double largest = 0;
    for (const auto& [value, bound] :
         {std::pair{nmse, bounds.nmse}, {worst_row, bounds.worst_row}, {worst_element, bounds.worst_element}})
        if (value != 0)
            largest = std::max(largest, bound > 0 && std::isfinite(value) ? value / bound : HUGE_VAL);
    return largest;
}

CheckResult compare_values(std::string op, std::string variant, std::string shape,
                           std::span<const double> expected, std::span<const float> actual, uint32_t cols,
                           const Bounds& bounds, std::string sentinel_error) {
    CheckResult result{.op = std::move(op),
                       .variant = std::move(variant),
                       .shape = std::move(shape),
                       .bounds = bounds,
                       .detail = std::move(sentinel_error)};
    if (expected.size() != actual.size()) {
        result.detail = cat("expected ", expected.size(), " elements, got ", actual.size());
        return result;
    }
    double error_total = 0, power_total = 0;
    bool never_written = false;
    const auto mark = [&](size_t row, size_t col, double e, float a) {
        result.row_at = row;
        result.col_at = col;
        result.expected_there = e;
        result.actual_there = double(a);
    };
    for_rows(expected, actual, cols, [&](size_t row, std::span<const double> e, std::span<const float> a) {
        for (size_t i = 0; i < e.size(); ++i) {
            if (comparable(e[i], double(a[i])) && !untouched(a[i])) {
                if (std::isfinite(e[i])) ++result.ulps[ulp_bucket(e[i], a[i])];
            } else if (result.incomparable++ == 0) {
                mark(row, i, e[i], a[i]);
                never_written = untouched(a[i]);
            }
        }
        const RowError one = row_error(e, a);
        const double scale = one.scale(cols, bounds.floor);
        error_total += one.error;
        power_total += std::max(one.power, bounds.floor * bounds.floor * double(cols));
        if (const double relative = std::sqrt(one.error / cols) / scale; relative > result.worst_row) {
            result.worst_row = relative;
            result.worst_row_at = row;
        }
        if (one.largest / scale > result.worst_element) {
            result.worst_element = one.largest / scale;
            if (!result.incomparable) mark(row, one.largest_at, e[one.largest_at], a[one.largest_at]);
        }
    });
    result.nmse = power_total > 0 ? error_total / power_total : error_total;
    result.passed = result.detail.empty() && !result.incomparable && result.nmse <= bounds.nmse &&
                    result.worst_row <= bounds.worst_row && result.worst_element <= bounds.worst_element;
    if (!result.passed && result.detail.empty()) result.detail = describe_element(result, never_written);
    return result;
}

ErrorMap error_map(std::span<const double> expected, std::span<const float> actual, uint32_t cols,
                   const Bounds& bounds) {
    ErrorMap map((expected.size() + cols - 1) / cols, cols);
    for_rows(expected, actual, cols, [&](size_t row, std::span<const double> e, std::span<const float> a) {
        const double bound = bounds.worst_element * row_error(e, a).scale(cols, bounds.floor);
        for (size_t i = 0; i < e.size(); ++i) {
            const double error = std::abs(double(a[i]) - e[i]);
            map.add(row, i,
                    untouched(a[i])                      ? ErrorMap::never_written
                    : !comparable(e[i], double(a[i]))    ? ErrorMap::not_finite
                    : !std::isfinite(e[i]) || error == 0 ? 0
                                                         : ErrorMap::level_of(error / bound));
        }
    });
    return map;
}

}  // namespace scoria::validate
