// One conversation on the device: prompts run in chunks whose submissions the pacer cuts. Generation is in
// generate.cpp, forward passes that show all they compute in forward.cpp.
#include "session.h"

#include "fail.h"
#include "ops/compress.h"
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
    if (watched) map = map_of(*watched);
    on_device = true;
}

void Session::Impl::take_cache() {
    if (!cache) cache = engine.share_cache();
}

void Session::Impl::write_table() {
    size_t& current = cache.current(KvShare::Copy::session);
    const std::span<const uint32_t> words = cache.table().subspan(current);
    if (!on_device || words.empty()) return;
    vk::Recorder recorder(engine.device, engine.pipelines);
    write_words(recorder, workspace.step, workspace.layout.table_word() + uint32_t(current), words);
    const vk::Commands commands = recorder.finish();
    run(commands);
    current = cache.table().size();
}

bool Session::Impl::reach(uint32_t first, size_t count) {
    const auto copy = [&](uint32_t from, uint32_t to) {
        vk::Recorder recorder(engine.device, engine.pipelines);
        cache->copy_block(recorder, from, to);
        const vk::Commands commands = recorder.finish();
        run(commands);
    };
    if (!cache.own(first, copy) || !cache.reach(first + count)) return false;
    write_table();
    written = std::max(first == 0 ? 0 : written, first + uint32_t(count));
    return true;
}

void Session::Impl::share_prefix() {
    if (!engine.shares_prefixes(*cache)) return;
    cache.publish(std::span(tokens).first(computed));
    const size_t wanted = tokens.empty() ? 0 : tokens.size() - 1;  // the last one's logits are wanted
    const uint32_t known = computed < wanted ? cache.adopt(std::span(tokens).first(wanted), computed) : 0;
    if (known > computed) {
        reused += known - computed;
        computed = written = known;
        logits_ready = false;
    }
    write_table();
}

