// With LINEAR_EXPERTS the weight is those of a mixture of experts, one after the other, and a workgroup has one of
// them. Direct, a token stands for one of the experts that a token uses. Sorted, it is a place of the lists that
// expert_sort.comp makes, where whole tiles of tokens have one expert.
#include "expert_id.glsl"
layout(constant_id = LINEAR_EXPERTS) const uint EXPERTS_ARE = 0;
const bool OF_EXPERTS = EXPERTS_ARE != 0, SORTED = EXPERTS_ARE == LINEAR_EXPERTS_SORTED;

layout(set = 0, binding = 3) readonly buffer Lists { uint lists[]; };

uint expert_x, expert_out;  // first words, of what goes direct
uint expert_row;            // its first, of all

uint first_tile() { return SORTED ? push.first_tile : 0; }
// Where a token's results go, or EXPERT_NONE.
uint sorted_out(const uint token) { return lists[push.tokens + min(token, push.tokens - 1)]; }

// Direct: routes are [tokens][ids of the chosen experts as floats, their shares]. False where no expert has the tile.
bool choose_expert(const uint first, const uint tile_tokens) {
    if (SORTED) {
        const uint expert = lists[2 * push.tokens + first / tile_tokens];
        expert_row = expert * push.rows;
        return expert != EXPERT_NONE;
    }
    const uint token = first / push.used, slot = first % push.used;
    uint expert = slot;
    if ((push.flags & LINEAR_IS_SLOT) == 0) {
        expert = expert_of_id(residual[push.residual_first + token * push.residual_stride + slot], push.experts);
    }
    const uint out_cols = (push.flags & LINEAR_GLU) != 0 ? push.rows / 2 : push.rows;
    expert_x = push.x_first + token * push.x_stride + slot * push.slot_stride;
    expert_out = push.out_first + token * push.out_stride + slot * out_cols;
    expert_row = expert * push.rows;
    return true;
}
// Whether this shard has none of `count` of something, of which it holds the first `held`: they begin with the `first` of them,
// which wraps where the shard begins behind it.
bool is_elsewhere(const uint first, const uint count, const uint held) {
    const int from = int(first), to = from + int(count);
    return to <= 0 || from >= int(held);
}
