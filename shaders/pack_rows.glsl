// First word of the row of x that becomes packed token `token`.
uint packed_from(const uint token) {
    if (push.slots == 1) return push.x_first + token * push.x_stride;
    return push.x_first + token / push.slots * push.x_stride + token % push.slots * push.slot_stride;
}
