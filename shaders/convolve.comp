// out[t][c] = act(bias[c] + sum over j of taps[c][j] x[t - taps + 1 + j][c]); rows of x before this piece's are those
// that the state remembers, and it remembers the last ones of this piece. A lane has one channel of CONVOLVE_ROWS rows.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "grid.glsl"
#include "numerics.glsl"
#include "recurrence.push.h"

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
layout(constant_id = CONVOLVE_ACTIVATION) const uint ACTIVATION = ACTIVATION_SILU;
layout(constant_id = CONVOLVE_TAPS) const uint TAPS = 4;
layout(binding = 1) readonly buffer X { float x[]; };
layout(binding = 2) readonly buffer Taps { float taps[]; };  // [channels, taps]
layout(binding = 3) readonly buffer Bias { float bias[]; };  // without one, any buffer
layout(binding = 4) buffer State { float state[]; };         // of each slot, first, [taps - 1, channels]
layout(binding = 5) writeonly buffer Out { float result[]; };
layout(push_constant) uniform Push { ConvolvePush push; };
#include "recurrence.glsl"

// Row `later` of what is remembered, then of the piece's x.
float value(const Piece piece, const uint later, const uint channel) {
    if (later >= TAPS - 1) return x[push.x_first + (piece.first + later - (TAPS - 1)) * push.x_stride + channel];
    return piece.begins ? 0.0 : state[piece.remembered + later * push.channels + channel];
}

void main() {
    const uint blocks = (push.channels + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
    const uint channel = group_index() % blocks * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    const uint first = group_index() / blocks * CONVOLVE_ROWS, end = min(first + CONVOLVE_ROWS, push.tokens);
    if (first >= end || channel >= push.channels) return;
    const float added = push.has_bias != 0 ? bias[channel] : 0.0;
    float weights[TAPS], window[TAPS];
    [[unroll]] for (uint i = 0; i < TAPS; ++i) weights[i] = taps[channel * TAPS + i];
    uint index = piece_of(first);
    Piece piece = piece_at(index);
    for (uint row = first; row < end; ++row) {
        if (row == piece.first + piece.tokens) piece = piece_at(++index);
        if (row == first || row == piece.first)
            [[unroll]] for (uint i = 1; i < TAPS; ++i) window[i] = value(piece, row - piece.first + i - 1, channel);
        [[unroll]] for (uint i = 1; i < TAPS; ++i) window[i - 1] = window[i];
        window[TAPS - 1] = value(piece, row - piece.first + TAPS - 1, channel);
        float sum = added;
        [[unroll]] for (uint i = 0; i < TAPS; ++i) sum += weights[i] * window[i];
        result[push.out_first + row * push.out_stride + channel] = activated(sum, ACTIVATION);
        if (row + 1 == piece.first + piece.tokens)
            [[unroll]] for (uint i = 1; i < TAPS; ++i) state[piece.remember + (i - 1) * push.channels + channel] = window[i];
    }
}
