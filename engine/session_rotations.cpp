// Of a session whose rotations depend on its length (dynamic NTK, LongRoPE): the tables on the device, and
// when they are others.
#include "ops/rope.h"
#include "session_impl.h"

#include <algorithm>

namespace scoria {

bool Session::Impl::rotations_change(uint64_t length) const {
    return std::ranges::any_of(engine.model->architecture.ropes, [&](const Rope& rope) {
        return rope.short_length != 0 &&
               rope_frequencies(rope, length) != rope_frequencies(rope, rotated_length);
    });
}

void Session::Impl::set_rotations(uint64_t length) {
    const bool change = rotations_change(length);
    rotated_length = length;
    if (!change) return;
    computed = 0;
    logits_ready = false;
    try {
        upload_rotations();
    } catch (...) {  // it is made anew, then, with these tables
        for (Impl* part = this; part; part = part->front.get()) part->on_device = false;
        throw;
    }
}

void Session::Impl::upload_rotations() {
    if (front && on_device) {
        front->rotated_length = rotated_length;
        front->upload_rotations();
    }
    for (size_t i = 0; i < workspace.ropes.size(); ++i) {
        const std::vector<float> table =
            rope_tables(engine.model->architecture.ropes[i], engine.memory.context, rotated_length);
        const vk::Buffer staging(engine.device, 4 * table.size(), vk::MemoryUse::staging);
        std::ranges::copy(std::as_bytes(std::span(table)), staging.mapped().begin());
        run([&](vk::Recorder& recorder) { recorder.copy(staging.view(), workspace.ropes[i].view()); });
    }
}

}  // namespace scoria
