// What layers with a recurrence remember of sequences (struct Recurrence): where it stands, and of which
// length of a sequence it is.
#pragma once

#include "layer_shares.h"
#include "recurrence.push.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <vector>

namespace scoria {

/// Bytes of one sequence's states, by layer, a multiple of `alignment` each: 0 where a layer remembers none,
/// or is not one of `layers`.
std::vector<uint64_t> state_strides(const Architecture& architecture, LayerRange layers, uint64_t alignment);

/// Every piece reads the states that the tokens before it left, in one slot, and leaves its own in the next
/// one (recurrence.push.h): so the states of the last few batches stand. Behind these slots are some that few
/// lengths are kept in, so that a sequence cut back farther than that need not begin anew.
class StateSlots {
  public:
    static constexpr uint32_t kept = 2, all = STATE_SLOTS + kept;

    /// Whether a sequence can go on after `length` tokens.
    bool holds(uint32_t length) const { return length == 0 || std::ranges::count(lengths_, length) != 0; }
    /// The longest length of at most `length` tokens after which it can; and the longest that is kept, 0:
    /// none.
    uint32_t longest(uint32_t length) const { return longest_of(lengths_, length); }
    uint32_t longest_kept(uint32_t length) const {
        return longest_of(std::span(lengths_).last(kept), length);
    }
    /// From slot to slot, of a sequence of `length` tokens; of a beginning that sequences share.
    struct Copy {
        uint32_t from, to, length;
        bool shared = false;
    };
    /// Keeps what was computed last, in the place of what is shortest; what is shared makes way only for
    /// another.
    Copy to_keep(bool shared) const;
    /// Before tokens after `length` are computed: nothing, unless it is kept only.
    std::optional<Copy> to_go_on(uint32_t length) const;
    /// Before it is copied, and when it has been.
    void copies(const Copy& copy) { lengths_[copy.to] = 0; }
    void copied(const Copy& copy);
    /// PIECE_SHIFT of the tokens of a batch that begin at `position` and were computed last or are computed
    /// next, or of the token before the next one.
    uint32_t shift(uint32_t position) const;
    /// `count` tokens after `first` are computed in one batch. What is known of longer sequences is no more.
    void advance(uint32_t first, uint32_t count);
    void forget() { *this = {}; }

  private:
    static uint32_t longest_of(std::span<const uint32_t> lengths, uint32_t length);
    std::optional<uint32_t> slot_of(uint32_t length) const;  // by turns
    std::array<uint32_t, all> lengths_{};                    // of the sequence, by slot; 0: of none
    uint32_t shared_ = 0;                                    // the slot of what is shared; 0: none
    uint32_t newest_ = 0;
};

}  // namespace scoria
