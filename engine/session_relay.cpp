// How one device's residual stream reaches the next of several, and what the head reads a model ahead:
// through host memory.
#include "session_impl.h"

#include <algorithm>
#include <cstring>

namespace scoria {

void Session::Impl::receive(vk::Recorder& recorder, const Batch& work) const {
    if (!engine.stream_in) return;
    const vk::View to = work.matrix(*engine.stream_in).view;
    recorder.copy(incoming.view(0, to.size), to);
}

void Session::Impl::send(vk::Recorder& recorder, const Batch& work) const {
    if (engine.stream_out) {
        const vk::View from = work.matrix(*engine.stream_out).view;
        recorder.copy(from, outgoing.view(0, from.size));
    }
    if (chains()) {
        const Matrix from = work.matrix(engine.graph.shown.front()),
                     to = batch(1, 0).matrix(*engine.graph.given);
        const uint64_t last = from.first + uint64_t{from.rows - 1} * from.stride;
        recorder.copy(from.view.slice(4 * last, 4ull * from.cols),
                      incoming.view(4ull * to.first, 4ull * to.cols));
    }
    if (outgoing || chains()) recorder.make_host_visible();
}

std::vector<uint64_t> Session::Impl::shown_places() const {
    std::vector<uint64_t> places{0};
    if (chains() || engine.graph.shown.empty()) return places;
    const Batch most = batch(workspace.layout.tokens, 0);
    for (const TensorId each : engine.graph.shown)
        places.push_back(places.back() + most.matrix(each).view.size);
    return places;
}

void Session::Impl::show(vk::Recorder& recorder, const Batch& work, size_t index) const {
    const std::vector<TensorId>&tensors = engine.graph.shown, &made = engine.plan.kernels[index].results;
    for (size_t i = 0; i < tensors.size() && outgoing; ++i) {
        if (engine.stream_out || std::ranges::find(made, tensors[i]) == made.end()) continue;
        const vk::View from = work.matrix(tensors[i]).view;
        recorder.copy(from, outgoing.view(shown_places()[i], from.size));
    }
}

void Session::Impl::bring_given(uint32_t position, uint32_t count) {
    if (!engine.graph.given) return;
    const Matrix to = batch(count, 0).matrix(*engine.graph.given);
    for (uint32_t row = 0; row < count; ++row) {
        std::byte* const place = incoming.mapped().data() + 4ull * (to.first + row * to.stride);
        const std::span<const float> known = given.row(position + row);
        known.empty() ? std::memset(place, 0, 4ull * to.cols)
                      : std::memcpy(place, known.data(), known.size_bytes());
    }
}

void Session::Impl::take_shown(uint32_t position, uint32_t count) {
    const std::vector<TensorId>& tensors = engine.graph.shown;
    if (tensors.empty() || chains() || engine.stream_out) return;
    const std::vector<uint64_t> places = shown_places();
    const Batch work = batch(count, 0);
    std::vector<float> values;
    for (uint32_t row = 0; row < count; ++row) {
        values.clear();
        for (size_t i = 0; i < tensors.size(); ++i) {
            const Matrix from = work.matrix(tensors[i]);
            const auto* floats = reinterpret_cast<const float*>(outgoing.mapped().data() + places[i]) +
                                 from.first + row * from.stride;
            values.insert(values.end(), floats, floats + from.cols);
        }
        shown.put(position + row, values);
    }
}

void Session::Impl::hand_over(uint32_t count) {
    const Matrix from = front->batch(count, 0).matrix(*front->engine.stream_out);
    const Matrix to = batch(count, 0).matrix(*engine.stream_in);
    for (uint32_t row = 0; row < count; ++row)
        std::memcpy(incoming.mapped().data() + 4ull * (to.first + row * to.stride),
                    front->outgoing.mapped().data() + 4ull * (from.first + row * from.stride),
                    4ull * to.cols);
}

void Session::Impl::bring_step(std::span<const TokenId> ids, uint32_t position) {
    if (!front) return;
    front->bring_step(ids, position);
    vk::Recorder recorder(front->engine.device, front->engine.pipelines, front->engine.recorder_options());
    front->write_step(recorder, ids, position, {});
    front->step_update = recorder.finish();
    front->writes(position, ids.size());
    front->submit(front->step_update);
    try {
        front->land_until(front->submit_pass(uint32_t(ids.size())));
    } catch (...) {
        front->outlast();
        throw;
    }
    hand_over(uint32_t(ids.size()));
}

}  // namespace scoria
