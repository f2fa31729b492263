// The engine: opens the device, refuses what cannot fit, uploads.
#include "engine.h"

#include "fail.h"
#include "log.h"
#include "ops/kv_layout.h"
#include "session_impl.h"
#include "verdicts.h"

#include <algorithm>

namespace scoria {
namespace {

/// Before anything was measured, a slow device of its kind: 100 G multiply-adds a second for hardware, a
/// tenth of one for a CPU driver (SwiftShader does 0.2, lavapipe 7 on two idle cores).
double first_guess(const vk::Caps& caps) { return caps.is_cpu() ? 1e-8 : 1e-11; }

/// In seconds.
double submission_budget(double milliseconds, const vk::Caps& caps) {
    return 1e-3 * (milliseconds > 0 ? milliseconds : caps.is_cpu() ? 1000 : 50);
}

std::string size_text(uint64_t bytes) {
    return bytes >> 20 < 10 ? cat(bytes >> 10, " KiB") : cat(bytes >> 20, " MiB");
}

}  // namespace

Engine::Impl::Impl(std::shared_ptr<const Model> model_, const EngineOptions& options_)
    : model(std::move(model_)), options(options_), device(options.device), pipelines(device),
      graph(build_graph(model->architecture)),
      plan(make_plan(graph, model->architecture, model->weights, options.fusion)),
      pacers{
          Pacer(submission_budget(options.submission_budget_ms, device.caps()), first_guess(device.caps())),
          Pacer(submission_budget(options.submission_budget_ms, device.caps()), first_guess(device.caps()))} {
    if (model->architecture.memory.segment && kv_quantised(kv_type()))
        fail(Status::unsupported, "kv", "expected f32, f16 or bf16 for a compressed memory, got ",
             kv_type_names[size_t(kv_type())]);
    if (options.available_memory) options.memory_budget = available_memory();
    choices.precision = options.precision;
    choices.pinned = options.deterministic;
    choices.quarantined = VerdictBook(options.device.cache_folder, device.caps()).verdicts().failed;
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

uint64_t Engine::Impl::available_memory() const {
    return options.available_memory ? std::max<uint64_t>(options.available_memory(), 1) : UINT64_MAX;
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
    evicted = false;
    ++generation;
}

void Engine::Impl::set_submission_budget(double milliseconds) {
    const auto lock = use();  // recover() exchanges the device
    for (Pacer& pacer : pacers) pacer.set_budget(submission_budget(milliseconds, device.caps()));
}

void Engine::Impl::evict() {
    std::unique_lock lock(in_use, std::defer_lock);
    if (computing_on == this || !lock.try_lock())
        fail(Status::busy, "engine", "expected sessions that are at rest, got one that computes");
    if (evicted) return;
    {
        const std::lock_guard guard(sessions_mutex);
        for (Session::Impl* session : sessions) session->release();
    }
    weights.reset();
    evicted = true;
    device.trim();
}

void Engine::Impl::restore(const std::function<void(uint64_t done, uint64_t total)>& progress) {
    const std::unique_lock lock(in_use);
    if (!evicted) return;
    if (const uint64_t available = available_memory(); memory.device_total() > available)
        fail(Status::out_of_device_memory, "memory", "expected at least ", size_text(memory.device_total()),
             " to restore the engine, got ", size_text(available), " from the host");
    upload(progress);
    evicted = false;
}

Engine::~Engine() {
    if (impl_) impl_->pipelines.save_cache();
}

const Model& Engine::model() const { return *impl_->model; }
const EngineOptions& Engine::options() const { return impl_->options; }
const MemoryPlan& Engine::memory_plan() const { return impl_->memory; }
vk::Device& Engine::device() { return impl_->device; }
vk::Pipelines& Engine::pipelines() { return impl_->pipelines; }
void Engine::set_submission_budget(double milliseconds) { impl_->set_submission_budget(milliseconds); }
void Engine::evict() { impl_->evict(); }
void Engine::restore(const std::function<void(uint64_t done, uint64_t total)>& progress) {
    if (computing_on != impl_.get()) impl_->restore(progress);  // inside its own work it is there
}

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
