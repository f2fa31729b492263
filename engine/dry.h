// DRY, "don't repeat yourself", as its author describes it (p-e-w, text-generation-webui pull request 5677):
// a token that would make a repetition of n >= allowed_length tokens longer loses multiplier * base^(n -
// allowed_length). Computed on the host from the tokens so far, as a sparse change of logits, so decode runs
// step by step.
#pragma once

#include "sampling.h"

#include <span>
#include <vector>

namespace scoria {

class Dry {
  public:
    /// `tokenizer` may be null: then no token is a breaker. Errors: bad_argument for an empty breaker.
    Dry(const SamplingOptions& options, const Tokenizer* tokenizer, uint32_t vocab);
    /// For the token that follows `tokens`, one per token at most. Linear time.
    std::vector<LogitBias> penalties(std::span<const TokenId> tokens) const;

  private:
    double multiplier_, base_;
    uint32_t allowed_length_, range_;
    std::vector<bool> breaks_;  // by token: its text holds a breaker
};

}  // namespace scoria
