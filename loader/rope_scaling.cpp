// See rope_scaling.h.
#include "rope_scaling.h"

#include "fail.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace scoria {
namespace {

/// base^(-2i/width), Su et al. 2021, section 3.2.2.
std::vector<double> plain(double base, uint32_t width) {
    std::vector<double> frequencies;
    for (uint32_t i = 0; i < width / 2; ++i) frequencies.push_back(std::pow(base, -2.0 * i / width));
    return frequencies;
}

/// Frequencies whose wavelength exceeds the original length / low_factor are divided, those below
/// original / high_factor are kept, those between are blended.
void scale_llama3(std::vector<double>& frequencies, const RopeSettings& s) {
    for (double& frequency : frequencies) {
        const double turns = s.original_length * frequency / (2 * std::numbers::pi);
        const double blend =
            s.high_factor == s.low_factor
                ? double(turns >= s.low_factor)
                : std::clamp((turns - s.low_factor) / (s.high_factor - s.low_factor), 0.0, 1.0);
        frequency = (1 - blend) * frequency / s.factor + blend * frequency;
    }
}

/// Equations 20 to 23: a ramp over i from the frequency that turns beta_fast times within the original length
/// to the one that turns beta_slow times.
void scale_yarn(std::vector<double>& frequencies, const RopeSettings& s) {
    const auto index_of = [&](double turns) {
        return s.width * std::log(s.original_length / (turns * 2 * std::numbers::pi)) /
               (2 * std::log(s.base));
    };
    double low = index_of(s.beta_fast), high = index_of(s.beta_slow);
    if (s.truncate) {
        low = std::floor(low);
        high = std::ceil(high);
    }
    low = std::max(low, 0.0);
    high = std::min(high, s.width - 1.0);
    if (low == high) high += 0.001;  // a step
    for (size_t i = 0; i < frequencies.size(); ++i) {
        const double ramp = std::clamp((double(i) - low) / (high - low), 0.0, 1.0);
        frequencies[i] = frequencies[i] / s.factor * ramp + frequencies[i] * (1 - ramp);
    }
}

/// Section 3.4 of YaRN, with the weight that DeepSeek-V2 adds.
double yarn_magnitude(double factor, double weight) {
    return factor <= 1 ? 1 : 0.1 * weight * std::log(factor) + 1;
}

void divide(std::vector<double>& frequencies, const std::vector<double>& divisors) {
    for (size_t i = 0; i < frequencies.size(); ++i)
        frequencies[i] = divisors[i] < still_divisor ? frequencies[i] / divisors[i] : 0;
}

void check(const RopeSettings& s, const std::string& where) {
    const auto need = [&](bool good, const char* what) {
        if (!good) fail(Status::bad_file, where, what);
    };
    // Of an odd share of a head, transformers rotates one element more in some families, fails in others.
    if (s.width < 2 || s.width % 2 != 0)
        fail(Status::bad_file, where, "rotary width: expected an even number above 0, got ", s.width);
    need(std::isfinite(s.base) && s.base > 1, "rotary base: expected a finite number above 1");
    need(std::isfinite(s.factor) && s.factor > 0, "rotary factor: expected a finite number above 0");
    const bool by_length = s.scaling == RopeScaling::llama3 || s.scaling == RopeScaling::yarn ||
                           s.scaling == RopeScaling::longrope ||
                           (s.scaling == RopeScaling::dynamic && s.alpha == 0) || s.query_growth != 0;
    need(!by_length || s.original_length > 1, "rotary scaling: the original length is missing");
    need(s.scaling != RopeScaling::llama3 || s.high_factor >= s.low_factor,
         "high_freq_factor: expected at least low_freq_factor");
    need(s.scaling != RopeScaling::yarn || (s.beta_fast > 0 && s.beta_slow > 0),
         "beta_fast and beta_slow: expected numbers above 0");
    need(s.scaling != RopeScaling::dynamic || s.width > 2, "rotary width: expected above 2");
    for (const auto* divisors : {&s.short_divisors, &s.long_divisors}) {
        const bool wanted = s.scaling == RopeScaling::longrope || !divisors->empty();
        if (wanted && divisors->size() != s.width / 2)
            fail(Status::bad_file, where, "rotary factors: expected ", s.width / 2, " numbers, got ",
                 divisors->size());
        need(std::ranges::all_of(*divisors, [](double d) { return std::isfinite(d) && d > 0; }),
             "rotary factors: expected finite numbers above 0");
    }
}

}  // namespace

Rope make_rope(const RopeSettings& s, const std::string& where) {
    check(s, where);
    Rope rope;
    rope.pairs = s.pairs;
    rope.width = s.width;
    rope.query_growth = s.query_growth;
    if (s.query_growth != 0) rope.growth_length = s.original_length;
    const double width = s.width;
    rope.inverse_frequencies =
        plain(s.alpha > 0 ? s.base * std::pow(s.alpha, width / (width - 2)) : s.base, s.width);
    std::vector<double>& frequencies = rope.inverse_frequencies;
    switch (s.scaling) {
    case RopeScaling::none:
        break;
    case RopeScaling::linear:
        for (double& frequency : frequencies) frequency /= s.factor;
        break;
    case RopeScaling::proportional:
        for (size_t i = 0; i < frequencies.size(); ++i)
            frequencies[i] = 2 * i < s.rotating ? frequencies[i] / s.factor : 0;
        break;
    case RopeScaling::dynamic:
        if (s.alpha > 0) break;
        rope.short_length = s.original_length;
        rope.ntk_base = s.base;
        rope.ntk_factor = s.factor;
        break;
    case RopeScaling::llama3:
        scale_llama3(frequencies, s);
        break;
    case RopeScaling::yarn:
        scale_yarn(frequencies, s);
        rope.magnitude = s.mscale && s.mscale_all
                             ? yarn_magnitude(s.factor, *s.mscale) / yarn_magnitude(s.factor, *s.mscale_all)
                             : yarn_magnitude(s.factor, 1);
        break;
    case RopeScaling::longrope: {
        rope.magnitude = s.factor <= 1 ? 1 : std::sqrt(1 + std::log(s.factor) / std::log(s.original_length));
        rope.short_length = s.original_length;
        rope.long_inverse_frequencies = frequencies;
        divide(rope.long_inverse_frequencies, s.long_divisors);
        break;
    }
    }
    if (!s.short_divisors.empty()) divide(frequencies, s.short_divisors);
    if (s.magnitude) rope.magnitude = *s.magnitude;
    return rope;
}

}  // namespace scoria
