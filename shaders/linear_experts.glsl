// -DEXPERTS: with LINEAR_EXPERTS the weight is those of a mixture of experts, one after the other, and a token stands for one
// of the experts that a token uses. A workgroup has one of them.
#include "expert_id.glsl"
layout(constant_id = LINEAR_EXPERTS) const bool OF_EXPERTS = false;

uint expert_x, expert_out;  // first words
uint expert_row;            // its first, of all

// Routes are [tokens][ids of the chosen experts as floats, their shares].
void choose_expert(const uint item) {
    const uint token = item / push.used, slot = item % push.used;
    uint expert = slot;
    if ((push.flags & LINEAR_IS_SLOT) == 0) {
        expert = expert_of_id(residual[push.residual_first + token * push.residual_stride + slot], push.experts);
    }
    const uint out_cols = (push.flags & LINEAR_GLU) != 0 ? push.rows / 2 : push.rows;
    expert_x = push.x_first + token * push.x_stride + slot * push.slot_stride;
    expert_out = push.out_first + token * push.out_stride + slot * out_cols;
    expert_row = expert * push.rows;
}
// Whether this shard has none of `count` of something, of which it holds the first `held`: they begin with the `first` of them,
// which wraps where the shard begins behind it.
bool is_elsewhere(const uint first, const uint count, const uint held) {
    const int from = int(first), to = from + int(count);
    return to <= 0 || from >= int(held);
}
