// One conversation on the device: prompts run in chunks whose submissions the pacer cuts. Generation is in
// generate.cpp, forward passes that show all they compute in forward.cpp.
#include "session.h"

#include "fail.h"
#include "ops/rope.h"
#include "session_impl.h"
#include "step.h"

#include <algorithm>

namespace scoria {

Session::Impl::Impl(Engine::Impl& owner)
    : Tenant(owner), recurrent(owner.model->architecture.recurrent()),
      front(owner.front ? std::make_unique<Impl>(*owner.front) : nullptr) {}

void Session::Impl::ready() {
    if (!on_device) take_memory();
    if (source == 0 && !source_ids.empty()) run_encoder();
}

void Session::Impl::take_memory() {
    release_buffers();  // what a failed attempt left
    if (front) front->ready();
    take_cache();
    take_workspace(engine.layout, cache.table());
    cache.current(KvShare::Copy::session) = cache.table().size();
    const std::vector<Rope>& ropes = engine.model->architecture.ropes;
    if (by_length(ropes))
        for (const Rope& rope : ropes)
            workspace.ropes.push_back(device_buffer(4 * rope_table_floats(rope, engine.memory.context)));
    upload_rotations();
    const auto bytes = [&](TensorId tensor) {
        return batch(workspace.layout.tokens, 0).matrix(tensor).view.size;
    };
    if (engine.stream_in)
        incoming = vk::Buffer(engine.device, bytes(*engine.stream_in), vk::MemoryUse::staging);
    if (const uint64_t out = engine.stream_out ? bytes(*engine.stream_out) : shown_places().back())
        outgoing = vk::Buffer(engine.device, out, vk::MemoryUse::readback);
    if (!engine.stream_out) {
        const uint32_t logits = engine.model->architecture.logits();
        workspace.logits = shared_buffer(4ull * logits);
        sampler = device_buffer(4ull * sampler_words(logits));
        sample_scratch = device_buffer(sample_scratch_bytes(logits));
        results = vk::Buffer(engine.device, 8ull * result_slots, vk::MemoryUse::readback);
    }
    if (watched) map = shared_buffer(map_bytes(*watched));
    on_device = true;
}

void Session::Impl::release_buffers() noexcept {
    release_workspace();
    incoming = {};
    outgoing = {};
    step_update = {};
    on_device = false;
    sampler = {};
    sample_scratch = {};
    results = {};
    top = {};
    map = {};
    logits_ready = false;
}

void Session::Impl::release() noexcept {
    release_buffers();
    if (front) front->release();
    cache = {};
    states.forget();
    computed = written = source = segment = 0;
}

void Session::Impl::write_step(vk::Recorder& recorder, std::span<const TokenId> ids, uint32_t position,
                               const Rows& outputs, std::span<const uint32_t> types) const {
    std::vector<uint32_t> words(STEP_TOKENS + ids.size() * STEP_TOKEN_WORDS, 0);
    words[STEP_TOKEN_COUNT] = uint32_t(ids.size());
    words[STEP_OUTPUT_COUNT] = uint32_t(outputs.size());
    words[STEP_PREFIX] = prefix;
    words[STEP_SOURCE] = source;
    if (const CompressedMemory& memory = engine.model->architecture.memory; memory.segment)
        words[STEP_LOW] = compressed_window(memory, position / memory.segment).low;
    for (size_t t = 0; t < ids.size(); ++t) {
        uint32_t* token = &words[STEP_TOKENS + t * STEP_TOKEN_WORDS];
        token[STEP_TOKEN_ID] = uint32_t(ids[t]);
        token[STEP_TOKEN_POSITION] = position + uint32_t(t);
        token[STEP_TOKEN_TABLE] = workspace.layout.table_word();
        if (types.empty()) continue;
        token[STEP_TOKEN_TYPE] = types[t];
        if (types[t] & STEP_TOKEN_GLOBAL) words[STEP_GLOBALS] = uint32_t(t) + 1;
    }
    write_words(recorder, workspace.step, 0, words);
    if (workspace.layout.pieces)  // of several devices, where this one's layers recur
        write_words(recorder, workspace.step, workspace.layout.pieces_word(),
                    std::array{0u, uint32_t(ids.size()), 0u, states.shift(position)});
    if (!outputs.empty()) write_words(recorder, workspace.step, workspace.layout.outputs_word(), outputs);
}

/// Runs one batch: `ids` from `position` on, logits of the rows `outputs`, in slices that the pacer cuts.
void Session::Impl::run_chunk(std::span<const TokenId> ids, uint32_t position, const Rows& outputs,
                              const Capture& capture, std::span<const uint32_t> types, Stage stage) {
    if (position < prefix && position + ids.size() < prefix)
        fail(Status::bad_argument, "prefix", "expected all its ", prefix, " tokens in one batch, got ",
             ids.size(), " from position ", position, " on");
    if (front) {
        front->prefix = prefix;
        front->run_chunk(ids, position, {}, capture, types);
        hand_over(uint32_t(ids.size()));
    }
    bring_given(position, uint32_t(ids.size()));
    reserve_scratch(uint32_t(ids.size()), uint32_t(outputs.size()));
    enter_segment(position);
    writes(position, ids.size());
    Batch work = batch(uint32_t(ids.size()), uint32_t(outputs.size()));
    if (!capture || stage == Stage::hidden) work.fold_chunk();  // else all tensors are there
    const size_t first = stage == Stage::encoder ? 0 : engine.plan.encoder_kernels;
    const size_t end_of_all = stage == Stage::encoder  ? engine.plan.encoder_kernels
                              : outputs.empty()        ? body_kernels()
                              : stage == Stage::hidden ? hidden_kernels()
                                                       : engine.plan.kernels.size();
    compute(work, first, end_of_all, std::max(source, position + uint32_t(ids.size())),
            {.before =
                 [&](vk::Recorder& recorder) {
                     write_step(recorder, ids, position, outputs, types);
                     receive(recorder, work);
                 },
             .behind = [&](vk::Recorder& recorder) { send(recorder, work); },
             .after =
                 [&](vk::Recorder& recorder, size_t kernel) {
                     if (!outputs.empty()) watch(recorder, work, kernel);
                     show(recorder, work, kernel);
                     if (capture) capture(recorder, work, engine.plan.kernels[kernel]);
                 },
             .host_reads = bool(capture)});
    take_shown(position, uint32_t(ids.size()));
}

void Session::Impl::check_vocabulary(std::span<const TokenId> ids, uint32_t vocab) const {
    for (const TokenId id : ids)
        if (id < 0 || uint32_t(id) >= vocab)
            fail(Status::bad_argument, "tokens", "expected ids from 0 to ", vocab - 1, ", got ", id);
}

void Session::Impl::check_ids(std::span<const TokenId> ids) const {
    check_vocabulary(ids, engine.model->architecture.vocab);
    if (tokens.size() + ids.size() > engine.memory.context)
        fail(Status::context_full, "context", "expected at most ", engine.memory.context - tokens.size(),
             " more tokens in a context of ", engine.memory.context, ", got ", ids.size());
}

uint32_t Session::Impl::tokens_before_change(uint32_t limit) const {
    if (const uint32_t length = engine.model->architecture.memory.segment) {
        // The last token sampled is computed later, so it may be of the next segment.
        const uint32_t last = uint32_t(tokens.size()) - 1, most = length - last % length;
        return limit ? std::min(limit, most) : most;
    }
    if (engine.model->architecture.recomputes()) return 1;
    if (workspace.ropes.empty()) return limit;
    uint32_t count = 1;
    while ((limit == 0 || count < limit) && tokens.size() + count <= engine.memory.context &&
           !rotations_change(tokens.size() + count))
        ++count;
    return count;
}

void Session::Impl::fail_cancelled() const {
    fail(Status::cancelled, "session", "cancelled after ", computed, " tokens");
}

void Session::Impl::compute_pending(const std::atomic<bool>* cancel) {
    set_rotations(tokens.size());
    compute_rest(cancel);
}

void Session::Impl::compute_rest(const std::atomic<bool>* cancel) {
    if (tokens.empty()) return;
    const auto stop_all = [this](const std::atomic<bool>* flag) {
        for (Impl* part = this; part; part = part->front.get()) part->stop = flag;
    };
    const struct Stopping {
        const decltype(stop_all)& all;
        ~Stopping() { all(nullptr); }
    } stopping{stop_all};
    stop_all(cancel);
    if (computed == tokens.size() && !logits_ready) --computed;
    if (engine.model->architecture.recomputes() && computed < tokens.size()) computed = 0;
    forget_overwritten();
    choose_keep();
    for (share_prefix(); computed < tokens.size(); share_prefix()) {
        if (cancel && *cancel) fail_cancelled();
        const uint32_t count =
            tokens_of_batch(computed, std::min<size_t>(workspace.layout.tokens, tokens.size() - computed));
        const bool last = computed + count == tokens.size();
        logits_ready = false;
        run_chunk(std::span(tokens).subspan(computed, count), computed, last ? Rows{count - 1} : Rows{});
        computed += count;
        keep_wanted_states();
        logits_ready = last;
        stepped = false;
    }
}

std::vector<float> Session::Impl::read_floats(const vk::View& view, size_t count) {
    vk::Buffer readback(engine.device, 4 * count, vk::MemoryUse::readback);
    run([&](vk::Recorder& recorder) {
        recorder.copy(view.slice(0, 4 * count), readback.view());
        recorder.make_host_visible();
    });
    const auto* floats = reinterpret_cast<const float*>(readback.mapped().data());
    return {floats, floats + count};
}

Session::Session(Engine& engine) : impl_(make_tenant<Impl>(engine.impl())) {
    // Of sessions that share a cache most are computed by a batcher, in its workspace.
    engine.impl().survive([&] { engine.options().sequences > 1 ? impl_->take_cache() : impl_->ready(); });
}
Session::Session(Session&& other) noexcept = default;
Session::~Session() = default;

void Session::append(std::span<const TokenId> ids, const std::atomic<bool>* cancel) {
    impl_->needs_decoder("append");
    impl_->check_ids(ids);
    const size_t before = impl_->tokens.size();
    bool fits = true;
    const auto compute = [&] {
        impl_->ready();
        impl_->tokens.insert(impl_->tokens.end(), ids.begin(), ids.end());
        try {
            impl_->compute_pending(cancel);
        } catch (const Error& error) {
            const bool lost = error.status() == Status::device_lost;
            fits = error.status() != Status::context_full;
            impl_->tokens.resize(lost ? before : std::max(before, size_t(impl_->computed)));
            throw;
        } catch (...) {
            impl_->tokens.resize(std::max(before, size_t(impl_->computed)));
            throw;
        }
    };
    try {
        impl_->engine.survive(compute);
    } catch (...) {
        if (!fits) truncate(uint32_t(before));  // of a cache that sessions share others may have the rest
        throw;
    }
}

std::vector<float> Session::logits() {
    if (impl_->tokens.empty())
        fail(Status::bad_argument, "logits", "expected at least one appended token, got none");
    return impl_->engine.survive([&] {
        impl_->ready();
        impl_->compute_pending(nullptr);
        return impl_->read_floats(impl_->workspace.logits.view(), impl_->engine.model->architecture.logits());
    });
}

void Session::Impl::needs_decoder(const char* what) const {
    if (engine.model->architecture.bidirectional())
        fail(Status::unsupported, what, "expected a decoder, got an encoder (",
             engine.model->architecture.family, "), which generates nothing");
    if (!engine.model->architecture.has_head)
        fail(Status::unsupported, what, "expected a model with an output head, got one without (",
             engine.model->architecture.family, "), which generates nothing");
    if (engine.plan.encoder_kernels != 0 && source_ids.empty())
        fail(Status::bad_argument, what, "expected a source for the encoder first, got none");
}

std::vector<TokenId> Session::begin(std::span<const TokenId> ids) {
    const Architecture& architecture = impl_->engine.model->architecture;
    if (architecture.encoder.empty()) return {ids.begin(), ids.end()};
    encode(ids);
    return decoder_begin(*impl_->engine.model);
}

void Session::set_prefix(uint32_t length) {
    Impl& s = *impl_;
    const Architecture& architecture = s.engine.model->architecture;
    if (architecture.layers[0].attention.mask != Mask::prefix)
        fail(Status::unsupported, "prefix", "expected a prefix language model, got ", architecture.family);
    if (!s.tokens.empty() || length > s.engine.layout.tokens)
        fail(Status::bad_argument, "prefix", "expected at most ", s.engine.layout.tokens,
             " tokens before any is appended, got ", length, " after ", s.tokens.size());
    s.prefix = length;
}

void Session::evict() {
    const auto lock = impl_->engine.use();
    impl_->release();
}

void Session::restore(const std::atomic<bool>* cancel) {
    impl_->engine.survive([&] {
        impl_->ready();
        const bool decodes = !impl_->engine.model->architecture.bidirectional();
        if (decodes && !impl_->tokens.empty()) impl_->compute_pending(cancel);
    });
}

std::span<const TokenId> Session::tokens() const { return impl_->tokens; }
uint32_t Session::capacity() const { return impl_->engine.memory.context; }
uint32_t Session::head_rows() const { return impl_->forward_chunk(); }

void Session::set_profile(bool on) {
    const auto lock = impl_->engine.use();
    impl_->land_all();
    impl_->profile = on;
    impl_->forget_recorded();
}

StepStats Session::stats() const {
    const Impl& s = *impl_;
    StepStats stats;
    const auto lock = s.engine.use();
    if (!s.engine.weights) return stats;
    stats.pipelines = uint32_t(s.engine.pipelines.created());
    stats.pipeline_seconds = s.engine.pipelines.seconds_compiling();
    for (const Engine::Impl* part : s.engine.parts())
        for (const PlannedKernel& planned : std::span(part->plan.kernels).subspan(part->plan.encoder_kernels))
            if (const auto* linear = std::get_if<kernel::Linear>(&planned.kernel))
                for (const DeviceWeight::Shard& shard : part->weights->weight(linear->weight).shards)
                    stats.weight_bytes_per_token += shard.view.size;
    if (s.profile) stats.prompt_profile = s.computed_times;
    if (!s.decode_recorded) return stats;
    for (const vk::Commands& slice : s.decode.slices) {
        stats.dispatches += slice.stats().dispatches;
        stats.barriers += slice.stats().barriers;
    }
    stats.slices = uint32_t(s.decode.slices.size());
    stats.dispatches_per_layer =
        double(std::ranges::count_if(s.decode.layers, [](int32_t layer) { return layer >= 0; })) /
        double(s.engine.memory.layers.end - s.engine.memory.layers.first);
    if (!s.submit_us.empty()) {
        std::vector<double> sorted(s.submit_us.begin(), s.submit_us.end());
        std::ranges::nth_element(sorted, sorted.begin() + std::ptrdiff_t(sorted.size() / 2));
        stats.submit_cpu_us = sorted[sorted.size() / 2];
    }
    if (s.profile) {
        for (const vk::Commands& slice : s.decode.slices)
            for (const vk::DispatchTime& time : slice.times()) stats.profile.push_back(time);
        stats.profile_layers = s.decode.layers;
    }
    return stats;
}

}  // namespace scoria
