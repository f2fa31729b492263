// What layers with a recurrence remember of one sequence (struct Recurrence): where it stands, and of which
// length of the sequence it is.
#pragma once

#include "layer_shares.h"
#include "recurrence.push.h"

#include <array>
#include <optional>
#include <vector>

namespace scoria {

/// A session's buffer of states: by layer, those it remembers. `bytes` 0: no layer here remembers any.
struct StatePlaces {
    struct Place {
        uint64_t offset = 0, bytes = 0;
    };
    std::vector<Place> layers;
    uint64_t bytes = 0;
};
StatePlaces state_places(const Architecture& architecture, LayerRange layers, uint64_t alignment);

/// Every batch reads the states that the tokens before it left, in one slot, and leaves its own in the next
/// one (recurrence.push.h): so the states of the last few batches stand.
class StateRing {
  public:
    /// Whether a sequence can go on after `length` tokens.
    bool holds(uint32_t length) const { return length == 0 || slot_of(length); }
    /// STEP_STATE_SHIFT for the batch that begins at `position` and was computed last or is computed next, or
    /// for the token before the next one.
    uint32_t shift(uint32_t position) const;
    /// A batch of `count` tokens after `first` is computed. What is known of longer sequences is no more.
    void advance(uint32_t first, uint32_t count);
    void forget() { *this = {}; }

  private:
    std::optional<uint32_t> slot_of(uint32_t length) const;
    std::array<uint32_t, STATE_SLOTS> lengths_{};  // of the sequence, by slot; 0: of none
    uint32_t newest_ = 0;
};

}  // namespace scoria
