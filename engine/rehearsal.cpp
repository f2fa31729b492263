// See rehearsal.h.
#include "engine.h"
#include "kv_cache.h"
#include "ops/rope.h"
#include "ops/sample.h"
#include "session_impl.h"

#include <algorithm>
#include <system_error>

namespace scoria {
namespace {

/// Kernels of a plan: every `step`-th.
struct Share {
    size_t first, step;
};

/// A batch on a cache and in a workspace that have no memory.
class Stage {
  public:
    Stage(Engine::Impl& engine, Share share, std::stop_token stop)
        : engine_(engine), share_(share), stop_(std::move(stop)),
          cache_(engine.device, engine.model->architecture, engine.kv_type(), engine.cache_length(),
                 vk::MemoryUse::none),
          workspace_(engine.workspace(engine.layout, vk::MemoryUse::none, vk::MemoryUse::none)) {
        const Architecture& architecture = engine.model->architecture;
        workspace_.logits = prop(4ull * architecture.logits() * engine.layout.outputs);
        if (by_length(architecture.ropes))
            for (const Rope& rope : architecture.ropes)
                workspace_.ropes.push_back(prop(4 * rope_table_floats(rope, engine.memory.context)));
    }
    ~Stage() {
        try {
            if (last_) engine_.device.wait(*last_, std::chrono::minutes(10));
        } catch (const std::exception&) {  // lost, or it hangs, and then the platform frees nothing
        }
    }

    /// This share of a batch of so many tokens, one of which gets logits. Each pipeline runs empty where
    /// `range` has a buffer.
    void pass(uint32_t tokens, bool decodes, const vk::View& range) {
        const uint32_t outputs = engine_.stream_out ? 0 : 1;
        const Scratch scratch = engine_.scratch_bytes(tokens, outputs);
        workspace_.scratch = prop(scratch.linear);
        workspace_.partials = prop(scratch.partials);
        Batch work(*engine_.weights, cache_, workspace_, tokens, outputs);
        if (decodes)
            work.fold_step();
        else
            work.fold_chunk();
        for (size_t i = share_.first; i < engine_.plan.kernels.size() && !stop_.stop_requested();
             i += share_.step) {
            vk::Recorder recorder(engine_.device, engine_.pipelines, {.rehearsal = range});
            work.record(recorder, i);
            run(recorder);
        }
    }
    /// The choice of one token.
    void sample(bool greedy, const vk::View& range) {
        const uint32_t vocab = engine_.model->architecture.logits();
        vk::Recorder recorder(engine_.device, engine_.pipelines, {.rehearsal = range});
        OpContext context{recorder, engine_.device.caps()};
        record_sample(context,
                      {.logits = {workspace_.logits.view(0, 4ull * vocab), 1, vocab, vocab},
                       .sampler = prop(4ull * sampler_words(vocab)).view(),
                       .scratch = prop(sample_scratch_bytes(vocab)).view(),
                       .step = workspace_.step.view(),
                       .results = prop(8ull * result_slots).view(),
                       .result_slots = result_slots,
                       .from_slot = 0,
                       .to_slot = 0,
                       .greedy = greedy},
                      engine_.choices.simple(context.caps, SimpleOp::sample));
        run(recorder);
    }

  private:
    void run(vk::Recorder& recorder) {
        if (recorder.stats().first_uses == 0) return;
        const VkCommandBuffer handle = ran_.emplace_back(recorder.finish()).handle();
        last_ = engine_.device.submit({&handle, 1});
    }
    vk::Buffer prop(uint64_t bytes) const {
        return bytes ? vk::Buffer(engine_.device, bytes, vk::MemoryUse::none) : vk::Buffer();
    }

    Engine::Impl& engine_;
    Share share_;
    std::stop_token stop_;
    KvCache cache_;
    Workspace workspace_;
    std::vector<vk::Commands> ran_;
    std::optional<vk::Device::Ticket> last_;
};

void rehearse(Engine::Impl& engine, const Rehearsed& what, Share share, std::stop_token stop) {
    // Drivers on CPUs compile at the first dispatch, so there a prompt's pipelines run empty at once.
    // Decode's, which the prompt would have to wait for, do not.
    vk::Buffer range;
    if (engine.device.caps().is_cpu())
        range = vk::Buffer(engine.device, vk::rehearsal_bytes, vk::MemoryUse::device);
    Stage stage(engine, share, std::move(stop));
    stage.pass(std::min(what.prompt, engine.layout.tokens), false, range.view());
    if (what.greedy && share.first == 0 && !engine.stream_out) stage.sample(*what.greedy, range.view());
    stage.pass(1, true, {});
}

/// Beside the thread that uploads; the cores of a CPU driver are the device.
size_t usual_threads(Engine::Impl& engine) {
    return engine.device.caps().is_cpu() ? 1 : std::clamp(std::thread::hardware_concurrency(), 3u, 5u) - 1;
}

}  // namespace

Rehearsal::Rehearsal(Engine::Impl& engine, const Rehearsed& what, size_t threads) {
    const Architecture& architecture = engine.model->architecture;
    if (engine.options.device.host || architecture.bidirectional() || !architecture.encoder.empty()) return;
    const size_t count = threads ? threads : usual_threads(engine);
    try {
        for (size_t first = 0; first < count; ++first)
            threads_.emplace_back([&engine, what, share = Share{first, count}](std::stop_token stop) {
                try {
                    rehearse(engine, what, share, std::move(stop));
                } catch (...) {  // whoever computes meets the same error, and says so to its caller
                }
            });
    } catch (const std::system_error&) {  // too few threads: the rest is made when it is wanted
    }
}

}  // namespace scoria
