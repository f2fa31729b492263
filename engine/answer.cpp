// See answer.h.
#include "answer.h"

#include "fail.h"
#include "sampler.h"
#include "step.h"

#include <algorithm>
#include <utility>

namespace scoria {

Answer::Answer(Session::Impl& session, const GenerateOptions& options)
    : most(options.max_tokens), session_(session),
      options_(options), kind_{options.sampling.temperature == 0, {}} {
    if (options.logprobs && *options.logprobs > SAMPLE_TOP_LIMIT)
        fail(Status::bad_argument, "sampling", "expected at most ", SAMPLE_TOP_LIMIT,
             " log-probabilities per token, got ", *options.logprobs);
    const Model& model = *session.engine.model;
    if (options.logprobs) kind_.logprobs = std::min(*options.logprobs, model.architecture.logits());
    const Tokenizer* tokenizer = model.tokenizer.get();
    const bool with_text = !options.stop.empty() || options.on_text;
    if ((with_text || options.output_grammar) && !tokenizer)
        fail(Status::bad_argument, "generate", "expected a model with a vocabulary, got none");
    if (with_text) text_.emplace(*tokenizer, options.stop, options.special_text);
    if (options.sampling.dry_multiplier > 0)
        dry_.emplace(options.sampling, tokenizer, model.architecture.vocab);
    if (!model.suppressed.empty()) {
        allowed_.assign((model.architecture.logits() + 31) / 32, ~0u);
        for (const TokenId id : model.suppressed) allowed_[size_t(id) / 32] &= ~(1u << id % 32);
    }
    if (!options.output_grammar) return;
    std::vector<uint32_t> ends;
    for (uint32_t id = 0; id < std::min(tokenizer->size(), model.architecture.logits()); ++id)
        if (tokenizer->ends_generation(TokenId(id)) &&
            std::ranges::find(model.suppressed, TokenId(id)) == model.suppressed.end())
            ends.push_back(id);
    constraint_.emplace(options.output_grammar, session.engine.token_trie(), std::move(ends),
                        options.grammar_behind);
}

std::vector<uint32_t> Answer::sampler() const {
    const std::span<const uint32_t> ids(reinterpret_cast<const uint32_t*>(session_.tokens.data()),
                                        session_.tokens.size());
    std::vector<uint32_t> state =
        sampler_state(options_.sampling, ids, session_.engine.model->architecture.logits());
    if (constraint_ || !allowed_.empty()) state[SAMPLER_MASKED] = 1;
    if (allowed_.empty()) return state;
    state.resize(SAMPLER_MASK);
    state.insert(state.end(), allowed_.begin(), allowed_.end());
    return state;
}

void Answer::guide(std::span<const TokenId> before, std::span<const uint32_t> mask, const Write& write) {
    if (constraint_) write(SAMPLER_MASK, mask);
    if (!dry_) return;
    const std::vector<uint32_t> words = bias_words(options_.sampling, dry_->penalties(before));
    const uint32_t count = uint32_t(words.size() / 2);
    write(SAMPLER_BIAS_COUNT, {&count, 1});
    write(SAMPLER_BIASES, words);
}

std::optional<StopReason> Answer::why_stop(TokenId token) {
    const Tokenizer* vocabulary = session_.engine.model->tokenizer.get();
    const bool ends = !options_.ignore_end && vocabulary && vocabulary->ends_generation(token);
    if (options_.on_token && !options_.on_token(token)) refused_ = true;
    if (text_ && !refused_) show_text(token, ends ? "" : text_->push(token));
    if (refused_) return StopReason::cancelled;
    if (options_.cancel && *options_.cancel) return StopReason::cancelled;
    if (ends || (constraint_ && constraint_->complete())) return StopReason::end_of_generation;
    if (text_ && text_->stopped()) return StopReason::stop_string;
    if (options_.max_tokens && left() == 0) return StopReason::token_limit;
    if (session_.tokens.size() >= session_.engine.memory.context) return StopReason::context_full;
    if (most && length() >= most) return StopReason::token_limit;  // of this run
    return std::nullopt;
}

bool Answer::take(std::span<const uint32_t> result, std::span<const uint32_t> top) {
    if (result[1] & STEP_STATUS_NON_FINITE)
        fail(Status::non_finite, "sampler", "expected finite logits after position ",
             session_.tokens.size() - 1, ", got none that is");
    const uint32_t tokens = session_.engine.model->architecture.logits();
    if (result[0] >= tokens)
        fail(Status::failed, "sampler", "expected a token below ", tokens, " from the device, got ",
             result[0]);
    const TokenId token = TokenId(result[0]);
    session_.tokens.push_back(token);
    result_.tokens.push_back(token);
    if (constraint_) constraint_->accept(uint32_t(token));
    if (kind_.logprobs) {
        result_.logprobs.push_back(read_top(top, token, *kind_.logprobs));
        if (options_.on_logprobs) options_.on_logprobs(result_.logprobs.back());
    }
    const std::optional<StopReason> reason = why_stop(token);
    if (reason) result_.reason = *reason;
    if (reason == StopReason::stop_string) result_.stop = text_->found();
    return !reason;
}

GenerateResult Answer::finish() {
    if (text_ && !refused_)
        if (const std::string rest = text_->finish(); !rest.empty()) show_text(-1, rest);
    result_.reused += std::exchange(session_.reused, 0);
    return std::move(result_);
}

}  // namespace scoria
