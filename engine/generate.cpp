// Generation: decode is recorded once and replayed; each step reads, on the device, the token that the
// step before sampled, so the host only collects results. On hardware one more step is submitted before
// a result is read.
#include "fail.h"
#include "session_impl.h"
#include "step.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <time.h>

namespace scoria {
namespace {

double thread_cpu_us() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return double(now.tv_sec) * 1e6 + double(now.tv_nsec) * 1e-3;
}

/// One call of generate(): what was submitted and what was read back.
class Generation {
  public:
    Generation(Session::Impl& session, const GenerateOptions& options)
        : s_(session), options_(options), greedy_(options.sampling.temperature == 0),
          first_(session.computed) {}

    GenerateResult run();

  private:
    void sample_prompt();
    void fill_pipeline();
    /// Reads the oldest result; false when it was the last one wanted.
    bool take_result();
    std::optional<StopReason> why_stop(TokenId token) const;
    void settle();

    Session::Impl& s_;
    const GenerateOptions& options_;
    const bool greedy_;
    const uint32_t first_;  // positions in the cache before the first decode step
    uint32_t decodes_ = 0;
    vk::Commands prompt_sample_;
    std::deque<vk::Device::Ticket> in_flight_;
    GenerateResult result_;
};

/// Samples from the logits of the prompt's last token; starts the step buffer and the sampler.
void Generation::sample_prompt() {
    vk::Recorder recorder(s_.engine.device, s_.engine.pipelines, s_.engine.recorder_options());
    const uint32_t last = first_ - 1;
    s_.write_step(recorder, std::span(s_.tokens).subspan(last, 1), last, {0});
    const std::span<const uint32_t> ids(reinterpret_cast<const uint32_t*>(s_.tokens.data()),
                                        s_.tokens.size());
    const std::vector<uint32_t> state = sampler_state(options_.sampling, ids);
    recorder.update(s_.sampler.view(0, 4 * state.size()), std::as_bytes(std::span(state)));
    s_.sample(recorder, greedy_);
    recorder.make_host_visible();
    prompt_sample_ = recorder.finish();
    in_flight_.push_back(s_.submit(prompt_sample_));
}

void Generation::fill_pipeline() {
    const EngineOptions& options = s_.engine.options;
    const size_t depth = s_.engine.device.caps().is_cpu() || options.profile || !options.replay ? 1 : 2;
    while (in_flight_.size() < depth && first_ + decodes_ < s_.engine.memory.context &&
           (options_.max_tokens == 0 || result_.tokens.size() + in_flight_.size() < options_.max_tokens)) {
        in_flight_.push_back(s_.submit_decode(greedy_));
        ++decodes_;
    }
}

std::optional<StopReason> Generation::why_stop(TokenId token) const {
    const Tokenizer* vocabulary = s_.engine.model->tokenizer.get();
    if (options_.on_token && !options_.on_token(token)) return StopReason::cancelled;
    if (options_.cancel && *options_.cancel) return StopReason::cancelled;
    if (!options_.ignore_end && vocabulary && vocabulary->ends_generation(token))
        return StopReason::end_of_generation;
    if (options_.max_tokens && result_.tokens.size() >= options_.max_tokens) return StopReason::token_limit;
    if (s_.tokens.size() >= s_.engine.memory.context) return StopReason::context_full;
    return std::nullopt;
}

bool Generation::take_result() {
    s_.wait(in_flight_.front());
    in_flight_.pop_front();
    const auto* words = reinterpret_cast<const uint32_t*>(s_.results.mapped().data()) +
                        2 * (result_.tokens.size() % result_slots);
    if (words[1] & STEP_STATUS_NON_FINITE)
        fail(Status::non_finite, "sampler", "expected finite logits after position ", s_.tokens.size() - 1,
             ", got none that is");
    const TokenId token = TokenId(words[0]);
    s_.tokens.push_back(token);
    result_.tokens.push_back(token);
    const std::optional<StopReason> reason = why_stop(token);
    if (reason) result_.reason = *reason;
    return !reason;
}

/// Waits for what is still in flight and says what the cache holds now. A step submitted after the last
/// token kept has computed that token, or one beyond it, which the next append overwrites.
void Generation::settle() {
    for (const vk::Device::Ticket& ticket : in_flight_) s_.wait(ticket);
    in_flight_.clear();
    const uint32_t reached = first_ + decodes_, kept = uint32_t(s_.tokens.size());
    s_.computed = std::min(reached, kept);
    s_.logits_ready = reached == kept;
}

GenerateResult Generation::run() {
    const auto start = std::chrono::steady_clock::now();
    try {
        sample_prompt();
        do fill_pipeline();
        while (take_result());
    } catch (...) {
        settle();
        throw;
    }
    settle();
    result_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return std::move(result_);
}

}  // namespace

void Session::Impl::sample(vk::Recorder& recorder, bool greedy) const {
    OpContext context{recorder, engine.device.caps()};
    const uint32_t vocab = engine.model->architecture.logits();
    const SampleArgs args{.logits = {workspace.logits.view(0, 4ull * vocab), 1, vocab, vocab, 0},
                          .sampler = sampler.view(),
                          .scratch = sample_scratch.view(),
                          .step = workspace.step.view(),
                          .results = results.view(),
                          .result_slots = result_slots,
                          .from_slot = 0,
                          .to_slot = 0,
                          .greedy = greedy};
    record_sample(context, args, sample_variants(context.caps).front());
}

void Session::Impl::record_decode(bool greedy) {
    reserve_partials(1);
    vk::Recorder recorder(engine.device, engine.pipelines, engine.recorder_options(true));
    const Batch work = batch(1, 1);
    decode_layer_dispatches = 0;
    for (size_t i = 0; i < engine.plan.kernels.size(); ++i) {
        const uint32_t before = recorder.stats().dispatches;
        work.record(recorder, i);
        if (engine.plan.kernels[i].layer >= 0)
            decode_layer_dispatches += recorder.stats().dispatches - before;
    }
    sample(recorder, greedy);
    recorder.make_host_visible();
    decode = recorder.finish();
    decode_recorded = greedy;
}

vk::Device::Ticket Session::Impl::submit_decode(bool greedy) {
    if (decode_recorded != greedy || !engine.options.replay) record_decode(greedy);
    const double start = thread_cpu_us();
    const vk::Device::Ticket ticket = submit(decode);
    submit_us.push_back(thread_cpu_us() - start);
    return ticket;
}

GenerateResult Session::generate(const GenerateOptions& options) {
    Impl& s = *impl_;
    s.needs_decoder("generate");
    if (s.tokens.empty())
        fail(Status::bad_argument, "generate", "expected at least one token appended before, got none");
    if (s.tokens.size() >= s.engine.memory.context) return {{}, StopReason::context_full, 0};
    if (s.workspace.ropes.empty()) {
        s.compute_pending(options.cancel);
        return Generation(s, options).run();
    }
    // Rotations that depend on the length: runs of tokens between their changes.
    GenerateResult all;
    GenerateOptions part = options;
    do {
        s.compute_pending(options.cancel);
        const uint32_t left = options.max_tokens ? options.max_tokens - uint32_t(all.tokens.size()) : 0;
        part.max_tokens = s.tokens_before_change(left);
        const GenerateResult run = Generation(s, part).run();
        all.tokens.insert(all.tokens.end(), run.tokens.begin(), run.tokens.end());
        all.reason = run.reason;
        all.seconds += run.seconds;
    } while (all.reason == StopReason::token_limit &&
             (options.max_tokens == 0 || all.tokens.size() < options.max_tokens));
    return all;
}

}  // namespace scoria
