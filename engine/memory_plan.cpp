// Where the bytes of a model go on a device, before any weight is read.
#include "engine.h"
#include "fail.h"
#include "kv_cache.h"
#include "ops/attention.h"
#include "ops/choose.h"
#include "ops/kv_layout.h"
#include "ops/rope.h"
#include "ops/sample.h"
#include "ops/weight_layout.h"
#include "states.h"

#include <algorithm>
#include <numeric>

namespace scoria {
namespace {

constexpr uint32_t default_context = 8192, default_chunk = 512;
constexpr uint32_t default_source = 2048;  // an encoder takes all of its tokens at once

/// Placement of the arena without the logits, which have a buffer of their own.
Arena place_arena(const Graph& graph, const Plan& plan, uint32_t tokens, uint32_t outputs,
                  const vk::Caps& caps) {
    std::vector<Storage> storages = plan.storages;
    const uint32_t logits = plan.placements[graph.logits.index].storage;
    if (logits < storages.size()) storages[logits].cols = 0;
    return place(storages, tokens, outputs, caps.storage_alignment);
}

/// What is left for us: a budget holds what the process has there already. Drivers report nonsense at times:
/// a budget of 0 or above the heap's size counts as the size.
uint64_t budget_of(const vk::HeapState& heap) {
    const uint64_t budget = heap.budget == 0 || heap.budget > heap.size ? heap.size : heap.budget;
    return budget - std::min(budget, heap.usage);
}

/// The largest heap that is local to the device, or that is not; null if there is none such.
const vk::HeapState* largest(std::span<const vk::HeapState> heaps, bool device_local) {
    const vk::HeapState* best = nullptr;
    for (const vk::HeapState& heap : heaps)
        if (heap.device_local == device_local && (!best || heap.size > best->size)) best = &heap;
    return best;
}

/// A default context is cut down to this before weights cross a bus, but for tables, of which a token reads a
/// row; then so is the prompt's chunk.
constexpr uint32_t least_context = 2048, good_chunk = 128;
constexpr uint32_t least_chunk = 32;

/// Sizes a plan: as long a context and as many tokens at a time as fit, then as many weights on the device.
class Planning {
  public:
    Planning(Engine::Impl& engine) : engine_(engine), architecture_(engine.model->architecture) {
        set_budgets();
        set_lengths();
        size();
        while (!memory_.fits() && shrink()) size();
    }

