// The K types: 256 weights in groups with a small integer scale each (and minimum, of types with an offset),
// which one half (or two) scales again. Formats: see reference/dequantise_k.cpp, the inverse.
#include "quantise/block_writers.h"
#include "quantise/scale_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace scoria {
namespace {

using Floats = std::span<const float>;

constexpr size_t block = 256, most_groups = 16;
constexpr int rounds = 2;  // of fitting the groups' integers, then the block's scales

// --- scales only: x ~ d s q -------------------------------------------------------------------------

struct ScaledShape {
    size_t group;                     // weights
    int lowest_q, highest_q;          // of weights
    int lowest_scale, highest_scale;  // of groups
};
struct Scaled {
    float d = 0;
    int scales[most_groups] = {};
    int q[block] = {};
};

struct Fit {
    double error = 0, xq = 0, qq = 0;  // with q times the group's integer scale
};
Fit try_scale(Floats x, Floats weights, float d, int scale, const ScaledShape& shape) {
    const float step = d * static_cast<float>(scale), inverse = inverse_of(step);
    float error = 0, xq = 0, qq = 0;
    for (size_t i = 0; i < x.size(); ++i) {
        const float q =
            rounded(x[i] * inverse, static_cast<float>(shape.lowest_q), static_cast<float>(shape.highest_q));
        const float off = x[i] - step * q, product = q * static_cast<float>(scale);
        error += weights[i] * off * off;
        xq += weights[i] * x[i] * product;
        qq += weights[i] * product * product;
    }
    return {error, xq, qq};
}

/// The integer scales of all groups next to `result.scales` with the least error for `d`; returns the sums.
Fit refine_scales(Floats x, Floats weights, float d, const ScaledShape& shape, int (&scales)[most_groups]) {
    Fit total;
    for (size_t g = 0; g < block / shape.group; ++g) {
        const Floats part = x.subspan(g * shape.group, shape.group);
        const Floats part_weights = weights.subspan(g * shape.group, shape.group);
        const int centre = scales[g];
        Fit best = try_scale(part, part_weights, d, centre, shape);
        for (const int scale : {centre - 1, centre + 1}) {
            if (scale < shape.lowest_scale || scale > shape.highest_scale) continue;
            const Fit fit = try_scale(part, part_weights, d, scale, shape);
            if (fit.error >= best.error) continue;
            best = fit;
            scales[g] = scale;
        }
        total.error += best.error;
        total.xq += best.xq;
        total.qq += best.qq;
    }
    return total;
}

float half(float value) { return from_half(to_half(value)); }

Scaled fit_scaled(Floats x, Floats weights, const ScaledShape& shape) {
    float wanted[most_groups] = {}, extreme = 0;
    const size_t groups = block / shape.group;
    for (size_t g = 0; g < groups; ++g) {
        wanted[g] =
            symmetric_scale(x.subspan(g * shape.group, shape.group),
                            weights.subspan(g * shape.group, shape.group), shape.lowest_q, shape.highest_q);
        if (std::abs(wanted[g]) > std::abs(extreme)) extreme = wanted[g];
    }
    Scaled result;
    const float lowest_scale = static_cast<float>(shape.lowest_scale);
    result.d = half_scale(extreme / lowest_scale, -lowest_scale);
    if (result.d == 0) return result;
    for (size_t g = 0; g < groups; ++g)
        result.scales[g] = static_cast<int>(
            rounded(wanted[g] / result.d, lowest_scale, static_cast<float>(shape.highest_scale)));
    Fit fit = refine_scales(x, weights, result.d, shape, result.scales);
    for (int i = 0; i < rounds && fit.qq > 0; ++i) {
        Scaled next = result;
        next.d = half(static_cast<float>(fit.xq / fit.qq));
        const Fit next_fit = refine_scales(x, weights, next.d, shape, next.scales);
        if (next.d == 0 || next_fit.error >= fit.error) break;
        result = next;
        fit = next_fit;
    }
    for (size_t i = 0; i < block; ++i) {
        const float inverse = inverse_of(result.d * static_cast<float>(result.scales[i / shape.group]));
        result.q[i] = static_cast<int>(
            rounded(x[i] * inverse, static_cast<float>(shape.lowest_q), static_cast<float>(shape.highest_q)));
    }
    return result;
}

// --- scales and minima: x ~ d s q - dmin m ----------------------------------------------------------

struct ShiftedShape {
    size_t group;
    int highest_q, highest_scale;  // scales and minima alike
};
struct Shifted {
    float d = 0, dmin = 0;
    int scales[most_groups] = {}, minima[most_groups] = {};
    int q[block] = {};
};

/// Sums of the least squares for d and dmin, with u = s q and v = m.
struct ShiftedFit {
    double error = 0, uu = 0, uv = 0, vv = 0, xu = 0, xv = 0;
    void add(const ShiftedFit& other) {
        error += other.error;
        uu += other.uu;
        uv += other.uv;
        vv += other.vv;
        xu += other.xu;
        xv += other.xv;
    }
};
float group_error(Floats x, Floats weights, float step, float minimum, float highest_q) {
    const float inverse = inverse_of(step);
    float error = 0;
    for (size_t i = 0; i < x.size(); ++i) {
        const float q = rounded((x[i] + minimum) * inverse, 0, highest_q);
        const float off = x[i] - (step * q - minimum);
        error += weights[i] * off * off;
    }
    return error;
}
ShiftedFit group_sums(Floats x, Floats weights, float d, float dmin, int scale, int minimum, int highest_q) {
    const float step = d * static_cast<float>(scale), shift = dmin * static_cast<float>(minimum);
    const float inverse = inverse_of(step), s = static_cast<float>(scale), m = static_cast<float>(minimum);
    float wuu = 0, wu = 0, w1 = 0, wxu = 0, wx = 0;
    for (size_t i = 0; i < x.size(); ++i) {
        const float u = s * rounded((x[i] + shift) * inverse, 0, static_cast<float>(highest_q));
        w1 += weights[i];
        wu += weights[i] * u;
        wuu += weights[i] * u * u;
        wx += weights[i] * x[i];
        wxu += weights[i] * x[i] * u;
    }
    return {0, wuu, wu * m, w1 * m * m, wxu, wx * m};
}

ShiftedFit refine_shifted(Floats x, Floats weights, const ShiftedShape& shape, Shifted& result) {
    ShiftedFit total;
    for (size_t g = 0; g < block / shape.group; ++g) {
        const Floats part = x.subspan(g * shape.group, shape.group);
        const Floats part_weights = weights.subspan(g * shape.group, shape.group);
        const int scale = result.scales[g], minimum = result.minima[g];
        float best = std::numeric_limits<float>::max();
        for (int s = std::max(scale - 1, 0); s <= std::min(scale + 1, shape.highest_scale); ++s)
            for (int m = std::max(minimum - 1, 0); m <= std::min(minimum + 1, shape.highest_scale); ++m) {
                const float error =
                    group_error(part, part_weights, result.d * static_cast<float>(s),
                                result.dmin * static_cast<float>(m), static_cast<float>(shape.highest_q));
                if (error >= best) continue;
                best = error;
                result.scales[g] = s;
                result.minima[g] = m;
            }
        ShiftedFit sums = group_sums(part, part_weights, result.d, result.dmin, result.scales[g],
                                     result.minima[g], shape.highest_q);
        sums.error = best;
        total.add(sums);
    }
    return total;
}

/// Moves d and dmin to the least squares of x ~ d u - dmin v; false where the sums do not determine them.
bool solve(const ShiftedFit& fit, Shifted& result) {
    const double determinant = fit.uu * fit.vv - fit.uv * fit.uv;
    double d, dmin = 0;
    if (determinant > 1e-9 * fit.uu * fit.vv) {
        d = (fit.xu * fit.vv - fit.xv * fit.uv) / determinant;
        dmin = (fit.xu * fit.uv - fit.xv * fit.uu) / determinant;
    } else {
        if (fit.uu <= 0) return false;
        d = fit.xu / fit.uu;
    }
    result.d = half(static_cast<float>(d));
    result.dmin = half(static_cast<float>(dmin));
    return result.d > 0 && result.dmin >= 0;
}

Shifted fit_shifted(Floats x, Floats weights, const ShiftedShape& shape) {
    const size_t groups = block / shape.group;
    Affine wanted[most_groups] = {};
    float most_scale = 0, most_minimum = 0;
    for (size_t g = 0; g < groups; ++g) {
        wanted[g] = affine_scale(x.subspan(g * shape.group, shape.group),
                                 weights.subspan(g * shape.group, shape.group), shape.highest_q, true);
        most_scale = std::max(most_scale, wanted[g].scale);
        most_minimum = std::max(most_minimum, -wanted[g].offset);
    }
    const float highest = static_cast<float>(shape.highest_scale);
    Shifted result;
    result.d = half_scale(most_scale / highest, highest);
    result.dmin = half_scale(most_minimum / highest, highest);
    for (size_t g = 0; g < groups; ++g) {
        result.scales[g] = static_cast<int>(rounded(wanted[g].scale * inverse_of(result.d), 0, highest));
        result.minima[g] = static_cast<int>(rounded(-wanted[g].offset * inverse_of(result.dmin), 0, highest));
    }
    ShiftedFit fit = refine_shifted(x, weights, shape, result);
    for (int i = 0; i < rounds; ++i) {
        Shifted next = result;
        if (!solve(fit, next)) break;
        const ShiftedFit next_fit = refine_shifted(x, weights, shape, next);
        if (next_fit.error >= fit.error) break;
        result = next;
        fit = next_fit;
    }
    for (size_t i = 0; i < block; ++i) {
        const size_t g = i / shape.group;
        const float minimum = result.dmin * static_cast<float>(result.minima[g]);
        result.q[i] = static_cast<int>(
            rounded((x[i] + minimum) * inverse_of(result.d * static_cast<float>(result.scales[g])), 0,
                    static_cast<float>(shape.highest_q)));
    }
    return result;
}

// --- packing ----------------------------------------------------------------------------------------

/// A byte holds weights 32 apart, 128 weights to 32 bytes.
void put_two_bits(std::byte* packed, size_t i, int q) {
    put_bits(packed + i / 128 * 32 + i % 32, q, i % 128 / 32 * 2);
}
/// Bit b of byte j is that of weight 32 b + j.
void put_one_bit(std::byte* packed, size_t i, int q) { put_bits(packed + i % 32, q, i / 32); }
/// A byte holds weights 32 apart, 64 weights to 32 bytes.
void put_four_bits(std::byte* packed, size_t i, int q) {
    put_bits(packed + i / 64 * 32 + i % 32, q, i % 64 / 32 * 4);
}
/// Scale and minimum number `group` of eight, 6 bits each, in 12 bytes.
void put_six_bits(std::byte* packed, size_t group, int scale, int minimum) {
    if (group < 4) {
        put_bits(packed + group, scale, 0);
        put_bits(packed + group + 4, minimum, 0);
        return;
    }
    put_bits(packed + group + 4, scale & 15, 0);
    put_bits(packed + group + 4, minimum & 15, 4);
    put_bits(packed + group - 4, scale >> 4, 6);
    put_bits(packed + group, minimum >> 4, 6);
}

Shifted write_scaled_minima(Floats x, Floats weights, int highest_q, std::byte* out) {
    const Shifted fit = fit_shifted(x, weights, {32, highest_q, 63});
    store_half(fit.d, out);
    store_half(fit.dmin, out + 2);
    for (size_t g = 0; g < 8; ++g) put_six_bits(out + 4, g, fit.scales[g], fit.minima[g]);
    return fit;
}

}  // namespace

