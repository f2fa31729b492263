// See states.h.
#include "states.h"

#include "fail.h"
#include "ops/recurrence.h"

namespace scoria {

std::vector<uint64_t> state_strides(const Architecture& architecture, LayerRange layers, uint64_t alignment) {
    std::vector<uint64_t> strides;
    for (size_t i = 0; i < architecture.layers.size(); ++i) {
        const Layer& layer = architecture.layers[i];
        const bool here = layer.recurs() && layers.has(i);
        strides.push_back(here ? groups_for(state_bytes(layer.recurrence), alignment) * alignment : 0);
    }
    return strides;
}

std::optional<uint32_t> StateRing::slot_of(uint32_t length) const {
    for (uint32_t back = 0; back < STATE_SLOTS; ++back) {
        const uint32_t slot = (newest_ + STATE_SLOTS - back) % STATE_SLOTS;
        if (lengths_[slot] == length) return slot;
    }
    return {};
}

uint32_t StateRing::shift(uint32_t position) const {
    const uint32_t slot = slot_of(position).value_or((newest_ + STATE_SLOTS - 1) % STATE_SLOTS);
    return (slot + STATE_SLOTS - position % STATE_SLOTS) % STATE_SLOTS;
}

void StateRing::advance(uint32_t first, uint32_t count) {
    const std::optional<uint32_t> from = slot_of(first);
    if (!from && first > 0)
        fail(Status::failed, "states", "expected those after ", first, " tokens, got none");
    for (uint32_t& length : lengths_)
        if (length > first) length = 0;
    newest_ = (from.value_or(newest_) + 1) % STATE_SLOTS;
    lengths_[newest_] = first + count;
}

}  // namespace scoria
