// See states.h.
#include "states.h"

#include "fail.h"
#include "ops/recurrence.h"

#include <limits>

namespace scoria {

std::vector<uint64_t> state_strides(const Architecture& architecture, LayerRange layers, uint64_t alignment) {
    std::vector<uint64_t> strides;
    for (size_t i = 0; i < architecture.layers.size(); ++i) {
        const Layer& layer = architecture.layers[i];
        const uint64_t bytes = StateSlots::all * state_bytes(layer.recurrence);
        const bool here = layer.recurs() && layers.has(i);
        strides.push_back(here ? groups_for(bytes, alignment) * alignment : 0);
    }
    return strides;
}

uint32_t StateSlots::longest_of(std::span<const uint32_t> lengths, uint32_t length) {
    uint32_t longest = 0;
    for (const uint32_t each : lengths)
        if (each <= length) longest = std::max(longest, each);
    return longest;
}

StateSlots::Copy StateSlots::to_keep(bool shared) const {
    uint32_t to = STATE_SLOTS;
    const auto rank = [&](uint32_t slot) {
        if (slot != shared_ || lengths_[slot] == 0) return lengths_[slot];
        return shared ? 0 : std::numeric_limits<uint32_t>::max();
    };
    for (uint32_t slot = to + 1; slot < all; ++slot)
        if (rank(slot) < rank(to)) to = slot;
    return {newest_, to, lengths_[newest_], shared};
}

std::optional<StateSlots::Copy> StateSlots::to_go_on(uint32_t length) const {
    if (length == 0 || slot_of(length)) return {};
    const auto from = std::find(lengths_.begin() + STATE_SLOTS, lengths_.end(), length);
    if (from == lengths_.end())
        fail(Status::failed, "states", "expected those after ", length, " tokens, got none");
    return Copy{uint32_t(from - lengths_.begin()), (newest_ + 1) % STATE_SLOTS, length};
}

void StateSlots::copied(const Copy& copy) {
    lengths_[copy.to] = copy.length;
    if (copy.to < STATE_SLOTS) newest_ = copy.to;
    if (copy.shared)
        shared_ = copy.to;
    else if (copy.to == shared_)
        shared_ = 0;
}

std::optional<uint32_t> StateSlots::slot_of(uint32_t length) const {
    for (uint32_t back = 0; back < STATE_SLOTS; ++back) {
        const uint32_t slot = (newest_ + STATE_SLOTS - back) % STATE_SLOTS;
        if (lengths_[slot] == length) return slot;
    }
    return {};
}

uint32_t StateSlots::shift(uint32_t position) const {
    const uint32_t slot = slot_of(position).value_or((newest_ + STATE_SLOTS - 1) % STATE_SLOTS);
    return (slot + STATE_SLOTS - position % STATE_SLOTS) % STATE_SLOTS;
}

void StateSlots::advance(uint32_t first, uint32_t count) {
    const std::optional<uint32_t> from = slot_of(first);
    for (uint32_t& length : lengths_)
        if (length > first) length = 0;
    newest_ = (from.value_or(newest_) + 1) % STATE_SLOTS;
    lengths_[newest_] = first + count;
}

}  // namespace scoria
