// Reads four words per lane and turn and writes next to nothing: how fast memory is for kernels that only read.
// `count` 0 is a dispatch that does nothing.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "grid.glsl"
#include "read_words.push.h"

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
layout(binding = 0) readonly buffer X { uvec4 x[]; };
layout(binding = 1) writeonly buffer Out { uint result[]; };
layout(push_constant) uniform Push { ReadWordsPush push; };

void main() {
    if (group_index() >= push.groups) return;
    // Each workgroup reads a run of its own, which CPU drivers want and GPUs do not mind.
    const uint each = (push.count + push.groups - 1) / push.groups, lanes = gl_WorkGroupSize.x;
    const uint end = min((group_index() + 1) * each, push.count);
    uvec4 sum = uvec4(0);
    uint i = group_index() * each + gl_LocalInvocationID.x;
    for (; i + 3 * lanes < end; i += 4 * lanes)  // four loads in flight
        sum ^= x[i] ^ x[i + lanes] ^ x[i + 2 * lanes] ^ x[i + 3 * lanes];
    for (; i < end; i += lanes) sum ^= x[i];
    // True once in four thousand million words, but no compiler knows.
    if ((sum.x ^ sum.y ^ sum.z ^ sum.w) == 0x9E3779B9u) result[0] = sum.x;
}
