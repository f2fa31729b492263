// What an Engine owns; for the engine room only.
#pragma once

#include "batch.h"
#include "device_model.h"
#include "fail.h"
#include "grammar/constraint.h"
#include "graph.h"
#include "pipelines.h"
#include "plan.h"
#include "rehearsal.h"
#include "scheduler.h"
#include "session.h"
#include "variant_uses.h"

#include <array>
#include <mutex>
#include <optional>
#include <shared_mutex>

namespace scoria {

/// Rows whose logits one batch computes at most; more are computed in several batches.
inline constexpr uint32_t max_outputs = 64;

struct Tenant;

/// On one device. Of several that share a model, each has a part of the layers, `front` being the part
/// before: its sessions leave the residual stream in host memory. The last part, which has the head, is the
/// engine.
struct Engine::Impl {
    Impl(std::shared_ptr<const Model> model_, const EngineOptions& options_);
    /// Opens the device of one part, and those before it.
    Impl(std::shared_ptr<const Model> model_, const EngineOptions& options_, size_t part);
    std::vector<Impl*> parts();  // in the order of their layers
    /// What of the memory may be used, in bytes.
    uint64_t room() const;
    /// Weights and cache of the embedding, each layer, the head.
    std::vector<uint64_t> bytes_by_layer() const;
    void take_layers(LayerRange range);
    /// Gives all parts the least context and chunk that any of them planned.
    void agree();

    vk::RecorderOptions recorder_options(bool simultaneous_use = false) const;
    KvType kv_type() const { return options.kv_type(); }
    UseLimits limits() const { return {layout, std::max(memory.context, memory.source), kv_type()}; }
    uint64_t available_memory() const;  // what a host says, at least 1; else no limit
    /// Makes `layout`, `placement`, `places` and `memory`, whether they fit or not. Errors: bad_argument.
    void plan_memory();
    /// For a batch of `tokens`, of which `outputs` get logits. After plan_memory().
    Scratch scratch_bytes(uint32_t tokens, uint32_t outputs) const;
    /// Of every session's cache. After plan_memory().
    KvLength cache_length() const {
        return {std::max(memory.context, memory.source),
                layout.tokens,
                layers,
                options.sequences,
                memory.shared,
                memory.kv};
    }
    bool knows_global_tokens() const;
    /// Buffers to compute in, but for logits, rotary tables and what single ops keep: those that a host may
    /// read are `shared`, others `own`.
    Workspace workspace(const StepLayout& of, vk::MemoryUse own, vk::MemoryUse shared);
    /// The variants that this plan runs on this device.
    std::vector<VariantUse> uses() const;

    std::shared_ptr<const Model> model;
    EngineOptions options;
    vk::Device device;
    vk::Pipelines pipelines;
    std::unique_ptr<Impl> front;  // null: this is the first
    LayerRange layers;
    std::optional<TensorId> stream_in,
        stream_out;  // the residual stream from `front`, or Graph::given; and for the part behind
    Graph graph;
    Plan plan;
    Choices choices;
    StepLayout layout;  // of every session's workspace
    Arena placement;
    MemoryPlan memory;
    WeightPlaces places;
    std::optional<DeviceModel> weights;
    std::unique_ptr<Rehearsal> rehearsal;  // of what stands on `weights`: it goes first
    /// Of small batches, which wait for weights, and of large ones, which multiply: what a multiply-add takes
    /// differs by far.
    std::array<Pacer, 2> pacers;
    Pacer& pacer(size_t tokens) { return pacers[tokens > 16]; }

