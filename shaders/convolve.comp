// out[t][c] = act(bias[c] + sum over j of taps[c][j] x[t - taps + 1 + j][c]); rows of x before this piece's are those
// that the state remembers, and it remembers the last ones of this piece. A lane per element, of out or of the states.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "grid.glsl"
#include "numerics.glsl"
#include "recurrence.push.h"

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
layout(constant_id = CONVOLVE_ACTIVATION) const uint ACTIVATION = ACTIVATION_SILU;
layout(binding = 1) readonly buffer X { float x[]; };
layout(binding = 2) readonly buffer Taps { float taps[]; };  // [channels, taps]
layout(binding = 3) readonly buffer Bias { float bias[]; };  // without one, any buffer
layout(binding = 4) buffer State { float state[]; };         // of each slot, first, [taps - 1, channels]
layout(binding = 5) writeonly buffer Out { float result[]; };
layout(push_constant) uniform Push { ConvolvePush push; };
#include "recurrence.glsl"

// Row `later` of what is remembered, then of the piece's x.
float value(Piece piece, uint later, uint channel) {
    const uint remembered = push.taps - 1;
    if (later >= remembered) return x[push.x_first + (piece.first + later - remembered) * push.x_stride + channel];
    return piece.begins ? 0.0 : state[piece.remembered + later * push.channels + channel];
}

void main() {
    const uint id = group_index() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    const uint row = id / push.channels, channel = id % push.channels;
    if (row >= push.tokens + push.pieces * (push.taps - 1)) return;
    if (row >= push.tokens) {
        const uint kept = (row - push.tokens) % (push.taps - 1);
        const Piece piece = piece_at((row - push.tokens) / (push.taps - 1));
        state[piece.remember + kept * push.channels + channel] = value(piece, piece.tokens + kept, channel);
        return;
    }
    const Piece piece = piece_at(piece_of(row));
    float sum = push.has_bias != 0 ? bias[channel] : 0.0;
    for (uint tap = 0; tap < push.taps; ++tap)
        sum += taps[channel * push.taps + tap] * value(piece, row - piece.first + tap, channel);
    result[push.out_first + row * push.out_stride + channel] = activated(sum, ACTIVATION);
}
