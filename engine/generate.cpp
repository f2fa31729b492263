// Generation: decode is recorded once and replayed; each step reads, on the device, the token that the
// step before sampled, so the host only collects results. On hardware one more step is submitted before
// a result is read; where a grammar or DRY says what may come next, each step waits for the token before it.
// A guess (speculation.h) makes one step of several tokens: their logits, and samplings in a row, which stop
// where the guess was wrong. Where states cannot follow it back to there (recurrences), they are those before
// the step, and the next step computes its right tokens once more.
#include "answer.h"
#include "fail.h"
#include "log.h"
#include "sampler.h"
#include "speculation.h"
#include "step.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>

namespace scoria {
namespace {

/// One call of generate(): what was submitted and what was read back.
class Generation {
  public:
    Generation(Session::Impl& session, const GenerateOptions& options)
        : s_(session), options_(options), answer_(session, options) {
        if (options.on_attention && (!session.watched || options.proposer))
            fail(Status::bad_argument, "generate",
                 "expected a layer whose attention is watched, and no speculation, for on_attention");
        if (options.proposer) set_proposer();
    }

    uint32_t left() const { return answer_.left(); }
    /// Goes on for `limit` tokens (0: no limit) from the logits that are ready. Whether there is more to do.
    /// Mirostat begins anew.
    bool run(uint32_t limit);
    bool ended() const { return ended_; }
    /// Gives back what it recorded, while the device that holds it is sure to stand (Engine::Impl::survive);
    /// run() then goes on after the last token read.
    void release();
    void end(StopReason reason) { answer_.end(reason); }
    size_t length() const { return answer_.length(); }
    GenerateResult finish() { return answer_.finish(); }

  private:
    void set_proposer();
    void sample_prompt();
    void fill_pipeline();
    /// Whether a guess may be made of what follows the tokens known.
    bool guesses() const {
        constexpr uint32_t most_pending = 8;  // which a step computes once more beside a guess
        return proposer_ && pending() <= most_pending && pace_.length(s_.tokens.size()) > 0 &&
               proposer_->promising(s_.tokens);
    }
    /// Tokens that are known and not computed; the last one never is.
    uint32_t pending() const { return uint32_t(s_.tokens.size()) - first_ - decodes_; }
    /// Tokens that may follow, none if there is no guess; with a grammar, fills `masks_`.
    std::vector<TokenId> guess();
    /// Computes the tokens that are pending and a guess of what follows, samples after the last and on as
    /// long as the guess comes true, and takes what was sampled. false when the last of it was the last one
    /// wanted.
    bool take_guess(const std::vector<TokenId>& guess);
    vk::Device::Ticket submit_guess(const std::vector<TokenId>& guess);
    /// Reads the oldest result; false when it was the last one wanted.
    bool take_result();
    bool take_token();
    auto writes_sampler(vk::Recorder& recorder) {
        return [&](uint32_t word, std::span<const uint32_t> words) {
            Tenant::write_words(recorder, s_.sampler, word, words);
        };
    }
    void settle();