void write_q2_k(Floats x, Floats weights, std::byte* out) {
    const Shifted fit = fit_shifted(x, weights, {16, 3, 15});
    for (size_t g = 0; g < 16; ++g) {
        put_bits(out + g, fit.scales[g], 0);
        put_bits(out + g, fit.minima[g], 4);
    }
    for (size_t i = 0; i < block; ++i) put_two_bits(out + 16, i, fit.q[i]);
    store_half(fit.d, out + 80);
    store_half(fit.dmin, out + 82);
}

void write_q3_k(Floats x, Floats weights, std::byte* out) {
    const Scaled fit = fit_scaled(x, weights, {16, -4, 3, -32, 31});
    for (size_t i = 0; i < block; ++i) {
        put_one_bit(out, i, (fit.q[i] + 4) >> 2);
        put_two_bits(out + 32, i, (fit.q[i] + 4) & 3);
    }
    for (size_t g = 0; g < 16; ++g) {
        put_bits(out + 96 + g % 8, (fit.scales[g] + 32) & 15, g / 8 * 4);
        put_bits(out + 104 + g % 4, (fit.scales[g] + 32) >> 4, g / 4 * 2);
    }
    store_half(fit.d, out + 108);
}

void write_q4_k(Floats x, Floats weights, std::byte* out) {
    const Shifted fit = write_scaled_minima(x, weights, 15, out);
    for (size_t i = 0; i < block; ++i) put_four_bits(out + 16, i, fit.q[i]);
}

void write_q5_k(Floats x, Floats weights, std::byte* out) {
    const Shifted fit = write_scaled_minima(x, weights, 31, out);
    for (size_t i = 0; i < block; ++i) {
        put_one_bit(out + 16, i, fit.q[i] >> 4);
        put_four_bits(out + 48, i, fit.q[i] & 15);
    }
}

void write_q6_k(Floats x, Floats weights, std::byte* out) {
    const Scaled fit = fit_scaled(x, weights, {16, -32, 31, -128, 127});
    for (size_t i = 0; i < block; ++i) {
        const int q = fit.q[i] + 32;
        put_bits(out + i / 128 * 64 + i % 64, q & 15, i % 128 / 64 * 4);
        put_two_bits(out + 128, i, q >> 4);
    }
    for (size_t g = 0; g < 16; ++g) out[192 + g] = static_cast<std::byte>(fit.scales[g]);
    store_half(fit.d, out + 208);
}

}  // namespace scoria
