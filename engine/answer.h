// The host's side of one answer: what the sampler is told before each token, what a token that it chose means
// to the caller, and when the answer ends.
#pragma once

#include "dry.h"
#include "grammar/constraint.h"
#include "session_impl.h"
#include "text_stream.h"

namespace scoria {

class Answer {
  public:
    /// `options` must outlive it. Errors: bad_argument.
    Answer(Session::Impl& session, const GenerateOptions& options);

    const SampleKind& kind() const { return kind_; }
    /// Whether the host says before each step what may come next.
    bool guided() const { return constraint_ || dry_; }
    grammar::Constraint* constraint() { return constraint_ ? &*constraint_ : nullptr; }

    /// The sampler's state for the session's tokens so far; what guides it apart. Mirostat begins anew.
    std::vector<uint32_t> sampler() const;
    /// Writes what guides the choice of the token after `before` into the sampler's state: the grammar's mask
    /// and DRY's penalties.
    using Write = std::function<void(uint32_t word, std::span<const uint32_t> words)>;
    void guide(std::span<const TokenId> before, std::span<const uint32_t> mask, const Write& write);
    void guide(const Write& write) {
        guide(session_.tokens, constraint_ ? constraint_->mask() : std::span<const uint32_t>(), write);
    }

    /// Takes the next token: {id, status} as the sampler left it, and SAMPLE_TOP_WORDS words where
    /// log-probabilities are wanted. false: it is the last one. Errors: non_finite; what callbacks throw.
    bool take(std::span<const uint32_t> result, std::span<const uint32_t> top);
    /// Ends it without another token.
    void end(StopReason reason) { result_.reason = reason; }

    size_t length() const { return result_.tokens.size(); }
    /// Tokens that may still come; 0: no limit.
    uint32_t left() const { return options_.max_tokens ? options_.max_tokens - uint32_t(length()) : 0; }
    /// It stops, with token_limit, when it has so many tokens; 0: no limit.
    size_t most = 0;
    GenerateResult& result() { return result_; }
    /// Shows what text was held back, and gives the result away.
    GenerateResult finish();

  private:
    /// Shows the caller the token; says why it is the last one, if it is.
    std::optional<StopReason> why_stop(TokenId token);
    void show_text(TokenId token, std::string_view text) {
        if (options_.on_text && !options_.on_text(token, text)) refused_ = true;
    }

    Session::Impl& session_;
    const GenerateOptions& options_;
    SampleKind kind_;
    std::optional<TextStream> text_;
    std::optional<grammar::Constraint> constraint_;
    std::optional<Dry> dry_;
    std::vector<uint32_t>
        allowed_;           // a bit per token, but those that the model says are never sampled; or empty
    bool refused_ = false;  // a callback said false
    GenerateResult result_;
};

}  // namespace scoria
