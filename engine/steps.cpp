// What runs on the device in slices: submissions that the pacer cuts, two on their way at most. Steps of few
// tokens are recorded once and replayed slice by slice; they are cut anew when their times have changed.
#include "session_impl.h"

#include "system.h"

#include <algorithm>

namespace scoria {
vk::Device::Ticket Session::Impl::submit_slice(Slice slice) {
    while (flight.size() >= 2) land();
    if (engine.options.on_slice) engine.options.on_slice(slice_seconds);
    if (flight.empty()) idle_since = std::chrono::steady_clock::now();
    slice.ticket = submit(slice.commands());
    flight.push_back(std::move(slice));
    return last_submitted;
}

void Session::Impl::land() {
    const Slice& slice = flight.front();
    wait(slice.ticket);
    const auto now = std::chrono::steady_clock::now();
    // The device's own time, without what others did between; but a replay on its way writes it anew.
    const bool replayed = slice.replayed && flight.size() == 2 && flight[1].replayed == slice.replayed;
    const std::optional<double> measured = replayed ? std::nullopt : slice.commands().seconds();
    slice_seconds = measured.value_or(std::chrono::duration<double>(now - idle_since).count());
    idle_since = now;
    if (!slice.first_run) slice.pacer->learn(slice.cost, slice_seconds);
    flight.pop_front();
}

void Session::Impl::land_until(vk::Device::Ticket ticket) {
    while (!flight.empty() && flight.front().ticket.value <= ticket.value) land();
    wait(ticket);
}

void Session::Impl::record_step(Step& step, uint32_t count, const std::function<void(vk::Recorder&)>& end) {
    reserve_scratch(count);
    land_all();  // what was recorded before
    step = {};
    const size_t first = engine.plan.encoder_kernels, created = engine.pipelines.created();
    Batch work = batch(count, engine.stream_out ? 0 : count);
    if (!engine.choices.pinned) work.fold_norms();  // else a step has the bits of a prompt
    for (size_t i = first; i < engine.plan.kernels.size(); ++i)
        step.kernel_costs.push_back(work.cost(i, std::max(source, uint32_t(tokens.size()))));
    vk::RecorderOptions options = engine.recorder_options(true);
    options.timed = true;
    size_t at = 0;
    for (const size_t slice_end : engine.pacer(count).cut(step.kernel_costs)) {
        vk::Recorder recorder(engine.device, engine.pipelines, options);
        const size_t before = step.layers.size();
        double cost = 0;
        if (at == 0) receive(recorder, work);
        for (; at < slice_end; ++at) {
            work.record(recorder, first + at);
            if (count == 1) watch(recorder, work, first + at);  // else what comes last is a guess
            step.layers.resize(before + recorder.stats().dispatches, engine.plan.kernels[first + at].layer);
            cost += step.kernel_costs[at];
        }
        if (at == step.kernel_costs.size()) send(recorder, work);
        if (at == step.kernel_costs.size() && end) {
            end(recorder);
            step.layers.resize(before + recorder.stats().dispatches, -1);
        }
        step.slices.push_back(recorder.finish());
        step.costs.push_back(cost);
    }
    step.first_run = engine.pipelines.created() != created;
}

bool Session::Impl::stands(const Step& step, uint32_t count) const {
    if (step.slices.empty() || !engine.options.replay) return false;
    const size_t had = step.slices.size(), now = engine.pacer(count).cut(step.kernel_costs).size();
    return now <= had && 2 * now >= had;
}

vk::Device::Ticket Session::Impl::submit_step(Step& step, uint32_t count) {
    for (size_t i = 0; i < step.slices.size(); ++i)
        submit_slice({.replayed = &step.slices[i],
                      .cost = step.costs[i],
                      .first_run = step.first_run,
                      .pacer = &engine.pacer(count)});
    step.first_run = false;
    return last_submitted;
}

vk::Device::Ticket Session::Impl::submit_pass(uint32_t count) {
    reserve_scratch(count);  // which may forget all steps
    Step& pass = passes[count];
    if (!stands(pass, count)) record_step(pass, count, {});
    return submit_step(pass, count);
}

vk::Device::Ticket Session::Impl::submit_decode(const SampleKind& kind) {
    if (decode_recorded != kind || !stands(decode, 1)) {
        record_step(decode, 1, [&](vk::Recorder& recorder) {
            sample(recorder, kind);
            recorder.make_host_visible();
        });
        decode_recorded = kind;
    }
    const double start = thread_cpu_us();
    const vk::Device::Ticket ticket = submit_step(decode, 1);
    submit_us.push_back(thread_cpu_us() - start);
    return ticket;
}

}  // namespace scoria
