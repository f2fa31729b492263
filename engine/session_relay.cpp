// Of a session over several devices: how one device's residual stream reaches the next, through host memory.
#include "session_impl.h"

#include <cstring>

namespace scoria {

void Session::Impl::receive(vk::Recorder& recorder, const Batch& work) const {
    if (!front) return;
    const vk::View to = work.matrix(*engine.stream_in).view;
    recorder.copy(incoming.view(0, to.size), to);
}

void Session::Impl::send(vk::Recorder& recorder, const Batch& work) const {
    if (!engine.stream_out) return;
    const vk::View from = work.matrix(*engine.stream_out).view;
    recorder.copy(from, outgoing.view(0, from.size));
    recorder.make_host_visible();
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
