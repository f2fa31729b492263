// Generation: decode is recorded once and replayed; each step reads, on the device, the token that the
// step before sampled, so the host only collects results. On hardware one more step is submitted before
// a result is read; where a grammar or DRY says what may come next, each step waits for the token before it.
// A guess (speculation.h) makes one step of several tokens: their logits, and samplings in a row, which stop
// where the guess was wrong.
#include "dry.h"
#include "fail.h"
#include "log.h"
#include "sampler.h"
#include "session_impl.h"
#include "speculation.h"
#include "step.h"
#include "text_stream.h"

#include <algorithm>
#include <chrono>
#include <deque>

namespace scoria {
namespace {

/// One call of generate(): what was submitted and what was read back.
class Generation {
  public:
    Generation(Session::Impl& session, const GenerateOptions& options)
        : s_(session), options_(options), kind_{options.sampling.temperature == 0, {}} {
        if (options.logprobs && *options.logprobs > SAMPLE_TOP_LIMIT)
            fail(Status::bad_argument, "sampling", "expected at most ", SAMPLE_TOP_LIMIT,
                 " log-probabilities per token, got ", *options.logprobs);
        if (options.logprobs)
            kind_.logprobs = std::min(*options.logprobs, session.engine.model->architecture.logits());
        const Tokenizer* tokenizer = session.engine.model->tokenizer.get();
        const bool with_text = !options.stop.empty() || options.on_text;
        if ((with_text || options.output_grammar) && !tokenizer)
            fail(Status::bad_argument, "generate", "expected a model with a vocabulary, got none");
        if (with_text) text_.emplace(*tokenizer, options.stop);
        if (options.sampling.dry_multiplier > 0)
            dry_.emplace(options.sampling, tokenizer, session.engine.model->architecture.vocab);
        if (options.on_attention && (!session.watched || options.proposer))
            fail(Status::bad_argument, "generate",
                 "expected a layer whose attention is watched, and no speculation, for on_attention");
        if (options.proposer) set_proposer();
        if (!options.output_grammar) return;
        std::vector<uint32_t> ends;
        for (uint32_t id = 0; id < std::min(tokenizer->size(), session.engine.model->architecture.logits());
             ++id)
            if (tokenizer->ends_generation(TokenId(id))) ends.push_back(id);
        constraint_.emplace(options.output_grammar, session.engine.token_trie(), std::move(ends));
    }

    /// Tokens that may still come; 0: no limit.
    uint32_t left() const {
        return options_.max_tokens ? options_.max_tokens - uint32_t(result_.tokens.size()) : 0;
    }
    /// Goes on for `limit` tokens (0: no limit) from the logits that are ready. Whether there is more to do.
    /// Mirostat begins anew.
    bool run(uint32_t limit);
    bool ended() const { return ended_; }
    /// Gives back what it recorded, while the device that holds it is sure to stand (Engine::Impl::survive);
    /// run() then goes on after the last token read.
    void release();
    GenerateResult finish();

  private:
    void set_proposer();
    void sample_prompt();
    void fill_pipeline();
    /// Whether a guess may be made of what follows the tokens known.
    bool guesses() const {
        return proposer_ && pace_.length(s_.tokens.size()) > 0 && proposer_->promising(s_.tokens);
    }
    /// Tokens that may follow, none if there is no guess; with a grammar, fills `masks_`.
    std::vector<TokenId> guess();
    /// Computes the last token and a guess of what follows, samples after each as long as the guess comes
    /// true, and takes what was sampled. false when the last of it was the last one wanted.
    bool take_guess(const std::vector<TokenId>& guess);
    vk::Device::Ticket submit_guess(const std::vector<TokenId>& guess);
    /// Reads the oldest result; false when it was the last one wanted.
    bool take_result();
    bool take_token();
    /// What the host knows of the token after `before`: the grammar's mask and DRY's penalties.
    void write_step_state(vk::Recorder& recorder, std::span<const TokenId> before,
                          std::span<const uint32_t> mask);
    void write_step_state(vk::Recorder& recorder) {
        write_step_state(recorder, s_.tokens,
                         constraint_ ? std::span<const uint32_t>(constraint_->mask())
                                     : std::span<const uint32_t>());
    }
    void take_logprobs(TokenId token, size_t slot);
    /// Shows the caller the token; says why it is the last one, if it is.
    std::optional<StopReason> why_stop(TokenId token);
    void show_text(TokenId token, std::string_view text) {
        if (options_.on_text && !options_.on_text(token, text)) refused_ = true;
    }
    void settle();

