// How fast several answers come at once (`bench --batch`).
#pragma once

#include "bench_report.h"

namespace scoria::cli {

/// Ids spread over the vocabulary; speed does not depend on which. Of another seed, others from the first on.
std::vector<TokenId> some_ids(uint32_t count, uint32_t vocab, uint32_t seed = 0);

/// For each depth, of each answer's cache, and number of tokens, of each answer, and number of answers, at
/// most EngineOptions::sequences, a row, whose tokens are those of all answers together.
std::vector<BenchRow> bench_batches(Engine& engine, std::span<const uint32_t> batches,
                                    std::span<const uint32_t> generates, std::span<const uint32_t> depths,
                                    uint32_t repetitions);

}  // namespace scoria::cli
