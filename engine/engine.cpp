// The engine: opens the device, refuses what cannot fit, uploads.
#include "engine.h"

#include "fail.h"
#include "log.h"
#include "ops/kv_layout.h"
#include "ops/rope.h"
#include "paired_heads.h"
#include "self_test.h"
#include "states.h"
#include "tenant.h"
#include "tuned_variants.h"
#include "verdicts.h"

#include <algorithm>
#include <sstream>
#include <thread>

namespace scoria {
namespace {

/// Before anything was measured, a slow device of its kind: 100 G multiply-adds a second for hardware, a
/// tenth of one for a CPU driver (SwiftShader does 0.2, lavapipe 7 on two idle cores).
double first_guess(const vk::Caps& caps) { return caps.is_cpu() ? 1e-8 : 1e-11; }

/// In seconds.
double submission_budget(double milliseconds, const vk::Caps& caps) {
    return 1e-3 * (milliseconds > 0 ? milliseconds : caps.is_cpu() ? 1000 : 50);
}

/// Those of one of several devices.
EngineOptions options_of(EngineOptions options, size_t part) {
    const std::vector<std::string> devices = device_list(options.device.select);
    if (options.memory_budgets.size() > devices.size())
        fail(Status::bad_argument, "memory", "expected at most ", devices.size(),
             " budgets for as many devices, got ", options.memory_budgets.size());
    options.device.select = devices[part];
    if (part < options.memory_budgets.size()) options.memory_budget = options.memory_budgets[part];
    return options;
}

/// Errors: unsupported.
void check_shareable(const Architecture& architecture) {
    const bool one_stream = architecture.encoder.empty() && !architecture.bidirectional() &&
                            !architecture.two_streams && architecture.memory.segment == 0 &&
                            architecture.per_layer == 0 && !architecture.guesses_ahead() &&
                            architecture.loops == 1;
    if (!one_stream)
        fail(Status::unsupported, "device", "expected one device for ", architecture.family,
             ": decoders of one residual stream alone are shared by layers");
    if (architecture.shows != std::vector{read_by_head} && !architecture.shows.empty())
        fail(Status::unsupported, "device", "expected one device for a model whose layers a draft reads");
}

/// With heads in pairs, and what it shows. Errors: bad_argument, for a layer that it has not; unsupported.
std::shared_ptr<const Model> prepared(std::shared_ptr<const Model> model,
                                      const std::vector<uint32_t>& shows) {
    model = with_paired_heads(std::move(model));
    const Architecture& a = model->architecture;
    if (a.ahead == Ahead::features && (a.vocab == 0 || a.takes.empty()))
        fail(Status::bad_argument, model->path.string(),
             "expected the target that this draft reads (EAGLE-3) beside it, got none");
    if (shows.empty()) return model;
    const size_t layers = a.layers.size();
    if (a.two_streams || a.alternating.count || a.bidirectional() || a.recomputes() || !a.encoder.empty())
        fail(Status::unsupported, "engine", "expected a decoder of one residual stream to show, got ",
             a.family);
    for (const uint32_t each : shows)
        if (each != read_by_head && each > layers)
            fail(Status::bad_argument, "engine", "expected a layer up to ", layers, " to show, got ", each);
    const auto showing = std::make_shared<Model>(*model);
    showing->architecture.shows = shows;
    return showing;
}

std::string size_text(uint64_t bytes) {
    return bytes >> 20 < 10 ? cat(bytes >> 10, " KiB") : cat(bytes >> 20, " MiB");
}

}  // namespace

Engine::Impl::Impl(std::shared_ptr<const Model> model_, const EngineOptions& options_)
    : Impl(prepared(std::move(model_), options_.shows), options_,
           options_.device.host ? 0 : device_list(options_.device.select).size() - 1) {
    const std::vector<Impl*> all = parts();
    if (all.size() == 1) {
        take_layers({});
        return;
    }
    check_shareable(model->architecture);
    std::vector<uint64_t> rooms;
    for (const Impl* part : all) rooms.push_back(part->room());
    const std::vector<LayerRange> ranges = share_layers(model->architecture, bytes_by_layer(), rooms);
    for (size_t i = 0; i < all.size(); ++i) all[i]->take_layers(ranges[i]);
    agree();
}

Engine::Impl::Impl(std::shared_ptr<const Model> model_, const EngineOptions& options_, size_t part)
    : model(std::move(model_)), options(options_of(options_, part)), device(options.device),
      pipelines(device), front(part ? std::make_unique<Impl>(model, options_, part - 1) : nullptr),
      pacers{
          Pacer(submission_budget(options.submission_budget_ms, device.caps()), first_guess(device.caps())),
          Pacer(submission_budget(options.submission_budget_ms, device.caps()), first_guess(device.caps()))} {
}

std::vector<Engine::Impl*> Engine::Impl::parts() {
    std::vector<Impl*> all = front ? front->parts() : std::vector<Impl*>();
    all.push_back(this);
    return all;
}

void Engine::Impl::agree() {
    const std::vector<Impl*> all = parts();
    for (int attempts = 0; attempts < 4; ++attempts) {
        uint32_t context = UINT32_MAX, chunk = UINT32_MAX;
        for (const Impl* part : all) {
            context = std::min(context, part->memory.context);
            chunk = std::min(chunk, part->layout.tokens);
        }
        memory.before.clear();
        bool agreed = true;
        for (Impl* part : all) {
            agreed = agreed && part->memory.context == context && part->layout.tokens == chunk;
            part->options.context = context;
            part->options.prompt_chunk = chunk;
            part->plan_memory();
            if (part != this) memory.before.push_back(part->memory);
        }
        if (agreed) return;
    }
    fail(Status::failed, "memory", "expected devices that agree on a context, got ", all.size(),
         " that do not");
}

void Engine::Impl::take_layers(LayerRange range) {
    layers = range;
    graph = part_of(build_graph(model->architecture), range);
    stream_in = range.first > 0 ? graph.hidden[range.first] : graph.given;
    if (range.end < model->architecture.layers.size()) stream_out = graph.hidden[range.end];
    plan = make_plan(graph, model->architecture, model->weights, options.fusion);
    if (model->architecture.memory.segment && kv_quantised(kv_type()))
        fail(Status::unsupported, "kv", "expected f32, f16 or bf16 for a compressed memory, got ",
             kv_type_names[size_t(kv_type())]);
    if (options.available_memory) options.memory_budget = available_memory();
    choices.precision = options.precision;
    choices.pinned = options.deterministic;
    choices.quarantined = VerdictBook(options.device.cache_folder, device.caps())
                              .left_out(!self_test_wanted(options, device.caps()));
    plan_memory();
    if (!choices.quarantined.empty()) uses();  // its error names the op that has no variant left
    if (options.tuned) {
        const TunedBook book(options.device.cache_folder, device.caps());
        if (!book.entries().empty()) {
            use_tuned(choices, device.caps(), tune_targets(plan, graph, choices, limits()), book.entries());
            plan_memory();
        }
    }
    if (options.variants.empty()) return;
    choices.forced = forced_variants(options.variants, uses(), device.caps().name);
    plan_memory();  // which holds what linears keep for themselves
}

std::vector<VariantUse> Engine::Impl::uses() const {
    return variant_uses(plan, graph, model->architecture, device.caps(), choices, limits());
}

vk::RecorderOptions Engine::Impl::recorder_options(bool simultaneous_use) const {
    return {.simultaneous_use = simultaneous_use,
            .shuffle_seed = options.shuffle_seed,
            .omit_barriers = options.omit_barriers};
}

uint64_t Engine::Impl::available_memory() const {
    return options.available_memory ? std::max<uint64_t>(options.available_memory(), 1) : UINT64_MAX;
}

bool Engine::Impl::knows_global_tokens() const {
    const Architecture& a = model->architecture;
    return (a.encoder.empty() ? a : a.encoder[0]).layers[0].attention.global_tokens;
}

Workspace Engine::Impl::workspace(const StepLayout& of, vk::MemoryUse own, vk::MemoryUse shared) {
    Workspace made;
    made.layout = of;
    made.placement = placement;
    made.choices = &choices;
    made.step = vk::Buffer(device, 4ull * of.words(), own);
    made.arena = vk::Buffer(device, placement.bytes, shared);
    if (const uint64_t bytes = weights->slots_bytes()) made.slots = vk::Buffer(device, bytes, own);
    return made;
}

std::vector<std::string> device_list(const std::string& select) {
    std::vector<std::string> list;
    std::istringstream pieces(select);
    const auto is_index = [](const std::string& piece) {
        return !piece.empty() && piece.find_first_not_of("0123456789") == std::string::npos;
    };
    for (std::string piece; std::getline(pieces, piece, ',');) list.push_back(piece);
    // A name may have commas.
    return list.size() > 1 && std::ranges::all_of(list, is_index) ? list : std::vector{select};
}

Engine::Engine(std::shared_ptr<const Model> model, const EngineOptions& options)
    : impl_(std::make_unique<Impl>(std::move(model), options)) {
    const std::vector<Impl*> parts = impl_->parts();
    for (Impl* part : parts) part->self_test();
    if (parts.size() > 1) impl_->agree();
    for (const Impl* part : parts) part->check_fits();
    impl_->upload_all(options.progress);
}

void Engine::Impl::check_fits() const {
    if (!memory.fits())
        fail(Status::out_of_device_memory, "memory", "expected at most ", size_text(memory.heap_budget),
             options.memory_budget ? " (the least of what was set and the driver offers)"
                                   : " (what the driver offers)",
             " and ", size_text(memory.host_budget), " of host memory, got a plan of ",
             size_text(memory.device_total()), ": weights ", size_text(memory.weights), ", KV cache ",
             size_text(memory.kv), " for ", memory.context, " positions, scratch ", size_text(memory.scratch),
             "; and on the host weights ", size_text(memory.host_weights), ", KV cache ",
             size_text(memory.host_kv), ", staging ", size_text(memory.staging));
    if (memory.host_weights || memory.host_kv)
        log(cat(size_text(memory.host_weights), " of ", size_text(memory.host_weights + memory.weights),
                " of weights and ", size_text(memory.host_kv), " of ", size_text(memory.host_kv + memory.kv),
                " of cache have no room in ", size_text(memory.heap_budget),
                " of device memory: they stay in host memory, ",
                device.caps().has_bus() ? "and every step waits for the bus" : "which is as near"));
}

void Engine::Impl::upload(const std::function<void(uint64_t done, uint64_t total)>& progress) {
    weights.emplace(device, *model, graph, plan, places, memory.context);
    if (options.rehearse.prompt) rehearsal = std::make_unique<Rehearsal>(*this, options.rehearse);
    try {
        weights->upload(device, pipelines, *model, upload_threads(), progress);
    } catch (...) {
        forget_weights();
        throw;
    }
}

uint32_t Engine::Impl::upload_threads() const {
    if (options.device.host) return 1;
    if (options.upload_threads != 0) return options.upload_threads;
    return std::clamp(std::thread::hardware_concurrency() / 2, 1u, 4u);
}

void Engine::Impl::upload_all(const std::function<void(uint64_t done, uint64_t total)>& progress) {
    uint64_t before = 0, all = 0;
    for (const Impl* part : parts()) all += DeviceModel::file_bytes(part->plan, *part->model);
    for (Impl* part : parts()) {
        part->upload([&](uint64_t done, uint64_t) {
            if (progress) progress(before + done, all);
        });
        before += DeviceModel::file_bytes(part->plan, *part->model);
    }
}

void Engine::Impl::drop() {
    {
        const std::lock_guard guard(tenants_mutex);
        for (Tenant* tenant : tenants) tenant->release();
        standing.reset();
    }
    for (Impl* part : parts()) part->forget_weights();
}

void Engine::Impl::forget_weights() noexcept {
    rehearsal.reset();
    weights.reset();
}

bool Engine::Impl::one_pass() const {
    const Architecture& a = model->architecture;
    const bool prefix = a.layers[0].attention.mask == Mask::prefix;
    const auto states_bind = [&] {
        const std::vector<uint64_t> states = state_strides(a, layers, device.caps().storage_alignment);
        const uint64_t most = std::min<uint64_t>(device.caps().max_binding, device.caps().max_allocation);
        return std::ranges::max(states) <= most / std::max(options.sequences, 1u);
    };
    return !front && !stream_out && !a.guesses_ahead() && a.encoder.empty() && !a.recomputes() &&
           a.memory.segment == 0 && !prefix && !by_length(a.ropes) && (!a.recurrent() || states_bind());
}

KvShare Engine::Impl::share_cache() {
    const std::lock_guard guard(tenants_mutex);
    std::erase_if(caches, [](const std::weak_ptr<KvCache>& cache) { return cache.expired(); });
    for (const std::weak_ptr<KvCache>& each : caches)
        if (const auto cache = each.lock(); cache && cache->has_place()) return KvShare(cache);
    const auto cache = std::make_shared<KvCache>(device, model->architecture, kv_type(), cache_length());
    caches.push_back(cache);
    if (!standing && shares_prefixes(*cache)) standing = cache;
    return KvShare(cache);
}

void Engine::Impl::recover(uint64_t seen) {
    const std::unique_lock lock(in_use);
    const Held alone(this, Held::How::alone);
    if (generation != seen) return;
    log(cat("the device ", device.caps().name, " was lost; building all anew on it"));
    drop();
    for (Impl* part : parts()) {
        part->device.reopen([&] { part->pipelines.close(); });
        part->pipelines.open();
        part->upload({});
        // Work that ran too long is what GPUs are most often reset for.
        for (Pacer& pacer : part->pacers) pacer.submission_lost();
    }
    evicted = false;
    ++generation;
}

void Engine::Impl::set_submission_budget(double milliseconds) {
    const auto lock = use();  // recover() exchanges the device
    for (Impl* part : parts())
        for (Pacer& pacer : part->pacers)
            pacer.set_budget(submission_budget(milliseconds, part->device.caps()));
}

void Engine::Impl::evict() {
    std::unique_lock lock(in_use, std::defer_lock);
    if (Held::how(this) != Held::How::no || !lock.try_lock())
        fail(Status::busy, "engine", "expected sessions that are at rest, got one that computes");
    if (evicted) return;
    const Held alone(this, Held::How::alone);
    drop();
    evicted = true;
    for (Impl* part : parts()) part->device.trim();
}

void Engine::Impl::not_half_built() const {
    if (Held::how(this) == Held::How::alone)
        fail(Status::busy, "engine", "expected a call from elsewhere, got one from inside what restores it");
}

void Engine::Impl::restore(const std::function<void(uint64_t done, uint64_t total)>& progress) {
    not_half_built();
    if (Held::how(this) == Held::How::shared) return;  // inside its own work it is there
    {                                                  // who finds nothing to do waits for no answer
        const std::shared_lock seen(in_use);
        if (!evicted) return;
    }
    const std::unique_lock lock(in_use);
    const Held alone(this, Held::How::alone);
    if (!evicted) return;
    for (const Impl* part : parts()) {
        const uint64_t available = available_memory(), needed = part->memory.device_total();
        if (needed > available)
            fail(Status::out_of_device_memory, "memory", "expected at least ", size_text(needed),
                 " to restore the engine, got ", size_text(available), " from the host");
    }
    try {
        upload_all(progress);
    } catch (...) {
        for (Impl* part : parts()) part->forget_weights();
        throw;
    }
    evicted = false;
}

Engine::~Engine() {
    if (impl_) impl_->save_pipelines();
}

void Engine::Impl::save_pipelines() {
    for (Impl* part : parts()) part->pipelines.save_cache();
}

const Model& Engine::model() const { return *impl_->model; }
const EngineOptions& Engine::options() const { return impl_->options; }
const MemoryPlan& Engine::memory_plan() const { return impl_->memory; }
vk::Device& Engine::device() { return impl_->device; }
vk::Pipelines& Engine::pipelines() { return impl_->pipelines; }
void Engine::set_submission_budget(double milliseconds) { impl_->set_submission_budget(milliseconds); }
void Engine::evict() { impl_->evict(); }
void Engine::restore(const std::function<void(uint64_t done, uint64_t total)>& progress) {
    impl_->restore(progress);
}
std::vector<vk::Device*> Engine::devices() {
    std::vector<vk::Device*> all;
    for (Impl* part : impl_->parts()) all.push_back(&part->device);
    return all;
}

std::shared_ptr<const grammar::TokenTrie> Engine::Impl::token_trie() {
    std::call_once(trie_made_, [&] {
        std::vector<std::string> pieces(model->architecture.logits());
        const uint32_t known = std::min(model->tokenizer->size(), model->architecture.logits());
        for (uint32_t id = 0; id < known; ++id) pieces[id] = model->tokenizer->piece(TokenId(id), false);
        for (const TokenId id : model->suppressed) pieces[size_t(id)].clear();
        trie_ = std::make_shared<const grammar::TokenTrie>(pieces);
    });
    return trie_;
}

}  // namespace scoria
