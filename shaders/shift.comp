// out[t] = x[t] + shift[m] (x[t - 1] - x[t]), one mix m after the other; the row before a piece's first is what the state
// remembers, and it remembers the piece's last. A lane has one element of x.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "grid.glsl"
#include "recurrence.push.h"

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
layout(binding = 1) readonly buffer X { float x[]; };
layout(binding = 2) readonly buffer Shifts { float shifts[]; };  // [mixes, cols]
layout(binding = 3) buffer State { float state[]; };             // of each slot, from state_first on, [cols]
layout(binding = 4) writeonly buffer Out { float result[]; };
layout(push_constant) uniform Push { ShiftPush push; };
#include "recurrence.glsl"

void main() {
    const uint element = group_index() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (element >= push.tokens * push.cols) return;
    const uint row = element / push.cols, column = element % push.cols;
    const Piece piece = piece_at(piece_of(row));
    const uint at = push.x_first + row * push.x_stride + column, remembered = push.state_first + column;
    const float here = x[at];
    float before = 0.0;
    if (row != piece.first)
        before = x[at - push.x_stride];
    else if (!piece.begins)
        before = state[piece.remembered + remembered];
    for (uint mix = 0; mix < push.mixes; ++mix)
        result[push.out_first + row * push.out_stride + mix * push.cols + column] =
            here + shifts[mix * push.cols + column] * (before - here);
    if (row + 1 == piece.first + piece.tokens) state[piece.remember + remembered] = here;
}
