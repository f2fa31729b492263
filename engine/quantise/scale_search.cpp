// See scale_search.h.
#include "quantise/scale_search.h"

#include <algorithm>
#include <cmath>

namespace scoria {
namespace {

constexpr size_t lanes = 8;           // independent sums, so that the compiler can use vectors
constexpr int grid = 10;              // scales tried on either side of the plain one,
constexpr float grid_step = 0.1f;     // this many integers apart at the end of the range
constexpr float near_step = 0.02f;    // or, near the best of those, this part of the scale apart
constexpr int refinements = 3;        // alternations of rounding and fitting
constexpr float negligible = 1e-12f;  // weights this small have no scale that a half can hold

float sum(const float (&values)[lanes]) {
    return ((values[0] + values[4]) + (values[2] + values[6])) +
           ((values[1] + values[5]) + (values[3] + values[7]));
}

/// The least squares fit of x by the integers that `inverse` gives: scale xq / qq lowers the error by xq^2 /
/// qq.
struct ScaleFit {
    float scale = 0, gain = 0;
};
ScaleFit fit_scale(std::span<const float> x, std::span<const float> weights, float inverse, float lowest,
                   float highest) {
    float xq[lanes] = {}, qq[lanes] = {};
    for (size_t i = 0; i < x.size(); i += lanes)
        for (size_t lane = 0; lane < lanes; ++lane) {
            const float q = rounded(x[i + lane] * inverse, lowest, highest);
            const float wq = weights[i + lane] * q;
            xq[lane] += wq * x[i + lane];
            qq[lane] += wq * q;
        }
    const float over = sum(xq), under = sum(qq);
    if (under <= 0) return {};
    return {over / under, over * (over / under)};
}

struct AffineFit {
    Affine affine;
    double error = 0;  // without the sum of w x^2, the same for all
};
AffineFit fit_affine(std::span<const float> x, std::span<const float> weights, Affine from, float highest,
                     bool below_zero) {
    float w1[lanes] = {}, wq[lanes] = {}, wqq[lanes] = {}, wx[lanes] = {}, wxq[lanes] = {};
    const float inverse = inverse_of(from.scale);
    for (size_t i = 0; i < x.size(); i += lanes)
        for (size_t lane = 0; lane < lanes; ++lane) {
            const float value = x[i + lane], w = weights[i + lane];
            const float q = rounded((value - from.offset) * inverse, 0, highest);
            w1[lane] += w;
            wq[lane] += w * q;
            wqq[lane] += w * q * q;
            wx[lane] += w * value;
            wxq[lane] += w * value * q;
        }
    const double n = sum(w1), q = sum(wq), qq = sum(wqq), sx = sum(wx), xq = sum(wxq);
    const double determinant = n * qq - q * q;
    if (determinant <=
        1e-9 * n * qq) {  // one integer for all: the offset alone, or the scale alone above zero
        if (below_zero && sx > 0)
            return {{static_cast<float>(qq > 0 ? xq / qq : 0), 0}, qq > 0 ? -xq * xq / qq : 0};
        const double offset = n > 0 ? sx / n : 0;
        return {{0, static_cast<float>(offset)}, -offset * sx};
    }
    double scale = (n * xq - sx * q) / determinant, offset = (qq * sx - q * xq) / determinant;
    if (below_zero && offset > 0) {
        offset = 0;
        scale = xq / qq;
    }
    const double error =
        scale * scale * qq + offset * offset * n + 2 * (scale * offset * q - scale * xq - offset * sx);
    return {{static_cast<float>(scale), static_cast<float>(offset)}, error};
}

}  // namespace

float symmetric_scale(std::span<const float> x, std::span<const float> weights, int lowest, int highest) {
    const float extreme =
        *std::max_element(x.begin(), x.end(), [](float a, float b) { return std::abs(a) < std::abs(b); });
    if (std::abs(extreme) < negligible) return 0;
    const float low = static_cast<float>(lowest), high = static_cast<float>(highest);
    ScaleFit best{extreme / low, -1};
    for (const float end : {low, high})
        for (int step = -grid; step <= grid; ++step) {
            const float at = end + grid_step * static_cast<float>(step);
            const ScaleFit fit = fit_scale(x, weights, at / extreme, low, high);
            if (fit.scale != 0 && fit.gain > best.gain) best = fit;
        }
    for (int i = 0; i < refinements; ++i) {
        const ScaleFit fit = fit_scale(x, weights, inverse_of(best.scale), low, high);
        if (fit.scale == 0 || fit.gain <= best.gain) break;
        best = fit;
    }
    return best.scale;
}

Affine affine_scale(std::span<const float> x, std::span<const float> weights, int highest, bool below_zero) {
    const auto [least, most] = std::minmax_element(x.begin(), x.end());
    const float low = below_zero ? std::min(*least, 0.0f) : *least, range = *most - low;
    if (range < negligible) return {0, low};
    const float high = static_cast<float>(highest);
    AffineFit best = fit_affine(x, weights, {range / high, low}, high, below_zero);
    for (int step = -grid; step <= grid; ++step) {
        const float levels = high + grid_step * static_cast<float>(step);
        const AffineFit fit = fit_affine(x, weights, {range / levels, low}, high, below_zero);
        if (fit.error < best.error) best = fit;
    }
    // Scales near the winner's that keep the middle of the range in place: both ends may be cut.
    const Affine winner = best.affine;
    for (int step = -grid; step <= grid; ++step) {
        const float scale = winner.scale * (1 + near_step * static_cast<float>(step));
        const float offset = winner.offset + (winner.scale - scale) * high / 2;
        const AffineFit fit = fit_affine(x, weights, {scale, offset}, high, below_zero);
        if (fit.error < best.error) best = fit;
    }
    for (int i = 0; i < refinements; ++i) {
        const AffineFit fit = fit_affine(x, weights, best.affine, high, below_zero);
        if (fit.error >= best.error) break;
        best = fit;
    }
    return best.affine;
}

}  // namespace scoria
