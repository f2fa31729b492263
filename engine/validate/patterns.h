// Inputs that kernels meet rarely and break on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace scoria::validate {

enum class Pattern : uint8_t {
    normal,       // N(0, 1)
    spikes,       // N(0, 1), every 61st a thousand times as large: outliers of trained models
    alternating,  // +1, -1, ... times 1 to 1.001: sums cancel
    offset,       // 1000 + N(0, 1): variances cancel
    tiny,         // N(0, 1) * 1e-30, every 7th denormal, zeros of both signs
    huge,         // N(0, 1) * 1e15: squares of a thousand still fit
    zeros,        // of both signs
    sunken,       // -20000 + N(0, 1): below where naive maxima start
    masked,       // 64 of -inf, 64 of N(0, 1), 64 of -inf, ...
};

const char* pattern_name(Pattern pattern);
std::vector<float> pattern_floats(Pattern pattern, size_t count, uint64_t seed);

}  // namespace scoria::validate
