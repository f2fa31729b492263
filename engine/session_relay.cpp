// How one device's residual stream reaches the next of several, and what the head reads a model ahead:
// through host memory.
#include "session_impl.h"

#include <cstring>

namespace scoria {

void Session::Impl::receive(vk::Recorder& recorder, const Batch& work) const {
    if (!engine.stream_in) return;
    const vk::View to = work.matrix(*engine.stream_in).view;
    recorder.copy(incoming.view(0, to.size), to);
}

void Session::Impl::send(vk::Recorder& recorder, const Batch& work) const {
    const std::optional<TensorId> out = engine.to_host();
    if (!out) return;
    const Matrix from = work.matrix(*out);
    recorder.copy(from.view, outgoing.view(0, from.view.size));
    recorder.make_host_visible();
    if (!engine.graph.given) return;
    // The next token comes with what was made of the last one.
    const Matrix to = batch(1, 0).matrix(*engine.graph.given);
    recorder.copy(from.view.slice(4ull * (from.first + (from.rows - 1) * from.stride), 4ull * from.cols),
                  incoming.view(4ull * to.first, 4ull * to.cols));
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
    if (!engine.graph.shown || engine.graph.given || engine.stream_out) return;
    const Matrix from = batch(count, 0).matrix(*engine.graph.shown);
    const auto* floats = reinterpret_cast<const float*>(outgoing.mapped().data());
    for (uint32_t row = 0; row < count; ++row)
        shown.put(position + row, std::span(floats + from.first + row * from.stride, from.cols));
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
