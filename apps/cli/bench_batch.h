// How fast several answers come at once, and how they bear a prompt beside them (`bench --batch`).
#pragma once

#include "bench_report.h"

namespace scoria::cli {

/// Ids spread over the vocabulary; speed does not depend on which. Of another seed, others from the first on.
std::vector<TokenId> some_ids(uint32_t count, uint32_t vocab, uint32_t seed = 0);

struct BatchTests {
    std::span<const uint32_t> answers, generates, prompts, depths;
    uint32_t repetitions = 1;
};
/// Of an engine whose sequences are one more than the most answers. For each depth, of each answer's cache,
/// and number of answers: a row for each number of tokens of each answer, whose tokens are those of all
/// answers together; and one for each prompt that joins the answers, of its tokens until it has its first,
/// with what the answers waited meanwhile.
std::vector<BenchRow> bench_batches(Engine& engine, const BatchTests& tests);

}  // namespace scoria::cli