    Session::Impl& s_;
    const GenerateOptions& options_;
    SampleKind kind_;
    std::optional<TextStream> text_;
    std::optional<grammar::Constraint> constraint_;
    std::optional<Dry> dry_;
    vk::Commands step_update_;  // what the host tells the sampler before the step in flight
    bool refused_ = false;      // a callback said false
    Proposer* proposer_ = nullptr;
    GuessPace pace_{0};
    std::vector<std::vector<uint32_t>> masks_;  // the grammar's, after each token of a guess
    vk::Commands guess_samples_;
    // Of this run:
    uint32_t first_ = 0;    // positions in the cache before the first decode step
    uint32_t decodes_ = 0;  // steps submitted
    size_t written_ = 0;    // tokens of the result when the step buffer was last written
    bool stale_ = false;    // the step buffer does not begin with the last token
    size_t most_ = 0;       // tokens of the result after it; 0: no limit
    vk::Commands prompt_sample_;
    std::deque<vk::Device::Ticket> in_flight_;
    GenerateResult result_;
    bool ended_ = false;  // with the last token
};

/// Samples from the logits of the prompt's last token; starts the step buffer and the sampler.
void Generation::sample_prompt() {
    vk::Recorder recorder(s_.engine.device, s_.engine.pipelines, s_.engine.recorder_options());
    const uint32_t last = first_ - 1;
    s_.write_step(recorder, std::span(s_.tokens).subspan(last, 1), last, {0});
    written_ = result_.tokens.size();
    stale_ = false;
    const std::span<const uint32_t> ids(reinterpret_cast<const uint32_t*>(s_.tokens.data()),
                                        s_.tokens.size());
    std::vector<uint32_t> state =
        sampler_state(options_.sampling, ids, s_.engine.model->architecture.logits());
    if (constraint_) state[SAMPLER_MASKED] = 1;
    recorder.update(s_.sampler.view(0, 4 * state.size()), std::as_bytes(std::span(state)));
    write_step_state(recorder);
    s_.sample(recorder, kind_);
    recorder.make_host_visible();
    prompt_sample_ = recorder.finish();
    in_flight_.push_back(s_.submit(prompt_sample_));
}

void Generation::write_step_state(vk::Recorder& recorder, std::span<const TokenId> before,
                                  std::span<const uint32_t> mask) {
    const auto write = [&](uint32_t word, std::span<const uint32_t> words) {
        Session::Impl::write_words(recorder, s_.sampler, word, words);
    };
    if (constraint_) write(SAMPLER_MASK, mask);
    if (!dry_) return;
    const std::vector<uint32_t> words = bias_words(options_.sampling, dry_->penalties(before));
    const uint32_t count = uint32_t(words.size() / 2);
    write(SAMPLER_BIAS_COUNT, {&count, 1});
    write(SAMPLER_BIASES, words);
}

void Generation::fill_pipeline() {
    const EngineOptions& options = s_.engine.options;
    const bool one_by_one = constraint_ || dry_ || options_.on_attention ||
                            s_.engine.device.caps().is_cpu() || options.profile || !options.replay ||
                            s_.front ||
                            s_.decode.slices.size() > 1;  // between slices the queue is others', too
    const size_t depth = one_by_one || guesses() ? 1 : 2;
    while (in_flight_.size() < depth && first_ + decodes_ < s_.engine.memory.context &&
           (most_ == 0 || result_.tokens.size() + in_flight_.size() < most_)) {
        if (constraint_ || dry_ || stale_) {
            vk::Recorder recorder(s_.engine.device, s_.engine.pipelines, s_.engine.recorder_options());
            if (stale_) {
                s_.write_step(recorder, {&s_.tokens.back(), 1}, first_ + decodes_, {0});
                written_ = result_.tokens.size();
                stale_ = false;
            }
            write_step_state(recorder);
            step_update_ = recorder.finish();
            s_.submit(step_update_);
        }
        s_.bring_step({&s_.tokens.back(), 1}, first_ + decodes_);
        s_.writes(first_ + decodes_++, 1);
        in_flight_.push_back(s_.submit_decode(kind_));
    }
}

std::optional<StopReason> Generation::why_stop(TokenId token) {
    const Tokenizer* vocabulary = s_.engine.model->tokenizer.get();
    const bool ends = !options_.ignore_end && vocabulary && vocabulary->ends_generation(token);
    if (options_.on_token && !options_.on_token(token)) refused_ = true;
    if (text_ && !refused_) show_text(token, ends ? "" : text_->push(token));
    if (refused_) return StopReason::cancelled;
    if (options_.cancel && *options_.cancel) return StopReason::cancelled;
    if (ends || (constraint_ && constraint_->complete())) return StopReason::end_of_generation;
    if (text_ && text_->stopped()) return StopReason::stop_string;
    if (most_ && result_.tokens.size() >= most_) return StopReason::token_limit;
    if (s_.tokens.size() >= s_.engine.memory.context) return StopReason::context_full;
    return std::nullopt;
}

void Generation::take_logprobs(TokenId token, size_t slot) {
    const auto* words = reinterpret_cast<const uint32_t*>(s_.top.mapped().data());
    result_.logprobs.push_back(
        read_top({words + slot * SAMPLE_TOP_WORDS, SAMPLE_TOP_WORDS}, token, *kind_.logprobs));
    if (options_.on_logprobs) options_.on_logprobs(result_.logprobs.back());
}

bool Generation::take_result() {
    s_.land_until(in_flight_.front());
    in_flight_.pop_front();
    return take_token();
}

bool Generation::take_token() {
    const size_t slot = (result_.tokens.size() - written_) % result_slots;
    const auto* words = reinterpret_cast<const uint32_t*>(s_.results.mapped().data()) + 2 * slot;
    if (words[1] & STEP_STATUS_NON_FINITE)
        fail(Status::non_finite, "sampler", "expected finite logits after position ", s_.tokens.size() - 1,
             ", got none that is");
    const TokenId token = TokenId(words[0]);
    if (options_.on_attention) options_.on_attention(s_.shared_map());
    s_.tokens.push_back(token);
    result_.tokens.push_back(token);
    if (constraint_) constraint_->accept(uint32_t(token));
    if (kind_.logprobs) take_logprobs(token, slot);
    const std::optional<StopReason> reason = why_stop(token);
    if (reason) result_.reason = *reason;
    return !reason;
}

void Generation::set_proposer() {
    const Architecture& architecture = s_.engine.model->architecture;
    if (architecture.memory.segment != 0 || architecture.recomputes()) {
        log(cat("no speculation: ", architecture.family, " cannot take back a token that it has computed"));
        return;
    }
    constexpr uint32_t longest_guess = 15;
    const uint32_t wanted = options_.draft_tokens ? options_.draft_tokens : longest_guess;
    proposer_ = options_.proposer;
    pace_ = GuessPace(std::min(wanted, s_.longest_pass() - 1));
}

std::vector<TokenId> Generation::guess() {
    if (!guesses()) return {};
    const size_t room = s_.engine.memory.context - s_.tokens.size();  // tokens that may still come
    const size_t wanted = most_ ? std::min(room, most_ - result_.tokens.size()) : room;
    const uint32_t length = uint32_t(std::min<size_t>(pace_.length(s_.tokens.size()), wanted - 1));
    if (length == 0) return {};
    std::vector<TokenId> guess;
    try {
        s_.reserve_logits(length + 1);
        s_.reserve_scratch(length + 1);
        guess = proposer_->propose(s_.tokens, length, options_.sampling);
    } catch (const Error& error) {
        log(cat("no more speculation in this answer: ", error.what()));
        proposer_ = nullptr;
        return {};
    }
    const Architecture& architecture = s_.engine.model->architecture;
    const uint32_t known = std::min(architecture.vocab, architecture.logits());
    const auto end = std::ranges::find_if(guess, [&](TokenId id) { return id < 0 || uint32_t(id) >= known; });
    guess.resize(std::min<size_t>(length, size_t(end - guess.begin())));
    if (!constraint_) return guess;
    masks_ = constraint_->masks_after(guess);
    guess.resize(masks_.size());
    return guess;
}

vk::Device::Ticket Generation::submit_guess(const std::vector<TokenId>& guess) {
    const uint32_t count = uint32_t(guess.size()) + 1;
    std::vector<TokenId> tokens = s_.tokens;
    tokens.insert(tokens.end(), guess.begin(), guess.end());
    Session::Impl::Rows rows(count);
    for (uint32_t row = 0; row < count; ++row) rows[row] = row;

    vk::Recorder before(s_.engine.device, s_.engine.pipelines, s_.engine.recorder_options());
    s_.write_step(before, std::span(tokens).last(count), uint32_t(s_.tokens.size()) - 1, rows);
    step_update_ = before.finish();
    written_ = result_.tokens.size();
    stale_ = true;
    s_.submit(step_update_);
    s_.bring_step(std::span(tokens).last(count), uint32_t(s_.tokens.size()) - 1);
    s_.writes(uint32_t(s_.tokens.size()) - 1, count);
    s_.submit_pass(count);

    vk::Recorder after(s_.engine.device, s_.engine.pipelines, s_.engine.recorder_options());
    for (uint32_t row = 0; row < count; ++row) {
        if (row == 0)
            write_step_state(after);
        else
            write_step_state(after, std::span(tokens).first(s_.tokens.size() + row),
                             constraint_ ? std::span<const uint32_t>(masks_[row - 1])
                                         : std::span<const uint32_t>());
        s_.sample(after, kind_,
                  {row, row + 1, row == 0 ? std::nullopt : std::optional<TokenId>(guess[row - 1])});
    }
    after.make_host_visible();
    guess_samples_ = after.finish();
    return s_.submit(guess_samples_);
}

bool Generation::take_guess(const std::vector<TokenId>& guess) {
    const size_t before = s_.tokens.size();
    in_flight_.push_back(submit_guess(guess));
    s_.land_until(in_flight_.front());
    in_flight_.pop_front();
    size_t right = 0;
    bool more = true, true_so_far = true;
    for (size_t row = 0; more && true_so_far; ++row) {
        more = take_token();
        true_so_far = row < guess.size() && s_.tokens.back() == guess[row];
        right += true_so_far;
    }
    result_.proposed += uint32_t(guess.size());
    result_.accepted += uint32_t(right);
    pace_.learn(s_.tokens.size(), guess.size(), right);
    // The guess's keys and values stand as far as it came true, but the last token counts as not computed.
    s_.computed = uint32_t(before + guess.size());
    s_.rewind(uint32_t(s_.tokens.size()) - 1);
    if (s_.computed + 1 != s_.tokens.size())
        fail(Status::failed, "generate", "expected a cache that takes ", guess.size(),
             " tokens back, got one that ends at ", s_.computed, " of ", s_.tokens.size());
    first_ = s_.computed;
    decodes_ = 0;
    return more;
}

/// Waits for what is still in flight and says what the cache holds now. A step submitted after the last
/// token kept has computed that token, or one beyond it, which the next append overwrites.
void Generation::settle() {
    for (const vk::Device::Ticket& ticket : in_flight_) s_.land_until(ticket);
    in_flight_.clear();
    const uint32_t reached = first_ + decodes_, kept = uint32_t(s_.tokens.size());
    s_.computed = std::min(reached, kept);
    s_.logits_ready = reached == kept;
}

bool Generation::run(uint32_t limit) {
    const auto start = std::chrono::steady_clock::now();
    first_ = s_.computed;
    decodes_ = 0;
    most_ = limit ? result_.tokens.size() + limit : 0;
    try {
        sample_prompt();
        for (bool more = true; more;) {
            const std::vector<TokenId> next = in_flight_.empty() ? guess() : std::vector<TokenId>();
            if (next.empty()) fill_pipeline();
            more = next.empty() ? take_result() : take_guess(next);
        }
        ended_ = result_.reason != StopReason::token_limit || (options_.max_tokens != 0 && left() == 0);
    } catch (...) {
        settle();
        throw;
    }
    settle();
    result_.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return !ended_;
}

void Generation::release() {
    in_flight_.clear();
    prompt_sample_ = {};
    step_update_ = {};
    guess_samples_ = {};
}

GenerateResult Generation::finish() {
    if (text_ && !refused_)
        if (const std::string rest = text_->finish(); !rest.empty()) show_text(-1, rest);
    return std::move(result_);
}

}  // namespace

void Session::Impl::sample(vk::Recorder& recorder, const SampleKind& kind, const SampleRow& at) const {
    OpContext context{recorder, engine.device.caps()};
    const uint32_t vocab = engine.model->architecture.logits(), first = at.row * vocab;
    const SampleArgs args{
        .logits = {workspace.logits.view(0, 4ull * (first + vocab)), 1, vocab, vocab, first},
        .sampler = sampler.view(),
        .scratch = sample_scratch.view(),
        .step = workspace.step.view(),
        .results = results.view(),
        .result_slots = result_slots,
        .from_slot = at.row,
        .to_slot = at.to_slot,
        .greedy = kind.greedy,
        .guess = at.guess};
    const KernelVariant variant = engine.choices.simple(context.caps, SimpleOp::sample);
    record_sample(context, args, variant);
    if (kind.logprobs)
        record_sample_top(
            context,
            {args.logits, args.step, top.view(), result_slots, args.to_slot, *kind.logprobs, at.guess},
            variant);
}

uint32_t Session::Impl::longest_pass() const {
    // The last of its samplings fills one more slot of the step buffer.
    return std::min({engine.layout.outputs, std::max(engine.layout.tokens, 2u) - 1, result_slots});
}

GenerateResult Session::generate(const GenerateOptions& options) {
    Impl& s = *impl_;
    s.needs_decoder("generate");
    if (s.tokens.empty())
        fail(Status::bad_argument, "generate", "expected at least one token appended before, got none");
    if (s.tokens.size() >= s.engine.memory.context) return {{}, StopReason::context_full, 0};
    Generation generation(s, options);
    s.engine.survive([&] {
        if (generation.ended()) return;  // the device was lost after the last token
        try {
            s.ready();
            if (options.logprobs && !s.top)
                s.top = vk::Buffer(s.engine.device, 4ull * SAMPLE_TOP_WORDS * result_slots,
                                   vk::MemoryUse::readback);
            // Where rotations depend on the length: runs of tokens between their changes.
            do {
                s.compute_pending(options.cancel);
            } while (generation.run(s.tokens_before_change(generation.left())));
        } catch (...) {
            generation.release();
            throw;
        }
        generation.release();
    });
    return generation.finish();
}

}  // namespace scoria
