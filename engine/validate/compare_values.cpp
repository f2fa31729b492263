// Compares what a device computed with what the reference expects.
#include "check.h"

#include "fail.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace scoria::validate {

CheckResult compare_values(std::string op, std::string variant, std::string shape,
                           std::span<const double> expected, std::span<const float> actual, uint32_t cols,
                           const Bounds& bounds, std::string sentinel_error) {
    CheckResult result{.op = std::move(op),
                       .variant = std::move(variant),
                       .shape = std::move(shape),
                       .bounds = bounds,
                       .detail = std::move(sentinel_error)};
    if (expected.size() != actual.size())
        result.detail = cat("expected ", expected.size(), " elements, got ", actual.size());
    double error_total = 0, power_total = 0;
    size_t worst = 0;
    for (size_t row = 0; row < expected.size() && result.detail.empty(); row += cols) {
        double error = 0, power = 0, largest = 0;
        size_t largest_at = row;
        for (size_t i = row; i < std::min<size_t>(row + cols, expected.size()); ++i) {
            const double e = expected[i], a = double(actual[i]);
            if (std::isfinite(e) != std::isfinite(a) || (std::isnan(e) != std::isnan(a)) ||
                (std::isinf(e) && e != a)) {
                const bool untouched = std::bit_cast<uint32_t>(actual[i]) == unwritten_word;
                result.detail = cat("element ", i % cols, " of row ", row / cols, ": expected ", e, ", got ",
                                    a, untouched ? " (never written)" : "");
                break;
            }
            if (!std::isfinite(e)) continue;
            error += (a - e) * (a - e);
            power += e * e;
            if (std::abs(a - e) >= largest) {
                largest = std::abs(a - e);
                largest_at = i;
            }
        }
        error_total += error;
        power_total += power;
        // A row of zeros has no scale: there any error is compared with 1.
        const double scale = power > 0 ? std::sqrt(power / cols) : 1;
        result.worst_row = std::max(result.worst_row, std::sqrt(error / cols) / scale);
        if (largest / scale > result.worst_element) {
            result.worst_element = largest / scale;
            worst = largest_at;
        }
    }
    result.nmse = power_total > 0 ? error_total / power_total : error_total;
    result.passed = result.detail.empty() && result.nmse <= bounds.nmse &&
                    result.worst_row <= bounds.worst_row && result.worst_element <= bounds.worst_element;
    if (!result.passed && result.detail.empty())
        result.detail = cat("worst element ", worst % cols, " of row ", worst / cols, ": expected ",
                            expected[worst], ", got ", actual[worst]);
    return result;
}

}  // namespace scoria::validate
