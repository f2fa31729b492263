// What the next token is chosen by, and what may be asked of the choice.
#pragma once

#include "tokenizer/tokenizer.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace scoria {

struct LogitBias {
    TokenId token = 0;
    float bias = 0;  // -infinity bans the token
};

/// What each means, and in what order they work: ops/sample.h.
struct SamplingOptions {
    float temperature = 0;  // 0: greedy
    uint32_t top_k = 40;    // 0: off
    float top_p = 0.95f;    // 1: off
    float min_p = 0.05f;    // 0: off
    /// 1: off; divides positive and multiplies negative logits (Keskar et al. 2019).
    float repetition_penalty = 1;
    uint32_t repetition_window = 64;    // tokens back that this penalty and the next two look
    float frequency_penalty = 0;        // taken from a logit for each time its token was seen
    float presence_penalty = 0;         // taken once if its token was seen
    std::vector<LogitBias> logit_bias;  // added to logits; at most one per token
    float typical_p = 1;                // 1: off; locally typical sampling
    float xtc_probability = 0;          // 0: off; how often the top choices are excluded
    float xtc_threshold = 0.1f;         // the probability that makes a token a top choice
    float mirostat_tau = 0;             // bits of surprise aimed at; 0: off. On, no other filter is
    float mirostat_eta = 0.1f;          // mirostat's learning rate
    // DRY ("don't repeat yourself"), see dry.h. Each step then waits for the host.
    float dry_multiplier = 0;  // 0: off
    float dry_base = 1.75f;
    uint32_t dry_allowed_length = 2;  // repetitions up to this long cost nothing
    uint32_t dry_range = 0;           // tokens back that it looks; 0: all
    /// A token that holds one ends a repetition.
    std::vector<std::string> dry_breakers = {"\n", ":", "\"", "*"};
    uint64_t seed = 0;
};

/// Natural logarithms of probabilities under the model's own distribution: softmax of the logits as they
/// are, at temperature 1.
struct TokenLogprobs {
    TokenId token = -1;
    float logprob = 0;
    std::vector<std::pair<TokenId, float>> best;  // by falling probability, then by id
};

}  // namespace scoria
