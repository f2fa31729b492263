// See batcher.h. Who is in a pass, batcher_choose.cpp says.
#include "batcher_impl.h"

#include "fail.h"
#include "sampler.h"
#include "step.h"

#include <algorithm>

namespace scoria {

void Batcher::Impl::release() noexcept {
    release_workspace();
    on_device = false;
    update = {};
    samplers = {};
    sample_scratch = {};
    results = {};
    top = {};
}

void Batcher::Impl::ready() {
    if (on_device) return;
    release();  // what a failed attempt left
    for (Member& m : members) {
        if (m.slot) m.s.cache.current(KvShare::Copy::batcher) = 0;
        m.sampler_written = false;
    }
    const uint32_t vocab = engine.model->architecture.logits(), sequences = engine.options.sequences;
    const uint64_t most = engine.device.caps().max_binding / sample_scratch_bytes(vocab);
    rows = uint32_t(
        std::clamp<uint64_t>(most, 1, std::min({engine.layout.outputs, engine.layout.tokens, sequences})));
    StepLayout layout = engine.layout.of(sequences);
    layout.outputs = rows;
    take_workspace(layout);
    reserve_logits(rows);
    samplers = device_buffer(4ull * sampler_words(vocab) * sequences);
    sample_scratch = device_buffer(sample_scratch_bytes(vocab) * rows);
    results = vk::Buffer(engine.device, 8ull * rows, vk::MemoryUse::readback);
    on_device = true;
}

/// Writes the step buffer and what the samplers are told.
void Batcher::Impl::write(vk::Recorder& recorder, const Pieces& pieces) {
    const StepLayout& layout = workspace.layout;
    std::vector<uint32_t> words(STEP_TOKENS), outputs, table_of_pieces, piece_of;
    for (const auto& [member, count, samples] : pieces) {
        Member& m = *member;
        const uint32_t table = layout.table_word() + *m.slot * engine.layout.blocks;
        const uint32_t first_token = uint32_t(words.size() - STEP_TOKENS) / STEP_TOKEN_WORDS;
        piece_of.insert(piece_of.end(), count, uint32_t(table_of_pieces.size() / PIECE_WORDS));
        table_of_pieces.insert(table_of_pieces.end(),
                               {first_token, count, m.s.cache.place(), m.s.states.shift(m.s.computed)});
        for (uint32_t t = m.s.computed; t < m.s.computed + count; ++t)
            words.insert(words.end(), {uint32_t(m.s.tokens[t]), t, table, *m.slot});
        size_t& current = m.s.cache.current(KvShare::Copy::batcher);
        const std::span<const uint32_t> entries = m.s.cache.table();
        write_words(recorder, workspace.step, table + uint32_t(current), entries.subspan(current));
        current = entries.size();
        if (!samples) continue;
        outputs.push_back(uint32_t(words.size() - STEP_TOKENS) / STEP_TOKEN_WORDS - 1);
        const auto tell = [&](uint32_t word, std::span<const uint32_t> values) {
            const uint32_t first = *m.slot * sampler_words(engine.model->architecture.logits());
            write_words(recorder, samplers, first + word, values);
        };
        if (!m.sampler_written) tell(0, m.answer.sampler());
        m.sampler_written = true;
        m.answer.guide(tell);
    }
    words[STEP_TOKEN_COUNT] = uint32_t(words.size() - STEP_TOKENS) / STEP_TOKEN_WORDS;
    words[STEP_OUTPUT_COUNT] = uint32_t(outputs.size());
    write_words(recorder, workspace.step, 0, words);
    write_words(recorder, workspace.step, layout.outputs_word(), outputs);
    if (!layout.pieces) return;
    if (layout.pieces > 1) table_of_pieces.insert(table_of_pieces.end(), piece_of.begin(), piece_of.end());
    write_words(recorder, workspace.step, layout.pieces_word(), table_of_pieces);
}

void Batcher::Impl::sample(vk::Recorder& recorder, const SampleKind& kind, uint32_t count) {
    OpContext context{recorder, engine.device.caps()};
    const uint32_t vocab = engine.model->architecture.logits(), listed = workspace.layout.outputs_word();
    const Matrix logits{workspace.logits.view(0, 4ull * count * vocab), count, vocab, vocab, 0};
    const KernelVariant variant = engine.choices.simple(context.caps, SimpleOp::sample);
    record_sample(context,
                  {.logits = logits,
                   .sampler = samplers.view(),
                   .scratch = sample_scratch.view(),
                   .step = workspace.step.view(),
                   .results = results.view(),
                   .result_slots = rows,
                   .from_slot = 0,
                   .to_slot = 0,
                   .greedy = kind.greedy,
                   .outputs_word = listed},
                  variant);
    if (kind.logprobs)
        record_sample_top(context,
                          {.logits = logits,
                           .step = workspace.step.view(),
                           .top = top.view(),
                           .result_slots = rows,
                           .slot = 0,
                           .count = *kind.logprobs,
                           .outputs_word = listed},
                          variant);
    recorder.make_host_visible();
}

void Batcher::Impl::pass(const Pieces& pieces) {
    SampleKind kind{.greedy = true};
    uint32_t tokens = 0, outputs = 0, longest = 0;
    for (const Piece& piece : pieces) {
        tokens += piece.count;
        longest = std::max(longest, piece.member->s.computed + piece.count);
        if (!piece.samples) continue;
        ++outputs;
        const SampleKind& wanted = piece.member->answer.kind();
        kind.greedy = kind.greedy && wanted.greedy;
        if (wanted.logprobs) kind.logprobs = std::max(kind.logprobs.value_or(0), *wanted.logprobs);
    }
    if (kind.logprobs && !top)
        top = vk::Buffer(engine.device, 4ull * SAMPLE_TOP_WORDS * rows, vk::MemoryUse::readback);
    const std::shared_ptr<KvCache>& cache = pieces.front().member->s.cache.cache();
    constexpr size_t most_recorded = 2 * max_outputs;
    if (recorded_for.lock() != cache || steps.size() > most_recorded) forget_recorded();
    recorded_for = cache;
    on_device = false;  // until it is over: what a failed one leaves on its way is waited for, and made anew

    for (const Piece& piece : pieces) piece.member->s.advance_states(piece.member->s.computed, piece.count);
    reserve_scratch(tokens, outputs);
    Batch work(*engine.weights, *cache, workspace, tokens, outputs, {{}, uint32_t(pieces.size())});
    if (tokens == outputs) {
        vk::Recorder recorder(engine.device, engine.pipelines, engine.recorder_options());
        write(recorder, pieces);
        update = recorder.finish();
        submit(update);
        Step& step = steps[{outputs, kind}];
        if (!stands(step, tokens))
            record_step(step, work, longest,
                        {.behind = [&](vk::Recorder& behind) { sample(behind, kind, outputs); }});
        land_until(submit_step(step, tokens));
    } else {
        work.fold_step();
        compute(work, engine.plan.encoder_kernels, outputs ? engine.plan.kernels.size() : body_kernels(),
                longest,
                {.before = [&](vk::Recorder& recorder) { write(recorder, pieces); },
                 .behind =
                     [&](vk::Recorder& recorder) {
                         if (outputs) sample(recorder, kind, outputs);
                     }});
    }
    const auto words_of = [](const vk::Buffer& buffer, size_t count) {
        const auto* words = reinterpret_cast<const uint32_t*>(buffer.mapped().data());
        return std::vector<uint32_t>(words, words + count);
    };
    if (outputs) sampled = words_of(results, 2 * size_t{outputs});
    if (outputs && kind.logprobs) likeliest = words_of(top, size_t{SAMPLE_TOP_WORDS} * outputs);
    for (const Piece& piece : pieces) {  // nothing fails from here on, so that no sampled token is lost
        piece.member->s.computed += piece.count;
        piece.member->s.logits_ready = false;
    }
    on_device = true;
}

/// Gives each answer the token that the pass has sampled for it.
void Batcher::Impl::take(const Pieces& pieces) {
    size_t row = 0;
    for (const auto& [member, count, samples] : pieces) {
        if (!samples) continue;
        Member& m = *member;
        if (!m.begun) m.begun = std::chrono::steady_clock::now();
        const auto row_of = [&](const std::vector<uint32_t>& all, size_t words) {
            return std::span(all).subspan(words * row, words);
        };
        try {
            m.ended = !m.answer.take(row_of(sampled, 2), m.answer.kind().logprobs
                                                             ? row_of(likeliest, SAMPLE_TOP_WORDS)
                                                             : std::span<const uint32_t>());
        } catch (...) {
            m.error = std::current_exception();
            m.ended = true;
        }
        ++row;
    }
}

/// What later passes begin with sooner; nothing of what was lost with its device.
void Batcher::Impl::keep(const Pieces& pieces) {
    for (const Piece& piece : pieces) {
        Session::Impl& s = piece.member->s;
        if (!s.cache) continue;
        s.keep_wanted_states();
        s.share_prefix();
    }
}

void Batcher::Impl::answer_alone(Member& m) {
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - m.added;
    try {
        if (engine.options.sequences > 1) make_room_alone(m);
        m.answer.result() = m.s.generate(m.options);
    } catch (...) {
        m.error = std::current_exception();
    }
    m.answer.result().waited = waited.count();
    m.ended = true;
}

void Batcher::Impl::finish_ended() {
    for (auto at = members.begin(); at != members.end();) {
        const auto here = at++;
        if (!here->ended) continue;
        std::list<Member> gone;
        gone.splice(gone.end(), members, here);
        Member& m = gone.front();
        if (m.error && m.s.tokens.size() == m.prompt) {
            const auto lock = engine.use();
            m.s.tokens.resize(std::max(m.kept, size_t(m.s.computed)));
        }
        if (m.begun)
            m.answer.result().seconds =
                std::chrono::duration<double>(std::chrono::steady_clock::now() - *m.begun).count();
        GenerateResult result;
        try {
            result = m.answer.finish();
        } catch (...) {
            if (!m.error) m.error = std::current_exception();
        }
        if (m.done) m.done(std::move(result), m.error);
    }
}

Batcher::Batcher(Engine& engine) : impl_(make_tenant<Impl>(engine.impl())) {}
Batcher::Batcher(Batcher&& other) noexcept = default;
Batcher::~Batcher() = default;

size_t Batcher::size() const { return impl_->members.size(); }

void Batcher::add(Session& session, std::span<const TokenId> ids, GenerateOptions options, Done done) {
    Session::Impl& s = session.impl();
    if (&s.engine != &impl_->engine)
        fail(Status::bad_argument, "batch", "expected a session of the batcher's engine, got one of another");
    if (std::ranges::any_of(impl_->members, [&](const Impl::Member& m) { return &m.s == &s; }))
        fail(Status::bad_argument, "batch", "expected a session that is not in the batch, got one that is");
    s.needs_decoder("batch");
    s.check_ids(ids);
    if (s.tokens.empty() && ids.empty())
        fail(Status::bad_argument, "batch", "expected at least one token, got none");
    std::list<Impl::Member> added;
    Impl::Member& m = added.emplace_back(s, std::move(options), std::move(done));
    (void)m.answer.sampler();          // its options are checked
    const auto lock = s.engine.use();  // evict() changes what is computed
    s.tokens.insert(s.tokens.end(), ids.begin(), ids.end());
    m.prompt = s.tokens.size();
    if (s.computed == s.tokens.size()) --s.computed;
    if (impl_->together) {
        s.forget_overwritten();
        s.choose_keep();
    }
    if (s.tokens.size() >= s.engine.memory.context) {
        m.answer.end(StopReason::context_full);
        m.ended = true;
    }
    impl_->members.splice(impl_->members.end(), added);
}

bool Batcher::step() {
    Impl& b = *impl_;
    if (b.stepping)
        fail(Status::busy, "batch", "expected a call from outside of its callbacks, got one from inside");
    struct Stepping {
        bool& is;
        explicit Stepping(bool& flag) : is(flag) { is = true; }
        ~Stepping() { is = false; }
    } const stepping(b.stepping);
    for (Impl::Member& m : b.members)
        if (m.options.cancel && *m.options.cancel && !m.ended) {
            m.answer.end(StopReason::cancelled);
            m.ended = true;
        }
    b.finish_ended();
    const auto alone =
        std::ranges::find_if(b.members, [&](const Impl::Member& m) { return b.takes_turns(m); });
    if (alone != b.members.end()) b.answer_alone(*alone);
    if (!std::ranges::all_of(b.members, [&](const Impl::Member& m) { return b.takes_turns(m); })) {
        Impl::Pieces pieces;
        b.engine.survive([&] {
            b.ready();
            b.take_slots();
            pieces = b.choose();
            b.leave_out_failed(pieces);
            if (!pieces.empty()) b.pass(pieces);
        });
        std::exception_ptr failure;  // of which the sampled tokens are none
        try {
            b.engine.survive([&] { b.keep(pieces); });
        } catch (...) {
            failure = std::current_exception();
        }
        b.take(pieces);
        if (failure) std::rethrow_exception(failure);
    }
    b.finish_ended();
    return !b.members.empty();
}

}  // namespace scoria
