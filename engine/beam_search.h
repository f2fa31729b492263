// Beam search: the likeliest answers by sum of log-probabilities, divided by length ^ penalty (Wu et al.
// 2016, section 7, without its other terms). What counts as done follows the field's reference implementation
// (Hugging Face's generate): 2 * width candidates per step, of which an ending token counts only among the
// first `width`.
#pragma once

#include "session.h"

namespace scoria {

struct BeamOptions {
    uint32_t width = 4;
    float length_penalty = 1;  // 0: none; above 0 favours longer answers
    enum class Stop : uint8_t {
        hopeless,  // when no live beam can still become better, at the length it has now
        enough,    // as soon as `width` answers have ended
        never,     // when none can at any length up to max_tokens
    } stop = Stop::hopeless;
    uint32_t max_tokens = 64;
    std::vector<TokenId> ends;
    std::vector<TokenId> suppressed = {};  // of logits; no beam has any, but probabilities count them
};

struct Beam {
    std::vector<TokenId> tokens;  // with the ending token, if it ended
    double log_probability = 0;   // of all of them
    double score = 0;             // the same / length ^ length_penalty
};

/// The search itself, without a model. Deterministic: equal scores go by beam, then by token id.
class BeamSearch {
  public:
    /// Errors: bad_argument, for a width or a length of 0.
    explicit BeamSearch(BeamOptions options);
    /// Beams that go on: one empty one at first, then `width`.
    const std::vector<Beam>& live() const { return live_; }
    /// Logits of the next token of every live beam, all of one size. Errors: non_finite, where none may come.
    void step(std::span<const std::vector<float>> logits);
    bool done() const { return done_; }
    /// The best answers, best first, at most `width`. Beams that still live count as they are, unless enough
    /// have ended.
    std::vector<Beam> best() const;

  private:
    void add(std::vector<Beam>& to, Beam beam) const;
    double attainable(double log_probability, size_t length) const;

    BeamOptions options_;
    std::vector<Beam> live_{Beam{}};
    std::vector<Beam> ended_;              // best first, at most `width`
    bool done_ = false, settled_ = false;  // settled: by the answers that ended
};

/// Searches after `prompt`, and after `source` for an encoder-decoder. Takes options.width caches. Once
/// `cancel` is set, the best answers so far. Errors: as Session's; cancelled, where there is none yet.
std::vector<Beam> beam_search(Engine& engine, std::span<const TokenId> source,
                              std::span<const TokenId> prompt, const BeamOptions& options,
                              const std::atomic<bool>* cancel = nullptr);

}  // namespace scoria