    Session::Impl& s_;
    const GenerateOptions& options_;
    Answer answer_;
    vk::Commands step_update_;  // what the host tells the sampler before the step in flight
    Proposer* proposer_ = nullptr;
    GuessPace pace_{0};
    std::vector<std::vector<uint32_t>> masks_;  // the grammar's, after each token of a guess
    vk::Commands guess_samples_;
    // Of this run:
    uint32_t first_ = 0;    // positions in the cache before the first decode step
    uint32_t decodes_ = 0;  // steps submitted
    size_t written_ = 0;    // tokens of the result when the step buffer's counter was 0, or would have been
    bool stale_ = false;    // the step buffer does not begin with the last token
    vk::Commands prompt_sample_;
    std::deque<vk::Device::Ticket> in_flight_;
    bool ended_ = false;  // with the last token
};

/// Samples from the logits of the prompt's last token; starts the step buffer and the sampler.
void Generation::sample_prompt() {
    vk::Recorder recorder(s_.engine.device, s_.engine.pipelines, s_.engine.recorder_options());
    const uint32_t last = first_ - 1;
    s_.write_step(recorder, std::span(s_.tokens).subspan(last, 1), last, {0});
    written_ = answer_.length();
    stale_ = false;
    writes_sampler(recorder)(0, answer_.sampler());
    answer_.guide(writes_sampler(recorder));
    s_.sample(recorder, answer_.kind());
    recorder.make_host_visible();
    prompt_sample_ = recorder.finish();
    in_flight_.push_back(s_.submit(prompt_sample_));
}

void Generation::fill_pipeline() {
    const EngineOptions& options = s_.engine.options;
    const bool one_by_one = answer_.guided() || options_.on_attention || s_.engine.device.caps().is_cpu() ||
                            s_.profile || !options.replay || s_.front ||
                            (proposer_ && proposer_->takes_rows()) ||
                            s_.decode.slices.size() > 1;  // between slices the queue is others', too
    const size_t depth = one_by_one || guesses() ? 1 : 2;
    while (in_flight_.size() < depth && first_ + decodes_ < s_.engine.memory.context &&
           (answer_.most == 0 || answer_.length() + in_flight_.size() < answer_.most)) {
        // Others may have the cache: then this token waits, since the one before it may be the last.
        if (!in_flight_.empty() && !s_.reach(first_ + decodes_, 1)) return;
        if (answer_.guided() || stale_) {
            vk::Recorder recorder(s_.engine.device, s_.engine.pipelines, s_.engine.recorder_options());
            if (stale_) {
                s_.write_step(recorder, {&s_.tokens.back(), 1}, first_ + decodes_, {0});
                written_ = answer_.length();
                stale_ = false;
            }
            answer_.guide(writes_sampler(recorder));
            step_update_ = recorder.finish();
            s_.submit(step_update_);
        }
        s_.bring_step({&s_.tokens.back(), 1}, first_ + decodes_);
        s_.writes(first_ + decodes_, 1);
        in_flight_.push_back(s_.submit_decode(answer_.kind()));
        ++decodes_;  // settle() counts what is on its way, and nothing that failed to be
    }
}

bool Generation::take_result() {
    s_.land_until(in_flight_.front());
    in_flight_.pop_front();
    if (decodes_ != 0 && in_flight_.empty()) s_.take_shown(first_ + decodes_ - 1, 1);
    return take_token();
}

bool Generation::take_token() {
    const auto words_of = [](const vk::Buffer& ring, size_t slot, size_t words) {
        return std::span(reinterpret_cast<const uint32_t*>(ring.mapped().data()) + words * slot, words);
    };
    const size_t slot = (answer_.length() - written_) % result_slots;
    if (options_.on_attention) options_.on_attention(s_.shared_map());
    return answer_.take(words_of(s_.results, slot, 2), answer_.kind().logprobs
                                                           ? words_of(s_.top, slot, SAMPLE_TOP_WORDS)
                                                           : std::span<const uint32_t>());
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
    const size_t wanted = answer_.most ? std::min(room, answer_.most - answer_.length()) : room;
    const size_t most = s_.longest_pass() - std::min(s_.longest_pass(), pending());
    const uint32_t length = uint32_t(std::min<size_t>({most, pace_.length(s_.tokens.size()), wanted - 1}));
    if (length == 0) return {};
    std::vector<TokenId> guess;
    try {
        const auto pass = uint32_t(pending() + length);
        s_.reserve_logits(pass);
        s_.reserve_scratch(pass, pass);
        guess = proposer_->propose(s_.tokens, length, options_.sampling);
    } catch (const std::exception& error) {
        proposer_ = nullptr;
        if (!options_.cancel || !*options_.cancel)
            log(cat("no more speculation in this answer: ", error.what()));
        return {};
    }
    const Architecture& architecture = s_.engine.model->architecture;
    const uint32_t known = std::min(architecture.vocab, architecture.logits());
    const auto end = std::ranges::find_if(guess, [&](TokenId id) { return id < 0 || uint32_t(id) >= known; });
    guess.resize(std::min<size_t>(length, size_t(end - guess.begin())));
    if (answer_.constraint()) {
        masks_ = answer_.constraint()->masks_after(guess);
        guess.resize(masks_.size());
    }
    if (!guess.empty() && !s_.reach(first_ + decodes_, pending() + uint32_t(guess.size()))) return {};
    return guess;
}

vk::Device::Ticket Generation::submit_guess(const std::vector<TokenId>& guess) {
    const uint32_t known = pending(), count = known + uint32_t(guess.size()), first = first_ + decodes_;
    std::vector<TokenId> tokens = s_.tokens;
    tokens.insert(tokens.end(), guess.begin(), guess.end());
    Session::Impl::Rows rows(count);
    for (uint32_t row = 0; row < count; ++row) rows[row] = row;

    vk::Recorder before(s_.engine.device, s_.engine.pipelines, s_.engine.recorder_options());
    s_.write_step(before, std::span(tokens).last(count), first, rows);
    s_.write_words(before, s_.workspace.step, STEP_INDEX, std::array{known - 1});  // slot i's counter is i
    step_update_ = before.finish();
    written_ = answer_.length() - (known - 1);
    stale_ = true;
    s_.submit(step_update_);
    s_.bring_step(std::span(tokens).last(count), first);
    s_.writes(first, count);
    s_.submit_pass(count);

    vk::Recorder after(s_.engine.device, s_.engine.pipelines, s_.engine.recorder_options());
    for (uint32_t i = 0; i <= guess.size(); ++i) {
        if (i == 0)
            answer_.guide(writes_sampler(after));
        else
            answer_.guide(std::span(tokens).first(s_.tokens.size() + i),
                          answer_.constraint() ? std::span<const uint32_t>(masks_[i - 1])
                                               : std::span<const uint32_t>(),
                          writes_sampler(after));
        const uint32_t row = known - 1 + i;
        s_.sample(after, answer_.kind(),
                  {row, row + 1, i == 0 ? std::nullopt : std::optional<TokenId>(guess[i - 1])});
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
    s_.take_shown(first_ + decodes_, uint32_t(before + guess.size()) - first_ - decodes_);
    size_t right = 0;
    bool more = true, true_so_far = true;
    for (size_t row = 0; more && true_so_far; ++row) {
        more = take_token();
        true_so_far = row < guess.size() && s_.tokens.back() == guess[row];
        right += true_so_far;
    }
    answer_.result().proposed += uint32_t(guess.size());
    answer_.result().accepted += uint32_t(right);
    if (!guess.empty()) pace_.learn(s_.tokens.size(), guess.size(), right);
    // The guess's keys and values stand as far as it came true, but the last token counts as not computed.
    const uint32_t begun = first_ + decodes_;
    s_.computed = uint32_t(before + guess.size());
    s_.rewind(uint32_t(s_.tokens.size()) - 1);
    first_ = s_.computed;
    decodes_ = 0;
    if (pending() != 1 && !(s_.recurrent && first_ == begun))
        fail(Status::failed, "generate", "expected a cache that takes ", guess.size(),
             " tokens back, got one that ends at ", s_.computed, " of ", s_.tokens.size());
    return more;
}

/// Waits for what is still in flight and says what the cache holds now. A step submitted after the last
/// token kept has computed that token, or one beyond it, which the next append overwrites.
void Generation::settle() {
    for (const vk::Device::Ticket& ticket : in_flight_) s_.land_until(ticket);
    in_flight_.clear();
    const uint32_t reached = first_ + decodes_, kept = uint32_t(s_.tokens.size());
    s_.computed = std::min(reached, kept);
    s_.logits_ready = s_.stepped = reached == kept;
}

bool Generation::run(uint32_t limit) {
    const auto start = std::chrono::steady_clock::now();
    first_ = s_.computed;
    decodes_ = 0;
    answer_.most = limit ? answer_.length() + limit : 0;
    try {
        sample_prompt();
        for (bool more = true; more;) {
            const std::vector<TokenId> next = in_flight_.empty() ? guess() : std::vector<TokenId>();
            const bool alone = next.empty() && (!in_flight_.empty() || pending() == 1);
            if (alone) fill_pipeline();
            more = alone ? take_result() : take_guess(next);
        }
        ended_ =
            answer_.result().reason != StopReason::token_limit || (options_.max_tokens != 0 && left() == 0);
    } catch (...) {
        s_.outlast();  // first: updates of the step are on their way, too, and settle() may throw
        settle();
        throw;
    }
    settle();
    answer_.result().seconds +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (ended_) s_.engine.save_pipelines();
    return !ended_;
}

void Generation::release() {
    in_flight_.clear();
    prompt_sample_ = {};
    step_update_ = {};
    guess_samples_ = {};
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

GenerateResult Session::Impl::generate(const GenerateOptions& options) {
    needs_decoder("generate");
    if (tokens.empty())
        fail(Status::bad_argument, "generate", "expected at least one token appended before, got none");
    if (tokens.size() >= engine.memory.context) return {.reason = StopReason::context_full};
    if (options.proposer) options.proposer->prepare(*this, options.cancel);
    Generation generation(*this, options);
    const auto run = [&] {
        if (generation.ended()) return;  // the device was lost after the last token
        try {
            ready();
            if (options.logprobs && !top)
                top = vk::Buffer(engine.device, 4ull * SAMPLE_TOP_WORDS * result_slots,
                                 vk::MemoryUse::readback);
            // Where rotations depend on the length: runs of tokens between their changes.
            do {
                compute_pending(options.cancel);
            } while (generation.run(tokens_before_change(generation.left())));
            share_prefix();
        } catch (...) {
            generation.release();
            throw;
        }
        generation.release();
    };
    try {
        engine.survive(run);
    } catch (const Error& error) {
        const bool full = error.status() == Status::context_full && generation.length() != 0;
        if (!full && error.status() != Status::cancelled) throw;
        // Others have the rest of the cache; or while tokens before the next one were computed anew.
        generation.end(full ? StopReason::context_full : StopReason::cancelled);
    }
    if (!options.proposer || !options.proposer->takes_rows() || !options.proposer->promising(tokens))
        shown.clear();
    return generation.finish();
}

GenerateResult Session::generate(const GenerateOptions& options) { return impl_->generate(options); }

}  // namespace scoria