void Session::Impl::writes(uint32_t first, size_t count) {
    if (!reach(first, count))
        fail(Status::context_full, "cache", "expected room for ", first + count,
             " positions in the cache that sessions share, got ", cache->free_blocks(), " free blocks of ",
             kv_block_tokens, " beside ", cache.table().size());
    advance_states(first, count);
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

uint32_t Session::Impl::tokens_of_batch(uint32_t position, size_t limit) const {
    const uint32_t length = engine.model->architecture.memory.segment;
    if (length) limit = std::min<size_t>(limit, length - position % length);
    for (const uint32_t at : {keep_at, share_at})
        if (at > position) limit = std::min<size_t>(limit, at - position);
    return uint32_t(limit);
}

namespace {

// What templates put behind a message, as "<|im_start|>assistant\n<think>\n", is other once the answer is a
// part of the conversation, and then its thoughts are gone. So it is there that chats are taken up again. Of
// sequences that begin alike as many tokens less, since the next one may share fewer.
constexpr uint32_t behind = 16, apart = 64;

}  // namespace

void Session::Impl::choose_keep() {
    keep_at = 0;
    const uint32_t length = uint32_t(tokens.size()), at = length - std::min(length, behind);
    const uint32_t before = std::max(states.longest_kept(computed), share_at <= at ? share_at : 0);
    if (recurrent && at > computed && at - before >= apart) keep_at = at;
}

void Session::Impl::copy_states(const StateSlots::Copy& copy) {
    vk::Recorder recorder(engine.device, engine.pipelines);
    cache->copy_states(recorder, cache.place(), copy.from, copy.to);
    const vk::Commands commands = recorder.finish();
    states.copies(copy);
    run(commands);
    states.copied(copy);
}

void Session::Impl::keep_states() {
    if (!recurrent || computed == 0) return;
    const bool shared = computed == share_at;
    for (Impl* part = this; part; part = part->front.get()) part->copy_states(part->states.to_keep(shared));
    (shared ? share_at : keep_at) = 0;
}

void Session::Impl::advance_states(uint32_t first, size_t count) {
    if (!recurrent) return;
    if (const auto copy = states.to_go_on(first)) copy_states(*copy);
    states.advance(first, uint32_t(count));
}

void Session::Impl::enter_segment(uint32_t position) {
    const CompressedMemory& memory = engine.model->architecture.memory;
    if (memory.segment == 0 || position / memory.segment == segment) return;
    const uint32_t next = position / memory.segment;
    vk::Recorder recorder(engine.device, engine.pipelines, engine.recorder_options());
    OpContext context{recorder, recorder.device().caps()};
    for (uint32_t layer = 0; layer < engine.model->architecture.layers.size(); ++layer)
        record_compress(
            context,
            {workspace.step.view(), workspace.layout.table_word(), &cache->layer(layer),
             compressed_window(memory, segment), compressed_window(memory, next), memory.rate},
            engine.choices.simple(context.caps, SimpleOp::compress, kv_type_names[size_t(engine.kv_type())]));
    const vk::Commands commands = recorder.finish();
    run(commands);
    segment = next;
}

void Session::Impl::forget_overwritten() {
    const uint32_t length = engine.model->architecture.memory.segment;
    const bool averaged = length != 0 && segment > computed / length;
    if (!averaged && (!cache || holds(computed, written))) return;
    segment = 0;
    const uint32_t stands = averaged ? 0 : states.longest(computed);
    computed = stands != 0 && holds(stands, written) ? stands : 0;
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
    reserve_scratch(uint32_t(ids.size()));
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
    struct Stopping {
        const std::atomic<bool>*& stop;
        ~Stopping() { stop = nullptr; }
    } const stopping{stop};
    stop = cancel;
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
    vk::Recorder recorder(engine.device, engine.pipelines);
    recorder.copy(view.slice(0, 4 * count), readback.view());
    recorder.make_host_visible();
    const vk::Commands commands = recorder.finish();
    run(commands);
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
    return {TokenId(architecture.decoder_start)};
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

void Session::truncate(uint32_t length) {
    Impl& s = *impl_;
    if (length >= s.tokens.size()) return;
    const auto lock = s.engine.use();  // evict() changes what rewind() does
    s.tokens.resize(length);
    s.rewind(length);
    for (Impl* part = &s; part; part = part->front.get())
        if (part->cache && part->cache->sequences() > 1) part->cache.shrink(std::max(length, s.source));
}

void Session::Impl::rewind(uint32_t length) {
    // Tokens of a prefix have seen those behind them, which may be others now.
    computed = length < prefix ? 0 : std::min(computed, length);
    given.cut(length);
    shown.cut(length);
    const uint32_t wanted = computed;
    forget_overwritten();
    share_at = recurrent && wanted - computed >= apart + behind ? wanted - behind : 0;
    logits_ready = false;
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

SharedView Session::share(SharedKind kind) {
    Impl& s = *impl_;
    s.needs_decoder("share");
    if (s.tokens.empty())
        fail(Status::bad_argument, "share", "expected at least one appended token, got none");
    if (kind == SharedKind::attention && !s.watched)
        fail(Status::bad_argument, "share", "expected a layer whose attention is watched, got none");
    return s.engine.survive([&] {
        s.ready();
        if (kind == SharedKind::hidden && s.stepped) s.logits_ready = false;
        s.compute_pending(nullptr);
        if (kind == SharedKind::attention) return s.shared_map();
        const Matrix row = s.batch(1, 1).matrix(kind == SharedKind::logits ? s.engine.graph.logits
                                                                           : s.engine.graph.last_hidden);
        const bool logits = row.view.buffer == s.workspace.logits.view().buffer;
        return SharedView{row.view.slice(4ull * row.first, 4ull * row.cols), 1, row.cols,
                          s.engine.device.point(s.last_submitted),
                          (logits ? s.workspace.logits : s.workspace.arena).exportable()};
    });
}

vk::Buffer Session::Impl::map_of(size_t kernel) const {
    const auto& k = std::get<kernel::Attention>(engine.plan.kernels[kernel].kernel);
    return shared_buffer(4ull * k.shape.heads * engine.memory.context);
}

SharedView Session::Impl::shared_map() const {
    const auto& k = std::get<kernel::Attention>(engine.plan.kernels[*watched].kernel);
    const uint32_t heads = k.shape.heads, positions = uint32_t(tokens.size());
    return {map.view(0, 4ull * heads * positions), heads, positions, engine.device.point(last_submitted),
            map.exportable()};
}

void Session::watch(std::optional<uint32_t> layer) {
    Impl& s = *impl_;
    s.needs_decoder("watch");
    const size_t layers = s.engine.model->architecture.layers.size();
    if (layer && *layer >= layers)
        fail(Status::bad_argument, "watch", "expected a layer below ", layers, ", got ", *layer);
    const auto& kernels = s.engine.plan.kernels;
    const auto seen = [&](const PlannedKernel& planned) {
        const auto* attention = std::get_if<kernel::Attention>(&planned.kernel);
        return attention && planned.layer == int32_t(*layer) && attention->shape.mask != Mask::source;
    };
    const auto found = !layer ? kernels.end()
                              : std::find_if(kernels.begin() + std::ptrdiff_t(s.engine.plan.encoder_kernels),
                                             kernels.end(), seen);
    if (layer && found == kernels.end())
        fail(Status::unsupported, "watch", "expected a layer whose attention is a matrix of queries and keys",
             " on this device, got layer ", *layer, " of ", s.engine.model->architecture.family);
    const auto kernel = size_t(found - kernels.begin());
    s.engine.survive([&] {
        s.ready();
        s.land_all();  // a failed call's
        s.forget_recorded();
        s.logits_ready = false;  // the last token's map is yet to be computed
        s.map = {};
        s.watched.reset();
        if (!layer) return;
        s.map = s.map_of(kernel);
        s.watched = kernel;
    });
}

void Session::wait_for(const vk::Device::TimelinePoint& point) { impl_->host_point = point; }

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
