#version 450
// y[i] = a * x[i], a workgroup per constant-0 elements: the smallest kernel that shows a binding of each
// access, push constants, a specialization constant and a folded grid.
#extension GL_GOOGLE_include_directive : require
#include "grid.glsl"

layout(local_size_x_id = 0) in;
layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) writeonly buffer Y { float y[]; };
layout(push_constant) uniform Push { uint count; float a; };

void main() {
    const uint i = group_index() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (i < count) y[i] = a * x[i];
}
