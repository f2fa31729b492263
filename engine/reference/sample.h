// Reference: sampling in double precision, with a sort. Semantics and their order: engine/ops/sample.h.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace scoria {
struct SamplingOptions;
}

namespace scoria::reference {

/// Philox4x32-10 (Salmon et al. 2011).
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// Probability of every token that follows position `position`; a single 1 at temperature 0. `recent`: all
/// tokens so far. `mu`: mirostat's state. All zeros if no logit is above -infinity.
std::vector<double> token_probabilities(std::span<const double> logits, const SamplingOptions& options,
                                        std::span<const uint32_t> recent, uint32_t position = 0,
                                        double mu = 0);
/// The token; 0 if no probability is above 0. `mu` becomes mirostat's next state.
uint32_t sample(std::span<const double> logits, const SamplingOptions& options,
                std::span<const uint32_t> recent, uint32_t position, double& mu);

}  // namespace scoria::reference