    /// Whether a pass may have tokens of several sequences: what the step buffer says once would be of all.
    bool one_pass() const;
    /// Whether sequences that begin alike have blocks of the cache in common (block_pool.h).
    bool shares_prefixes(const KvCache& cache) const {
        return cache.sequences() > 1 && cache.pool().shares() && !model->architecture.recurrent() &&
               one_pass();
    }
    /// The vocabulary as grammars want it, made when first asked for. Thread-safe.
    std::shared_ptr<const grammar::TokenTrie> token_trie();
    /// Proves the variants in use, as the options say, and leaves out those that fail. Errors: unsupported,
    /// when an op has no variant left; timeout, when the device hangs: the next start knows.
    void self_test();
    /// Errors: out_of_device_memory, with the plan.
    void check_fits() const;
    void save_pipelines();  // what a host that is ended would lose, not only at the end
    void upload(const std::function<void(uint64_t done, uint64_t total)>& progress);
    /// Half of the processors, the others making pipelines meanwhile, up to four; but one on a host's device,
    /// which only threads that call the library may use.
    uint32_t upload_threads() const;
    void forget_weights() noexcept;
    /// Of all parts, one progress.
    void upload_all(const std::function<void(uint64_t done, uint64_t total)>& progress);
    /// All that sessions and parts have on their devices goes. With `in_use` held alone.
    void drop();
    void set_submission_budget(double milliseconds);
    void evict();
    void restore(const std::function<void(uint64_t done, uint64_t total)>& progress);

    /// Runs `work`, which computes on the device for a session. When the device is lost, all that stood on it
    /// is built anew, and `work` runs again, or, if it cannot be `repeated`, throws device_lost this one
    /// time. At most two losses are survived. Any number of threads.
    template <class Work> auto survive(Work&& work, bool repeated = true) -> decltype(work());
    /// Held by what touches the device outside survive().
    std::shared_lock<std::shared_mutex> use();
    /// Errors: busy, from inside the callbacks of restore() and recover().
    void not_half_built() const;
    /// Builds all anew unless another thread did since generation `seen`. Errors: device_lost.
    void recover(uint64_t seen);

    std::shared_mutex in_use;  // shared by all that computes, alone for recover()
    uint64_t generation = 0;   // devices before this one; guarded by in_use
    bool evicted = false;      // no weights, by request; guarded by in_use
    std::mutex tenants_mutex;
    std::vector<Tenant*> tenants;                // alive; this and the next are guarded by tenants_mutex
    std::vector<std::weak_ptr<KvCache>> caches;  // that sessions share, or have alone
    std::shared_ptr<KvCache>
        standing;  // one of them, that outlives sessions, so that what comes may begin as they did
    /// A sequence's part of a cache with room for one more, or of a new one. Errors: out_of_device_memory.
    KvShare share_cache();

  private:
    std::once_flag trie_made_;
    std::shared_ptr<const grammar::TokenTrie> trie_;
};

/// An engine whose `in_use` a call on this thread's stack holds: callbacks may call again.
class Held {
  public:
    enum class How : uint8_t { no, shared, alone };
    Held(const Engine::Impl* engine, How how) : engine_(engine), how_(how), outer_(innermost) {
        innermost = this;
    }
    ~Held() { innermost = outer_; }
    Held(const Held&) = delete;
    static bool any() { return innermost != nullptr; }
    static How how(const Engine::Impl* engine) {
        for (const Held* each = innermost; each; each = each->outer_)
            if (each->engine_ == engine) return each->how_;
        return How::no;
    }

  private:
    static inline thread_local const Held* innermost = nullptr;
    const Engine::Impl* engine_;
    How how_;
    const Held* outer_;
};

inline std::shared_lock<std::shared_mutex> Engine::Impl::use() {
    return Held::how(this) == Held::How::no ? std::shared_lock(in_use)
                                            : std::shared_lock<std::shared_mutex>();
}

template <class Work> auto Engine::Impl::survive(Work&& work, bool repeated) -> decltype(work()) {
    not_half_built();
    for (int losses = 0;; ++losses) {
        uint64_t seen = 0;
        try {
            auto lock = use();
            seen = generation;
            while (evicted) {  // then it is this thread's lock, and nobody computes
                lock.unlock();
                restore({});
                lock.lock();
            }
            const Held computing(this, Held::How::shared);
            seen = generation;
            if (!weights) fail(Status::device_lost, "vulkan", "the device was lost and did not come back");
            return work();
        } catch (const Error& error) {
            // Inside a callback others' work holds the device: it is their call that recovers.
            const bool may = losses < 2 && !Held::any() && options.recover && !options.device.host;
            if (error.status() != Status::device_lost || !may) throw;
            if (!repeated) {
                recover(seen);
                throw;
            }
        }
        recover(seen);
    }
}

}  // namespace scoria
