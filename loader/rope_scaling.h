// The published scalings of rotary positions, each turned into frequencies and a magnitude.
#pragma once

#include "architecture.h"

#include <optional>
#include <vector>

namespace scoria {

enum class RopeScaling : uint8_t {
    none,
    linear,        // Chen et al. 2023: all frequencies divided by `factor`
    dynamic,       // NTK-aware, base by the length of the sequence; with alpha, a fixed base (Hunyuan)
    llama3,        // "The Llama 3 Herd of Models": low frequencies divided, high ones kept
    yarn,          // Peng et al. 2023
    longrope,      // Ding et al. 2024: divisors per frequency, two sets; `factor` for the magnitude alone
    proportional,  // the first `rotating` elements' pairs alone turn, at the frequencies of the whole width
};

struct RopeSettings {
    RopeScaling scaling = RopeScaling::none;
    RopePairs pairs = RopePairs::halves;
    uint32_t width = 0;
    uint32_t rotating = 0;  // proportional; even
    double base = 10000, factor = 1;
    uint32_t original_length = 0;              // positions before scaling
    double low_factor = 1, high_factor = 4;    // llama3
    double beta_fast = 32, beta_slow = 1;      // yarn: turns over the original length
    bool truncate = true;                      // yarn: the range between them ends at whole frequencies
    std::optional<double> mscale, mscale_all;  // yarn
    std::optional<double> magnitude;           // instead of the scaling's own
    double alpha = 0;                          // dynamic; 0: none
    double query_growth = 0;                   // of queries, once per original_length (Rope)
    std::vector<double> short_divisors, long_divisors;  // longrope; short ones also divide without a scaling
};

/// By what GGUF files divide the frequency of a pair that does not turn; so much or more makes it 0.
constexpr double still_divisor = 1e30;

/// Errors: bad_file, saying which number is wrong; `where` opens the message.
Rope make_rope(const RopeSettings& settings, const std::string& where);

}  // namespace scoria
