// What a session and a batcher have in common: buffers on an engine's device to compute in, and work on its
// queue, in slices that the pacer cuts, two on their way at most. Steps of few tokens are recorded once and
// replayed slice by slice; they are cut anew when their times have changed.
#pragma once

#include "batch.h"
#include "engine.h"
#include "slices.h"

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <set>

namespace scoria {

struct Tenant {
    Tenant(const Tenant&) = delete;
    /// Gives up all that it has on the device.
    virtual void release() noexcept = 0;

    explicit Tenant(Engine::Impl& owner) : engine(owner) {}
    virtual ~Tenant() = default;
    /// To be called by destructors, before their members go: the engine forgets it.
    void leave() noexcept;

    /// Makes the workspace, but for logits, with `table` as its first block table and a step of no tokens.
    void take_workspace(StepLayout layout, std::span<const uint32_t> table = {});
    vk::Buffer device_buffer(uint64_t bytes) const { return {engine.device, bytes, vk::MemoryUse::device}; }
    vk::Buffer shared_buffer(uint64_t bytes) const { return {engine.device, bytes, vk::MemoryUse::shared}; }
    /// Waits for what is on its way, and gives up the workspace.
    void release_workspace() noexcept;
    void reserve_logits(uint32_t rows);
    /// What single ops of a batch of so many tokens and outputs keep for themselves; call before recording
    /// it.
    void reserve_scratch(uint32_t tokens, uint32_t outputs);
    /// What was recorded binds buffers that are others now.
    virtual void forget_recorded() noexcept = 0;
    /// Called where `stop` says so.
    [[noreturn]] virtual void fail_cancelled() const = 0;

    /// Records writes of `words` from `word` of `buffer` on, in pieces that vkCmdUpdateBuffer takes.
    static void write_words(vk::Recorder& recorder, const vk::Buffer& buffer, uint32_t word,
                            std::span<const uint32_t> words);
    /// Kernels that a batch without outputs needs: all before the first that works on output rows.
    size_t body_kernels() const;
    /// Those up to Graph::last_hidden.
    size_t hidden_kernels() const;

    vk::Device::Ticket submit(const vk::Commands& commands);
    /// Errors: timeout after a minute, ten on a CPU driver, whose machine may be busy otherwise.
    void wait(vk::Device::Ticket ticket) const {
        engine.device.wait(ticket, std::chrono::minutes(engine.device.caps().is_cpu() ? 10 : 1));
    }
    /// Records, submits and waits. When it throws, what was recorded does not run any more.
    void run(const std::function<void(vk::Recorder&)>& record);
    /// Waits for work that a failed call left behind (a time-out, say): it runs on these buffers.
    void outlast() noexcept;
    /// Submits, when at most one is on its way.
    vk::Device::Ticket submit_slice(Slice slice);
    /// Waits for the oldest on its way and learns its time.
    void land();
    void land_all() {
        while (!flight_.empty()) land();
    }
    /// As wait(), and lands what was submitted before.
    void land_until(vk::Device::Ticket ticket);

    /// What is recorded beside the kernels of a batch; each may be empty.
    struct Beside {
        std::function<void(vk::Recorder&)> before = {}, behind = {};
        std::function<void(vk::Recorder&, size_t kernel)> after = {};  // each, by its index in the plan
        bool host_reads = false;                                       // what `after` copies
    };
    /// Computes kernels [first, end), whose queries see `positions` keys at most. Errors: cancelled, between
    /// slices.
    void compute(Batch& work, size_t first, size_t end, uint32_t positions, const Beside& beside);
    /// Records a step of all of the decoder's kernels.
    void record_step(Step& step, Batch& work, uint32_t positions, const Beside& beside);
    /// Whether a step is recorded, and cut about as it would be now.
    bool stands(const Step& step, uint32_t count) const;
    vk::Device::Ticket submit_step(Step& step, uint32_t count);

    Engine::Impl& engine;
    Workspace workspace;
    const std::atomic<bool>* stop = nullptr;  // of the call that computes tokens: looked at between slices
    vk::Device::TimelinePoint host_point;     // the next submission waits for it
    vk::Device::Ticket last_submitted;
    bool profile = false;                          // timestamps around every dispatch
    std::vector<vk::DispatchTime> computed_times;  // of the last compute(), if `profile`

  private:
    /// What the pacer learns from, and with `profile` every dispatch by itself.
    vk::RecorderOptions timed_options(bool simultaneous_use = false) const;
    std::set<std::pair<uint32_t, uint32_t>> scratch_for_;  // tokens and outputs that scratch was sized for
    std::deque<Slice> flight_;  // two at most: a host's work on the queue waits for no more of a session
    std::chrono::steady_clock::time_point idle_since_;  // when the device last had none of them
    double slice_seconds_ = 0;                          // of the device, that the last one landed took
};

/// One that evict() and recover() find: from its first moment, and whole. Those within it
/// (Session::Impl::front) are its own to release.
template <class T> std::unique_ptr<T> make_tenant(Engine::Impl& engine) {
    const auto in_use = engine.use();
    auto made = std::make_unique<T>(engine);
    const std::lock_guard lock(engine.tenants_mutex);
    engine.tenants.push_back(made.get());
    return made;
}

}  // namespace scoria
