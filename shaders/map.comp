// out = f(x), element by element; a workgroup takes ELEMENTS_PER_LANE runs of its size. f is value * x, a clamp to
// [-value, value], value * tanh(x / value), or an activation.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "grid.glsl"
#include "numerics.glsl"
#include "elementwise.push.h"

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
layout(constant_id = ELEMENTWISE_KIND) const uint KIND = MAP_SCALE;
layout(constant_id = ELEMENTWISE_ACTIVATION) const uint ACTIVATION = ACTIVATION_IDENTITY;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) writeonly buffer Out { float result[]; };  // may be the memory of x
layout(push_constant) uniform Push { MapPush push; };

float mapped(const float value) {
    if (KIND == MAP_SCALE) return push.value * value;
    if (KIND != MAP_SCALE && KIND != MAP_ACTIVATE && is_nan(value)) return value;  // a bound must not hide it
    if (KIND == MAP_CLAMP) return clamp(value, -push.value, push.value);
    if (KIND == MAP_SOFT_CAP) return push.value * tanh_safe(value / push.value);
    if (KIND == MAP_XIELU) {
        const float bend = value > 0.0 ? push.value * value * value : push.second * (expm1_safe(value) - value);
        return bend + 0.5 * value;
    }
    return activated(value, ACTIVATION);
}

void main() {
    const uint first = group_index() * gl_WorkGroupSize.x * ELEMENTS_PER_LANE + gl_LocalInvocationID.x;
    for (uint i = 0; i < ELEMENTS_PER_LANE; ++i) {
        const uint element = first + i * gl_WorkGroupSize.x;
        if (element >= push.rows * push.cols) return;
        const uint row = element / push.cols, column = element % push.cols;
        result[push.out_first + row * push.out_stride + column] =
            mapped(x[push.x_first + row * push.x_stride + column]);
    }
}
