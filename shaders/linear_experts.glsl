// -DEXPERTS: with LINEAR_EXPERTS the weight is those of a mixture of experts, one after the other, and a token stands for one
// of the experts that a token uses. A workgroup has one of them.
layout(constant_id = LINEAR_EXPERTS) const bool OF_EXPERTS = false;

uint expert_x, expert_out;  // first words
uint expert_row;            // its first, of all

// Routes are [tokens][ids of the chosen experts as floats, their shares]; an id past the experts counts as the last.
void choose_expert(const uint item) {
    const uint token = item / push.used, slot = item % push.used;
    uint expert = slot;
    if ((push.flags & LINEAR_IS_SLOT) == 0) {
        const float id = residual[push.residual_first + token * push.residual_stride + slot];
        expert = id > 0.0 ? min(uint(min(id, 65535.0)), push.experts - 1) : 0;
    }
    const uint out_cols = (push.flags & LINEAR_GLU) != 0 ? push.rows / 2 : push.rows;
    expert_x = push.x_first + token * push.x_stride + slot * push.slot_stride;
    expert_out = push.out_first + token * push.out_stride + slot * out_cols;
    expert_row = expert * push.rows;
}
