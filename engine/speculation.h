// Speculation: guesses of what comes next, which one pass of the model over all of them proves
// (generate.cpp). A guess changes how long an answer takes, never what it is.
//
// A guess is right while it equals what the session's own sampler draws from the model's own logits. For a
// guess x made for certain, speculative sampling (Leviathan et al. 2023, algorithm 1, q one-hot) keeps x with
// probability p(x) and else draws from p without x; to draw y from p and to keep the guess where y = x is the
// same distribution, and as a draw is a function of seed and position (ops/sample.h), ids are those that the
// seed gives without speculation. Penalties, grammars, mirostat and the like see the tokens before, as ever.
#pragma once

#include "session.h"

namespace scoria {

/// Guesses what follows. For one session at a time; no promise is needed.
class Proposer {
  public:
    virtual ~Proposer() = default;
    /// Whether propose() may find something: cheap. Where it may not, steps are chained on the device.
    virtual bool promising(std::span<const TokenId> tokens) const = 0;
    /// Before an answer of `target`, while no engine is in use by this thread. `cancel` ends what is proposed
    /// in it, too.
    virtual void prepare(Session::Impl& target, const std::atomic<bool>* cancel) noexcept {
        (void)target, (void)cancel;
    }
    /// Whether it takes what the target shows (Session::Impl::shown).
    virtual bool takes_rows() const { return false; }
    /// At most `most` tokens that may follow `tokens`. What it throws ends speculation, not the answer.
    virtual std::vector<TokenId> propose(std::span<const TokenId> tokens, uint32_t most,
                                         const SamplingOptions& sampling) = 0;
};

/// What followed the longest earlier place like the end (Saxena 2023, "prompt lookup decoding"); of equally
/// long ones the latest.
class PromptLookup final : public Proposer {
  public:
    bool promising(std::span<const TokenId> tokens) const override;
    std::vector<TokenId> propose(std::span<const TokenId> tokens, uint32_t most,
                                 const SamplingOptions& sampling) override;
};

/// Errors: bad_argument, where the draft's vocabulary is not the target's, or the draft is a model ahead
/// (Architecture::ahead) and the target does not show what that takes; unsupported, for what is no plain
/// decoder.
void check_draft(const Model& draft, const Model& target);

/// A smaller model's tokens, or those of a model ahead (enum Ahead): of the target's own layer (multi-token
/// prediction; several tokens by taking what it made of one for the next), or of one that reads the target's
/// (EAGLE-3). It draws with the seed and options of the answer, so at each position both models turn one
/// random number into a token, and agree more often than two draws of their own would; EAGLE-3 alone, whose
/// vocabulary is another, says what is likeliest. What a model ahead takes of tokens that the target computed
/// elsewhere, or before it was cut back, nobody knows: zeros, by which guesses become worse and no more.
class DraftModel final : public Proposer {
  public:
    /// Errors: as check_draft, and those of Session.
    DraftModel(std::shared_ptr<Engine> draft, const Model& target);
    bool promising(std::span<const TokenId> tokens) const override;
    /// Opens a device anew that was lost, which inside the target's answer could not be.
    void prepare(Session::Impl& target, const std::atomic<bool>* cancel) noexcept override;
    bool takes_rows() const override { return engine_->model().architecture.guesses_ahead(); }
    std::vector<TokenId> propose(std::span<const TokenId> tokens, uint32_t most,
                                 const SamplingOptions& sampling) override;

  private:
    /// Tells a model ahead what its tokens [first, end) come with.
    void give(size_t first, size_t end);
    /// Of Ahead::features, whose logits are of other ids: one after the other, each the likeliest.
    std::vector<TokenId> by_features(uint32_t most);

    std::shared_ptr<Engine> engine_;
    Session session_;
    Session::Impl* target_ = nullptr;
    const std::atomic<bool>* cancel_ = nullptr;
    size_t given_ = 0;   // tokens that a model ahead computed of what the target knows
    bool lost_ = false;  // its device
};

/// How long guesses are: batches double after one that was right throughout, else they fit what was right;
/// after one that was wrong from the start the next one waits, longer where that is often so. All of it
/// follows from tokens, nothing from measured time: a seed's answer is computed in the same batches again.
class GuessPace {
  public:
    explicit GuessPace(uint32_t most) : most_(most) {}
    /// Of a guess that follows `tokens` tokens; 0: wait.
    uint32_t length(size_t tokens) const { return tokens < resume_ ? 0 : std::min(batch_ - 1, most_); }
    void learn(size_t tokens, size_t guessed, size_t right);

  private:
    uint32_t most_;
    uint32_t batch_ = 4;  // tokens of a pass: a guess and the token before it
    uint32_t failures_ = 0;
    size_t resume_ = 0;
};

}  // namespace scoria
