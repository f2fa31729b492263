// The engine: opens the device, refuses what cannot fit, uploads.
#include "engine.h"

#include "fail.h"
#include "log.h"
#include "ops/kv_layout.h"
#include "self_test.h"
#include "session_impl.h"
#include "verdicts.h"

#include <algorithm>

namespace scoria {
namespace {

/// Before anything was measured, a slow device of its kind: 100 G multiply-adds a second for hardware, a
/// tenth of one for a CPU driver (SwiftShader does 0.2, lavapipe 7 on two idle cores).
Pacer pacer_for(const EngineOptions& options, const vk::Caps& caps) {
    const double budget_ms = options.submission_budget_ms > 0 ? options.submission_budget_ms
                             : caps.is_cpu()                  ? 1000
                                                              : 50;
    return Pacer(budget_ms / 1000, caps.is_cpu() ? 1e-8 : 1e-11);
}

std::string size_text(uint64_t bytes) {
    return bytes >> 20 < 10 ? cat(bytes >> 10, " KiB") : cat(bytes >> 20, " MiB");
}

}  // namespace

Engine::Impl::Impl(std::shared_ptr<const Model> model_, const EngineOptions& options_)
    : model(std::move(model_)), options(options_), device(options.device), pipelines(device),
      graph(build_graph(model->architecture)),
      plan(make_plan(graph, model->architecture, model->weights, options.fusion)),
      pacer(pacer_for(options, device.caps())) {
    if (model->architecture.memory.segment && kv_quantised(kv_type()))
        fail(Status::unsupported, "kv", "expected f32, f16 or bf16 for a compressed memory, got ",
             kv_type_names[size_t(kv_type())]);
    choices.precision = options.precision;
    choices.pinned = options.deterministic;
    choices.quarantined = VerdictBook(options.device.cache_folder, device.caps())
                              .left_out(!self_test_wanted(options, device.caps()));
    plan_memory();
    if (!choices.quarantined.empty()) uses();  // its error names the op that has no variant left
    if (options.variants.empty()) return;
    choices.forced = forced_variants(options.variants, uses(), device.caps().name);
    plan_memory();  // which holds what linears keep for themselves
}

std::vector<VariantUse> Engine::Impl::uses() const {
    return variant_uses(plan, graph, model->architecture, device.caps(), choices,
                        {layout, std::max(memory.context, memory.source), kv_type()});
}

vk::RecorderOptions Engine::Impl::recorder_options(bool simultaneous_use) const {
    return {.simultaneous_use = simultaneous_use,
            .timestamps = options.profile,
            .shuffle_seed = options.shuffle_seed,
            .omit_barriers = options.omit_barriers};
}

KvType Engine::Impl::kv_type() const {
    return options.kv.value_or(options.precision == Precision::strict ? KvType::f32 : KvType::f16);
}

bool Engine::Impl::knows_global_tokens() const {
    const Architecture& a = model->architecture;
    return (a.encoder.empty() ? a : a.encoder[0]).layers[0].attention.global_tokens;
}

Engine::Engine(std::shared_ptr<const Model> model, const EngineOptions& options)
    : impl_(std::make_unique<Impl>(std::move(model), options)) {
    impl_->self_test();
    const MemoryPlan& memory = impl_->memory;
    if (!memory.fits())
        fail(Status::out_of_device_memory, "memory", "expected at most ", size_text(memory.heap_budget),
             impl_->options.memory_budget ? " (the least of what was set and the driver offers)"
                                          : " (what the driver offers)",
             " and ", size_text(memory.host_budget), " of host memory, got a plan of ",
             size_text(memory.device_total()), ": weights ", size_text(memory.weights), ", KV cache ",
             size_text(memory.kv), " for ", memory.context, " positions, scratch ", size_text(memory.scratch),
             "; and on the host weights ", size_text(memory.host_weights), ", staging ",
             size_text(memory.staging));
    if (memory.host_weights)
        log(cat(size_text(memory.host_weights), " of ", size_text(memory.host_weights + memory.weights),
                " of weights have no room in ", size_text(memory.heap_budget), " of device memory beside ",
                size_text(memory.kv + memory.scratch),
                " of cache and scratch: they stay in host memory, and every step waits for the bus"));
    impl_->upload(options.progress);
}

void Engine::Impl::upload(const std::function<void(uint64_t done, uint64_t total)>& progress) {
    weights.emplace(device, pipelines, *model, graph, plan, places, memory.context, progress);
}

void Engine::Impl::recover(uint64_t seen) {
    const std::unique_lock lock(in_use);
    if (generation != seen) return;
    log(cat("the device ", device.caps().name, " was lost; building all anew on it"));
    {
        const std::lock_guard guard(sessions_mutex);
        for (Session::Impl* session : sessions) session->release();
    }
    weights.reset();
    device.reopen([&] { pipelines.close(); });
    pipelines.open();
    upload({});
    ++generation;
}

Engine::~Engine() {
    if (impl_) impl_->pipelines.save_cache();
}

const Model& Engine::model() const { return *impl_->model; }
const EngineOptions& Engine::options() const { return impl_->options; }
const MemoryPlan& Engine::memory_plan() const { return impl_->memory; }
vk::Device& Engine::device() { return impl_->device; }
vk::Pipelines& Engine::pipelines() { return impl_->pipelines; }

std::shared_ptr<const grammar::TokenTrie> Engine::Impl::token_trie() {
    std::call_once(trie_made_, [&] {
        std::vector<std::string> pieces(model->architecture.logits());
        const uint32_t known = std::min(model->tokenizer->size(), model->architecture.logits());
        for (uint32_t id = 0; id < known; ++id) pieces[id] = model->tokenizer->piece(TokenId(id), false);
        trie_ = std::make_shared<const grammar::TokenTrie>(pieces);
    });
    return trie_;
}

}  // namespace scoria