  private:
    void set_budgets() {
        memory_.device = caps_.name;
        memory_.layers = {engine_.layers.first,
                          std::min(engine_.layers.end, uint32_t(architecture_.layers.size()))};
        const std::vector<vk::HeapState> heaps = engine_.device.heaps();
        const vk::HeapState* local = largest(heaps, true);
        const vk::HeapState* host = largest(heaps, false);
        if (!local) std::swap(local, host);
        if (!local) return;
        memory_.heap_size = local->size;
        memory_.heap_budget = engine_.room();
        memory_.host_budget = host ? budget_of(*host) : 0;
        if (!host) one_heap_ = budget_of(*local);
    }
    void set_lengths() {
        const EngineOptions& options = engine_.options;
        if (options.context > architecture_.context)
            fail(Status::bad_argument, "context", "expected at most ", architecture_.context,
                 " positions, which the model was trained for, got ", options.context);
        const auto table = uint32_t(std::min<uint64_t>(architecture_.most_positions(), UINT32_MAX));
        if (table && options.context > table)
            fail(Status::bad_argument, "context", "expected at most ", table,
                 " positions, which the model's position table holds, got ", options.context);
        const uint32_t wanted = options.context ? options.context
                                : encodes_      ? default_source
                                                : default_context;
        memory_.context = std::min(architecture_.context, wanted);
        if (table) memory_.context = std::min(memory_.context, table);
        if (options.sequences == 0 || options.sequences > max_outputs)
            fail(Status::bad_argument, "sequences", "expected 1 to ", max_outputs, ", got ",
                 options.sequences);
        if (encodes_) memory_.source = std::min(architecture_.encoder[0].context, wanted);
        uint32_t& tokens = engine_.layout.tokens;
        tokens = whole_ ? memory_.context
                 : encodes_
                     ? memory_.source
                     : std::min(options.prompt_chunk ? options.prompt_chunk : default_chunk, memory_.context);
        place_activations();
        while (engine_.placement.bytes > caps_.max_binding && tokens > 1) {
            tokens /= 2;
            place_activations();
        }
        check_blocks();
        hold_tokens();
        const auto most = [&] {
            const Scratch scratch = most_scratch(tokens);
            return std::max(scratch.linear, scratch.partials);
        };
        while (tokens > 1 && most() > caps_.max_binding) {
            tokens /= 2;
            place_activations();
            hold_tokens();
        }
        const uint64_t logits_rows = caps_.max_binding / (4ull * architecture_.logits());
        engine_.layout.outputs =
            uint32_t(std::clamp<uint64_t>(logits_rows, 1, whole_ ? tokens : max_outputs));
    }
    void place_activations() {
        const uint32_t tokens = engine_.layout.tokens;
        engine_.placement =
            place_arena(engine_.graph, engine_.plan, tokens, whole_ ? tokens : max_outputs, caps_);
    }
    /// Every shard of the cache holds a block or more.
    void check_blocks() const {
        for (const Attention& slot : cache_slots(architecture_))
            if (const uint64_t bytes = kv_rows(engine_.kv_type(), slot).block_bytes();
                bytes > caps_.max_binding)
                fail(Status::unsupported, "cache", "expected heads of which ", kv_block_tokens,
                     " positions fit a binding of ", caps_.max_binding, " bytes, got ", slot.kv_heads, " of ",
                     slot.head_dim, ", which take ", bytes);
    }
    /// Where sequences or sources are computed at once, they are no longer than a batch.
    void hold_tokens() {
        if (whole_) memory_.context = engine_.layout.tokens;
        if (encodes_) memory_.source = engine_.layout.tokens;
        share_context();
        engine_.layout.blocks = kv_blocks_for(cached());
    }
    uint32_t cached() const { return std::max(memory_.context, memory_.source); }
    /// Of several sequences in whole blocks, as each takes them.
    uint64_t all_cached() const {
        const uint32_t sequences = engine_.options.sequences;
        return sequences == 1 ? cached() : uint64_t{kv_blocks_for(cached())} * kv_block_tokens * sequences;
    }
    void share_context() {
        const uint32_t wanted = engine_.options.shared_context;
        if (wanted && wanted < cached())
            fail(Status::bad_argument, "context", "expected at least ", cached(),
                 " positions for all sequences, which one may have, got ", wanted);
        const uint64_t all = std::min(all_cached(), uint64_t{UINT32_MAX});
        memory_.shared = uint32_t(wanted ? std::min<uint64_t>(all, wanted) : all);
    }
    /// Rotary tables of a session's own, where they depend on the sequence's length.
    uint64_t rope_bytes() const {
        if (!by_length(architecture_.ropes)) return 0;
        uint64_t bytes = 0;
        for (const Rope& rope : architecture_.ropes) bytes += 4ull * rope_table_floats(rope, memory_.context);
        return bytes;
    }
    /// Of any batch: fewer tokens may be split more.
    Scratch most_scratch(uint32_t tokens) const {
        Scratch most = engine_.scratch_bytes(tokens, tokens);
        for (uint32_t fewer = 1; fewer < tokens; fewer *= 2) most.raise(engine_.scratch_bytes(fewer, fewer));
        return most;
    }
    void size() {
        const EngineOptions& options = engine_.options;
        const uint32_t vocab = architecture_.logits();
        StepLayout& layout = engine_.layout;
        layout.blocks = kv_blocks_for(cached());
        memory_.chunk = layout.tokens;
        memory_.staging = DeviceModel::staging_bytes(caps_, engine_.upload_threads());
        memory_.kv_parts = KvCache::parts(architecture_, engine_.kv_type(), engine_.cache_length());
        const std::vector<uint64_t> states =
            state_strides(architecture_, memory_.layers, caps_.storage_alignment);
        memory_.recurrences = uint32_t(states.size() - size_t(std::ranges::count(states, 0u)));
        layout.pieces = memory_.recurrences ? 1 : 0;
        const uint64_t head = engine_.stream_out ? 0 : 4ull * vocab + sampler_bytes(vocab);
        const auto workspace = [&](uint32_t sequences) {
            const uint64_t step = 4ull * layout.of(sequences).words();
            const Scratch scratch = most_scratch(layout.tokens);
            return engine_.placement.bytes + sequences * head + step + scratch.linear + scratch.partials;
        };
        memory_.states = std::accumulate(states.begin(), states.end(), uint64_t{0}) * options.sequences;
        memory_.scratch = workspace(1) + rope_bytes();
        if (options.sequences > 1) memory_.scratch += workspace(options.sequences);  // a batcher's
        const uint64_t vectors =
            DeviceModel::vector_bytes(engine_.plan, architecture_, caps_, memory_.context);
        uint64_t room = memory_.heap_budget;
        const auto take = [&](uint64_t bytes) { room -= std::min(room, bytes); };
        take(vectors + memory_.scratch + memory_.states);
        // Within one heap there is nowhere to go, unless a part of it was set aside.
        const bool elsewhere = !one_heap_ || memory_.heap_budget < *one_heap_;
        KvLength length = engine_.cache_length();
        length.room = elsewhere && !caps_.has_bus() ? room : UINT64_MAX;
        const auto [kv, host_kv] = KvCache::bytes(architecture_, engine_.kv_type(), length);
        take(memory_.kv = kv);
        memory_.host_kv = host_kv;
        const bool early = options.context || memory_.context <= least_context || !caps_.has_bus();
        engine_.places = place_weights(engine_.plan, caps_, elsewhere ? room : UINT64_MAX, !early);
        memory_.weights = engine_.places.device_bytes + vectors;
        memory_.host_weights = engine_.places.host_bytes;
        memory_.scratch += engine_.places.slots_bytes;
        if (one_heap_) memory_.host_budget = *one_heap_ - std::min(*one_heap_, memory_.device_total());
    }
    /// Makes the context or the chunk shorter; false if neither may be.
    bool shrink() {
        uint32_t &context = memory_.context, &tokens = engine_.layout.tokens;
        const bool any_context = !engine_.options.context, any_chunk = !whole_ && !encodes_;
        if (!engine_.options.shared_context && memory_.shared > cached()) {
            memory_.shared = std::max(cached(), memory_.shared / 2);
            return true;
        }
        if (any_context && context > least_context)
            context = std::max(least_context, context / 2);
        else if (any_chunk && tokens > good_chunk)
            tokens = std::max(good_chunk, tokens / 2);
        else if (any_context && context > kv_block_tokens)
            context = std::max(kv_block_tokens, context / 2);
        else if (any_chunk && tokens > least_chunk)
            tokens = std::max(least_chunk, tokens / 2);
        else
            return false;
        if (encodes_) tokens = memory_.source = std::min(memory_.source, context);
        tokens = std::min(tokens, context);
        memory_.shared = engine_.options.shared_context
                             ? uint32_t(std::min<uint64_t>(memory_.shared, all_cached()))
                             : cached();
        if (whole_) engine_.layout.outputs = std::min(engine_.layout.outputs, tokens);
        place_activations();
        return true;
    }

