// What layers with a recurrence remember of sequences (struct Recurrence): where it stands, and of which
// length of a sequence it is.
#pragma once

#include "layer_shares.h"
#include "recurrence.push.h"

#include <array>
#include <optional>
#include <vector>

namespace scoria {

/// Bytes of one sequence's states, by layer, a multiple of `alignment` each: 0 where a layer remembers none,
/// or is not one of `layers`.
std::vector<uint64_t> state_strides(const Architecture& architecture, LayerRange layers, uint64_t alignment);

/// Every piece reads the states that the tokens before it left, in one slot, and leaves its own in the next
/// one (recurrence.push.h): so the states of the last few batches stand.
class StateRing {
  public:
    /// Whether a sequence can go on after `length` tokens.
    bool holds(uint32_t length) const { return length == 0 || slot_of(length); }
    /// PIECE_SHIFT of the tokens of a batch that begin at `position` and were computed last or are computed
    /// next, or of the token before the next one.
    uint32_t shift(uint32_t position) const;
    /// `count` tokens after `first` are computed in one batch. What is known of longer sequences is no more.
    void advance(uint32_t first, uint32_t count);
    void forget() { *this = {}; }

  private:
    std::optional<uint32_t> slot_of(uint32_t length) const;
    std::array<uint32_t, STATE_SLOTS> lengths_{};  // of the sequence, by slot; 0: of none
    uint32_t newest_ = 0;
};

}  // namespace scoria
