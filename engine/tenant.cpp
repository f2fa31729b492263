// See tenant.h.
#include "tenant.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace scoria {
namespace {

constexpr uint64_t update_limit = 65536;  // bytes, vkCmdUpdateBuffer

}  // namespace

void Tenant::leave() noexcept {
    const auto in_use = engine.use();  // first: recover() finds every tenant that has buffers
    release();
    const std::lock_guard lock(engine.tenants_mutex);
    std::erase(engine.tenants, this);
}

void Tenant::take_workspace(StepLayout layout, std::span<const uint32_t> table) {
    workspace = engine.workspace(layout, vk::MemoryUse::device, vk::MemoryUse::shared);
    run([&](vk::Recorder& recorder) {
        recorder.fill(workspace.step.view(), 0);
        write_words(recorder, workspace.step, layout.table_word(), table);
    });
}

void Tenant::release_workspace() noexcept {
    outlast();
    forget_recorded();
    flight_.clear();
    scratch_for_.clear();
    last_submitted = {};
    workspace = {};
}

void Tenant::reserve_logits(uint32_t rows) {
    const uint64_t bytes = 4ull * engine.model->architecture.logits() * rows;
    if (workspace.logits.size() >= bytes) return;
    land_all();  // a failed call's
    workspace.logits = shared_buffer(bytes);
    forget_recorded();
}

void Tenant::reserve_scratch(uint32_t tokens, uint32_t outputs) {
    if (scratch_for_.contains({tokens, outputs})) return;
    const Scratch bytes = engine.scratch_bytes(tokens, outputs);
    const auto reserve = [&](vk::Buffer& buffer, uint64_t wanted, auto&& begin) {
        if (buffer.size() >= wanted) return;
        land_all();  // a failed call's
        vk::Buffer made = device_buffer(wanted);
        begin(made);
        buffer = std::move(made);
        forget_recorded();
    };
    reserve(workspace.scratch, bytes.linear, [](const vk::Buffer&) {});
    reserve(workspace.partials, bytes.partials, [&](const vk::Buffer& made) {
        run([&](vk::Recorder& recorder) { clear_arrivals(recorder, made.view()); });
    });
    scratch_for_.emplace(tokens, outputs);
}

void Tenant::write_words(vk::Recorder& recorder, const vk::Buffer& buffer, uint32_t word,
                         std::span<const uint32_t> words) {
    for (size_t done = 0; done < words.size();) {
        const std::span<const uint32_t> part =
            words.subspan(done, std::min<size_t>(words.size() - done, update_limit / 4));
        recorder.update(buffer.view(4 * (word + done), part.size_bytes()), std::as_bytes(part));
        done += part.size();
    }
}

size_t Tenant::body_kernels() const {
    const auto& kernels = engine.plan.kernels;
    const auto on_outputs = [&](const PlannedKernel& k) {
        return engine.graph.tensors[k.results.front().index].rows == RowKind::outputs;
    };
    const auto first = kernels.begin() + std::ptrdiff_t(engine.plan.encoder_kernels);
    return size_t(std::find_if(first, kernels.end(), on_outputs) - kernels.begin());
}

size_t Tenant::hidden_kernels() const {
    size_t end = engine.plan.kernels.size();
    const auto makes_it = [&](const PlannedKernel& k) {
        return std::ranges::find(k.results, engine.graph.last_hidden) != k.results.end();
    };
    while (!makes_it(engine.plan.kernels[end - 1])) --end;
    return end;
}

vk::Device::Ticket Tenant::submit(const vk::Commands& commands) {
    const VkCommandBuffer handle = commands.handle();
    if (!host_point.semaphore) return last_submitted = engine.device.submit({&handle, 1});
    last_submitted = engine.device.submit_after({&handle, 1}, host_point);
    host_point = {};
    return last_submitted;
}

void Tenant::run(const std::function<void(vk::Recorder&)>& record) {
    vk::Recorder recorder(engine.device, engine.pipelines, engine.recorder_options());
    record(recorder);
    const vk::Commands commands = recorder.finish();
    submit(commands);
    try {
        wait(last_submitted);
    } catch (...) {
        outlast();
        throw;
    }
}

void Tenant::outlast() noexcept {
    try {
        wait(last_submitted);
    } catch (const std::exception&) {  // lost, or it hangs, and then the platform frees nothing
    }
}

vk::Device::Ticket Tenant::submit_slice(Slice slice) {
    while (flight_.size() >= 2) land();
    if (engine.options.on_slice) engine.options.on_slice(slice_seconds_);
    slice.submitted = std::chrono::steady_clock::now();
    if (flight_.empty()) idle_since_ = slice.submitted;
    slice.ticket = submit(slice.commands());
    flight_.push_back(std::move(slice));
    return last_submitted;
}

