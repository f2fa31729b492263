// The engine: opens the device, plans, refuses what cannot fit, uploads.
#include "engine.h"

#include "fail.h"
#include "kv_cache.h"
#include "log.h"
#include "ops/sample.h"
#include "session_impl.h"

#include <algorithm>

namespace scoria {
namespace {

constexpr uint32_t default_context = 8192, default_chunk = 512;
constexpr uint32_t default_source = 2048;  // an encoder takes all of its tokens at once

/// Placement of the arena without the logits, which have a buffer of their own.
Arena place_arena(const Graph& graph, const Plan& plan, uint32_t tokens, uint32_t outputs,
                  const vk::Caps& caps) {
    std::vector<Storage> storages = plan.storages;
    storages[plan.placements[graph.logits.index].storage].cols = 0;
    return place(storages, tokens, outputs, caps.storage_alignment);
}

/// The heap that weights go to. Drivers report nonsense at times: a budget of 0 or above the heap's size
/// counts as the size.
vk::HeapState main_heap(const vk::Device& device) {
    vk::HeapState best{};
    for (const vk::HeapState& heap : device.heaps()) {
        const bool better =
            heap.device_local != best.device_local ? heap.device_local : heap.size > best.size;
        if (best.size == 0 || better) best = heap;
    }
    if (best.budget == 0 || best.budget > best.size) best.budget = best.size;
    return best;
}

struct Planned {
    StepLayout layout;
    Arena placement;
    MemoryPlan memory;
};

Planned plan_for(const Model& model, const Graph& graph, const Plan& plan, const vk::Device& device,
                 const EngineOptions& options, KvType kv) {
    const Architecture& architecture = model.architecture;
    const vk::Caps& caps = device.caps();
    if (options.context > architecture.context)
        fail(Status::bad_argument, "context", "expected at most ", architecture.context,
             " positions, which the model was trained for, got ", options.context);
    const uint32_t table = architecture.positions;
    if (table && options.context > table)
        fail(Status::bad_argument, "context", "expected at most ", table,
             " positions, which the model's position table holds, got ", options.context);
    vk::HeapState heap = main_heap(device);
    if (options.memory_budget) heap.budget = std::min(heap.budget, options.memory_budget);

    Planned planned;
    MemoryPlan& memory = planned.memory;
    memory.heap_size = heap.size;
    memory.heap_budget = heap.budget;
    const bool encodes = !architecture.encoder.empty();
    const uint32_t wanted = options.context ? options.context : encodes ? default_source : default_context;
    memory.context = std::min(architecture.context, wanted);
    if (table) memory.context = std::min(memory.context, table);
    if (encodes) memory.source = std::min(architecture.encoder[0].context, wanted);
    const bool whole = architecture.sees_ahead() && !encodes;  // sequences cannot be cut
    planned.layout.tokens =
        whole     ? memory.context
        : encodes ? memory.source
                  : std::min(options.prompt_chunk ? options.prompt_chunk : default_chunk, memory.context);
    const auto place_it = [&] {
        return place_arena(graph, plan, planned.layout.tokens, whole ? planned.layout.tokens : max_outputs,
                           caps);
    };
    planned.placement = place_it();
    while (planned.placement.bytes > caps.max_binding && planned.layout.tokens > 1) {
        planned.layout.tokens /= 2;
        planned.placement = place_it();
    }
    if (whole) memory.context = planned.layout.tokens;
    if (encodes) memory.source = planned.layout.tokens;
    const uint64_t logits_rows = caps.max_binding / (4ull * architecture.logits());
    planned.layout.outputs =
        uint32_t(std::clamp<uint64_t>(logits_rows, 1, whole ? planned.layout.tokens : max_outputs));

    memory.weights = DeviceModel::bytes(plan, architecture, caps, memory.context);
    memory.staging = DeviceModel::staging_bytes(caps);
    const uint64_t operands =
        operand_bytes(plan, caps, planned.layout.tokens, options.precision, options.deterministic);
    const auto size_for = [&](uint32_t positions) {
        memory.context = positions;
        const uint32_t cached = std::max(positions, memory.source);
        planned.layout.blocks = (cached + kv_block_tokens - 1) / kv_block_tokens;
        memory.kv = KvCache::bytes(architecture, kv, cached);
        memory.scratch = planned.placement.bytes + operands + 4ull * architecture.logits() +
                         4ull * planned.layout.words() + sampler_bytes(architecture.logits());
    };
    size_for(memory.context);
    while (!options.context && !memory.fits() && memory.context > kv_block_tokens)
        size_for(std::max(kv_block_tokens, memory.context / 2));
    return planned;
}

/// Before anything was measured, a slow device of its kind: 100 G multiply-adds a second for hardware, a
/// tenth of one for a CPU driver (SwiftShader does 0.2, lavapipe 7 on two idle cores).
Pacer pacer_for(const EngineOptions& options, const vk::Caps& caps) {
    const double budget_ms = options.submission_budget_ms > 0 ? options.submission_budget_ms
                             : caps.is_cpu()                  ? 1000
                                                              : 50;
    return Pacer(budget_ms / 1000, caps.is_cpu() ? 1e-8 : 1e-11);
}

std::string in_mib(uint64_t bytes) { return cat(bytes >> 20, " MiB"); }

}  // namespace

Engine::Impl::Impl(std::shared_ptr<const Model> model_, const EngineOptions& options_)
    : model(std::move(model_)), options(options_), device(options.device), pipelines(device),
      graph(build_graph(model->architecture)),
      plan(make_plan(graph, model->architecture, model->weights, options.fusion)),
      pacer(pacer_for(options, device.caps())) {
    Planned planned = plan_for(*model, graph, plan, device, options, kv_type());
    layout = planned.layout;
    placement = std::move(planned.placement);
    memory = planned.memory;
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
    const MemoryPlan& memory = impl_->memory;
    if (!memory.fits())
        fail(Status::out_of_device_memory, "memory", "expected at most ", in_mib(memory.heap_budget),
             impl_->options.memory_budget ? " (the least of what was set and the driver offers)"
                                          : " (what the driver offers)",
             ", got a plan of ", in_mib(memory.device_total()), ": weights ", in_mib(memory.weights),
             ", KV cache ", in_mib(memory.kv), " for ", memory.context, " positions, scratch ",
             in_mib(memory.scratch), ", staging ", in_mib(memory.staging));
    impl_->upload(options.progress);
}

void Engine::Impl::upload(const std::function<void(uint64_t done, uint64_t total)>& progress) {
    weights.emplace(device, pipelines, *model, graph, plan, memory.context, progress);
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

MemoryPlan plan_memory(const Model& model, const EngineOptions& options) {
    const std::shared_ptr<const Model> borrowed(&model, [](const Model*) {});
    return Engine::Impl(borrowed, options).memory;
}

}  // namespace scoria
