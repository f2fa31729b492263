// out[i] = x[outputs[i]], the list being in the step buffer; a workgroup takes ELEMENTS_PER_LANE runs of its size.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "grid.glsl"
#include "step.h"
#include "elementwise.push.h"

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) readonly buffer Step { uint step_words[]; };
layout(binding = 2) writeonly buffer Out { float result[]; };
layout(push_constant) uniform Push { SelectPush push; };

void main() {
    const uint first = group_index() * gl_WorkGroupSize.x * ELEMENTS_PER_LANE + gl_LocalInvocationID.x;
    const uint rows = min(push.rows, step_words[STEP_OUTPUT_COUNT]);
    for (uint i = 0; i < ELEMENTS_PER_LANE; ++i) {
        const uint element = first + i * gl_WorkGroupSize.x;
        const uint row = element / push.cols, column = element % push.cols;
        if (row >= rows) return;
        const uint from = min(step_words[push.outputs_word + row], push.x_rows - 1);
        result[push.out_first + row * push.out_stride + column] = x[push.x_first + from * push.x_stride + column];
    }
}