void Tenant::land() {
    const Slice& slice = flight_.front();
    wait(slice.ticket);
    const auto now = std::chrono::steady_clock::now();
    // The device's own time, without what others did between; but a replay on its way writes it anew.
    const bool replayed = slice.replayed && flight_.size() == 2 && flight_[1].replayed == slice.replayed;
    const double measured = replayed ? 0 : slice.commands().seconds().value_or(0);
    const double waited = std::chrono::duration<double>(now - idle_since_).count();
    // Some drivers' clocks stand still, others' begin anew amid a slice.
    const bool timed = measured > 0 && std::chrono::duration<double>(measured) <= now - slice.submitted;
    slice_seconds_ = timed ? measured : waited;
    idle_since_ = now;
    // Of a first run the device's own time counts alone; that of CPU drivers has their compilers in it.
    if (!slice.first_run || (timed && !engine.device.caps().is_cpu()))
        slice.pacer->learn(slice.cost, slice_seconds_);
    if (profile && !slice.replayed)
        for (const vk::DispatchTime& time : slice.owned.times()) computed_times.push_back(time);
    flight_.pop_front();
}

void Tenant::land_until(vk::Device::Ticket ticket) {
    while (!flight_.empty() && flight_.front().ticket.value <= ticket.value) land();
    wait(ticket);
}

vk::RecorderOptions Tenant::timed_options(bool simultaneous_use) const {
    vk::RecorderOptions options = engine.recorder_options(simultaneous_use);
    options.timestamps = profile;
    options.timed = true;
    return options;
}

void Tenant::compute(Batch& work, size_t first, size_t end, uint32_t positions, const Beside& beside) {
    Pacer& pacer = engine.pacer(work.tokens());
    const std::vector<Batch::Part> parts =
        work.parts(engine.device.caps(), first, end, positions, pacer.most_cost());
    std::vector<double> costs;
    for (const Batch::Part& part : parts) costs.push_back(part.cost);
    // A GPU computes one slice while the next is recorded, which takes a prompt's tenth (CPU drivers have no
    // processor to spare for that).
    const double most = engine.device.caps().is_cpu() ? std::numeric_limits<double>::infinity()
                                                      : std::accumulate(costs.begin(), costs.end(), 0.0) / 8;
    computed_times.clear();
    try {
        for (size_t at = 0; at < parts.size();) {
            // By what landed meanwhile: the first slices are as long as a guess.
            const size_t slice_end = at + pacer.fitting(std::span(costs).subspan(at), most);
            if (stop && *stop) {
                land_all();
                fail_cancelled();
            }
            vk::Recorder recorder(engine.device, engine.pipelines, timed_options());
            if (at == 0 && beside.before) beside.before(recorder);
            double cost = 0;
            for (; at < slice_end; ++at) {
                work.record(recorder, parts[at]);
                if (parts[at].last && beside.after) beside.after(recorder, parts[at].kernel);
                cost += costs[at];
            }
            if (at == parts.size() && beside.behind) beside.behind(recorder);
            if (beside.host_reads) recorder.make_host_visible();
            Slice slice{.owned = recorder.finish(), .cost = cost, .pacer = &pacer};
            slice.first_run = slice.owned.stats().first_uses != 0;
            submit_slice(std::move(slice));
        }
        land_all();
    } catch (...) {
        outlast();  // callers free what slices on their way write
        std::erase_if(flight_, [](const Slice& slice) { return !slice.replayed; });
        throw;
    }
}

void Tenant::record_step(Step& to, Batch& work, uint32_t positions, const Beside& beside) {
    land_all();  // what was recorded before
    to = {};
    Step step;  // whole, or none: a part of one could be taken for one in fewer slices
    const size_t first = engine.plan.encoder_kernels;
    work.fold_step();
    for (size_t i = first; i < engine.plan.kernels.size(); ++i)
        step.kernel_costs.push_back(work.cost(engine.device.caps(), i, positions));
    const vk::RecorderOptions options = timed_options(true);
    size_t at = 0;
    for (const size_t slice_end : engine.pacer(work.tokens()).cut(step.kernel_costs)) {
        vk::Recorder recorder(engine.device, engine.pipelines, options);
        const size_t before = step.layers.size();
        double cost = 0;
        if (at == 0 && beside.before) beside.before(recorder);
        for (; at < slice_end; ++at) {
            work.record(recorder, first + at);
            if (beside.after) beside.after(recorder, first + at);
            step.layers.resize(before + recorder.stats().dispatches, engine.plan.kernels[first + at].layer);
            cost += step.kernel_costs[at];
        }
        if (at == step.kernel_costs.size() && beside.behind) {
            beside.behind(recorder);
            step.layers.resize(before + recorder.stats().dispatches, -1);
        }
        step.first_run = step.first_run || recorder.stats().first_uses != 0;
        step.slices.push_back(recorder.finish());
        step.costs.push_back(cost);
    }
    to = std::move(step);
}

bool Tenant::stands(const Step& step, uint32_t count) const {
    if (step.slices.empty() || !engine.options.replay) return false;
    const size_t had = step.slices.size(), now = engine.pacer(count).cut(step.kernel_costs).size();
    return now <= had && 2 * now >= had;
}

vk::Device::Ticket Tenant::submit_step(Step& step, uint32_t count) try {
    for (size_t i = 0; i < step.slices.size(); ++i)
        submit_slice({.replayed = &step.slices[i],
                      .cost = step.costs[i],
                      .first_run = step.first_run,
                      .pacer = &engine.pacer(count)});
    step.first_run = false;
    return last_submitted;
} catch (...) {
    outlast();  // callers may free what the slices on their way read
    throw;
}

}  // namespace scoria
