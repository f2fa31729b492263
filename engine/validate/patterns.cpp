// See patterns.h.
#include "patterns.h"

#include "check.h"

#include <cmath>

namespace scoria::validate {

const char* pattern_name(Pattern pattern) {
    constexpr const char* names[] = {"normal", "spikes", "alternating", "offset", "tiny",
                                     "huge",   "zeros",  "sunken",      "masked"};
    return names[size_t(pattern)];
}

std::vector<float> pattern_floats(Pattern pattern, size_t count, uint64_t seed) {
    std::vector<float> values = random_floats(count, seed);
    for (size_t i = 0; i < count; ++i) {
        float& value = values[i];
        const float sign = i % 2 ? -1.0f : 1.0f;
        switch (pattern) {
        case Pattern::normal:
            break;
        case Pattern::spikes:
            if (i % 61 == 7) value *= 1000;
            break;
        case Pattern::alternating:
            value = sign * (1 + 0.00025f * (value < -4 ? 0 : value + 4 > 8 ? 4 : (value + 4) / 2));
            break;
        case Pattern::offset:
            value += 1000;
            break;
        case Pattern::tiny:
            value *= i % 7 == 3 ? 1e-40f : 1e-30f;
            if (i % 11 == 5) value = sign * 0.0f;
            break;
        case Pattern::huge:
            value *= 1e15f;
            break;
        case Pattern::zeros:
            value = sign * 0.0f;
            break;
        case Pattern::sunken:
            value -= 20000;
            break;
        case Pattern::masked:
            if (i / 64 % 2 == 0) value = -HUGE_VALF;
            break;
        }
    }
    return values;
}

}  // namespace scoria::validate
