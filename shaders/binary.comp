// out = f(a, b), element by element; a workgroup takes ELEMENTS_PER_LANE runs of its size. f is a + value b, a gated
// activation of gate a and up b, or an activation of b times a, where a column of b is for `per_gate` of a.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "grid.glsl"
#include "elementwise.push.h"
#include "numerics.glsl"

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
layout(constant_id = ELEMENTWISE_KIND) const uint KIND = BINARY_ADD;
layout(constant_id = ELEMENTWISE_ACTIVATION) const uint ACTIVATION = ACTIVATION_SILU;
layout(binding = 0) readonly buffer A { float a[]; };
layout(binding = 1) readonly buffer B { float b[]; };
layout(binding = 2) writeonly buffer Out { float result[]; };  // may be the memory of a or b
layout(push_constant) uniform Push { BinaryPush push; };

float combined(const float x, const float y) {
    if (KIND == BINARY_ADD) return x + push.value * y;
    if (KIND == BINARY_GATE) return x * activated(y, ACTIVATION);
    if (KIND == BINARY_GLU) return activated(x, ACTIVATION) * y;
    if (is_nan(x) || is_nan(y)) return x * y;  // the bounds must not hide NaN
    const float up = clamp(y, -push.value, push.value);
    if (KIND == BINARY_GLU_ACTIVATED_CLAMPED) return min(activated(x, ACTIVATION), push.value) * up;
    const float gate = min(x, push.value);
    return (up + push.offset) * gate * sigmoid(push.slope * gate);
}

void main() {
    const uint first = group_index() * gl_WorkGroupSize.x * ELEMENTS_PER_LANE + gl_LocalInvocationID.x;
    for (uint i = 0; i < ELEMENTS_PER_LANE; ++i) {
        const uint element = first + i * gl_WorkGroupSize.x;
        if (element >= push.rows * push.cols) return;
        const uint row = element / push.cols, column = element % push.cols;
        const float x = a[push.a_first + row * push.a_stride + column];
        const float y = b[push.b_first + row * push.b_stride + (KIND == BINARY_GATE ? column / push.per_gate : column)];
        result[push.out_first + row * push.out_stride + column] = combined(x, y);
    }
}
