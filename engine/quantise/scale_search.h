// The scale, or scale and offset, that stand for a group of weights with the least weighted squared error.
//
// Integers follow from a scale by rounding, and the best scale follows from integers by linear least squares;
// both at once is a search with many local minima. A grid of scales that put the largest weight on and around
// the end of the integers' range supplies the integers; each is judged by the error after its least-squares
// fit, whose value needs no second pass; the winner alternates rounding and fitting while its error falls.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <span>

namespace scoria {

/// x / scale, clamped and rounded to nearest even; a scale of 0 gives 0 (or the nearest bound).
/// lowest and highest are integers of magnitude below 2^22.
inline float rounded(float value, float lowest, float highest) {
    constexpr float shift = 12582912;  // 1.5 * 2^23: adding it leaves no bits for a fraction
    const float clamped = value > lowest ? value < highest ? value : highest : lowest;  // NaN: lowest
    return (clamped + shift) - shift;
}
/// 0 where the inverse would be infinite, whose product with 0 is no number.
inline float inverse_of(float scale) {
    return std::abs(scale) < std::numeric_limits<float>::min() ? 0 : 1 / scale;
}

/// d of x ~ d q with q integers in [lowest, highest], lowest < 0; d may be negative. x and weights: equally
/// many, a multiple of 8, finite; weights of 0 or more.
float symmetric_scale(std::span<const float> x, std::span<const float> weights, int lowest, int highest);

struct Affine {
    float scale = 0, offset = 0;
};
/// x ~ scale q + offset with q integers in [0, highest]. `below_zero` keeps offset at 0 or less.
Affine affine_scale(std::span<const float> x, std::span<const float> weights, int highest, bool below_zero);

}  // namespace scoria