    Engine::Impl& engine_;
    MemoryPlan& memory_ = engine_.memory;
    const Architecture& architecture_;
    const vk::Caps& caps_ = engine_.device.caps();
    const bool encodes_ = !architecture_.encoder.empty();
    const bool whole_ = architecture_.sees_ahead() && !encodes_;  // sequences cannot be cut
    std::optional<uint64_t> one_heap_;  // what is free of it, where there is no other
};

}  // namespace

void Engine::Impl::plan_memory() { Planning{*this}; }

uint64_t Engine::Impl::room() const {
    const std::vector<vk::HeapState> heaps = device.heaps();
    const vk::HeapState *local = largest(heaps, true), *host = largest(heaps, false);
    // Where weights can leave the device, it would be filled to the last byte but for what is kept back for
    // the rounding of hundreds of allocations, the driver's own objects and other programs.
    constexpr uint64_t least_spare = 128ull << 20;
    uint64_t free = local ? budget_of(*local) : host ? budget_of(*host) : 0;
    if (local && host) free -= std::min(free, std::max(least_spare, free / 32));
    const uint64_t limit = options.memory_budget;
    return limit ? std::min(limit, free) : free;
}

std::vector<uint64_t> Engine::Impl::bytes_by_layer() const {
    const Architecture& architecture = model->architecture;
    const size_t count = architecture.layers.size();
    const Graph all = build_graph(architecture);
    const Plan whole = make_plan(all, architecture, model->weights, options.fusion);
    std::vector<uint64_t> bytes(count + 2, 0);
    bool behind_embedding = false;
    for (const auto& [kernel, fusion, layer, results] : whole.kernels) {
        behind_embedding = behind_embedding || layer >= 0;
        uint64_t& here = bytes[layer >= 0 ? size_t(layer) + 1 : behind_embedding ? count + 1 : 0];
        const auto add = [&](GroupId id) {
            const WeightGroup& group = whole.weight_groups[id];
            here += layout_bytes(group.type, group.rows, group.cols);
        };
        std::visit(
            [&](const auto& k) {
                if constexpr (requires { GroupId{k.weight}; })
                    add(k.weight);
                else if constexpr (requires { k.table; })
                    add(k.table);
            },
            kernel);
    }
    const KvLength length{std::min(architecture.context, options.context ? options.context : default_context),
                          default_chunk};
    const std::vector<uint64_t> cached = KvCache::slot_bytes(architecture, kv_type(), length);
    const std::vector<uint64_t> states = state_strides(architecture, {}, device.caps().storage_alignment);
    for (size_t i = 0; i < count; ++i) bytes[i + 1] += cached[i] + states[i];
    if (architecture.indexed())
        for (uint32_t i = 0; i < count; ++i) bytes[i + 1] += cached[index_slot(architecture, i)];
    return bytes;
}

Scratch Engine::Impl::scratch_bytes(uint32_t tokens, uint32_t outputs) const {
    const vk::Caps& caps = device.caps();
    const KvType kv = kv_type();
    const std::vector<uint32_t> slot_blocks = KvCache::slot_blocks(model->architecture, cache_length());
    Scratch most;
    for (const PlannedKernel& planned : plan.kernels)
        if (const auto* l = std::get_if<kernel::Linear>(&planned.kernel)) {
            const WeightGroup& weight = plan.weight_groups[l->weight];
            const uint32_t rows = graph.tensors[l->out.index].rows == RowKind::outputs ? outputs : tokens;
            if (rows == 0) continue;
            const LinearVariant variant = choices.linear(caps, {rows, weight.rows, weight.cols, weight.type});
            most.raise({.linear = linear_scratch_bytes(variant, rows, weight.rows, weight.cols)});
        } else if (const auto* e = std::get_if<kernel::ExpertLinear>(&planned.kernel)) {
            const ExpertShape shape = expert_shape(plan, graph, *e, tokens);
            most.raise({.linear = expert_scratch_bytes(choices.experts(caps, shape), shape)});
        } else if (const auto* a = std::get_if<kernel::Attention>(&planned.kernel)) {
            const uint32_t in_shard = kv_blocks_within(caps.max_binding, kv_rows(kv, a->shape));
            const AttentionShape shape =
                attention_shape(a->shape, tokens, layout.blocks * kv_block_tokens,
                                uint32_t(groups_for(slot_blocks[a->layer], in_shard)));
            most.raise({.partials = attention_partial_bytes(choices.attention(caps, shape, kv), shape)});
        } else if (std::holds_alternative<kernel::Choose>(planned.kernel)) {
            most.raise({.linear = choose_scratch_bytes(tokens, layout.blocks * kv_block_tokens)});
        }
    return most;
}

MemoryPlan plan_memory(const Model& model, const EngineOptions& options) {
    const std::shared_ptr<const Model> borrowed(&model, [](const Model*) {});
    return Engine::Impl(borrowed, options).memory;
}

}  // namespace scoria
