// rms_norm.comp with a data race: nothing parts the last sum from its readers. CPU drivers go on with the lanes that
// wrote it, so results are right there, by luck; `scoria validate --shader rms_norm_race.comp --as rms_norm --races` tells.
#version 460
layout(local_size_x = 128) in;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) readonly buffer Weight { float weight[]; };
layout(binding = 2) writeonly buffer Out { float y[]; };
layout(push_constant) uniform Push { uint cols; float eps; };

shared float sums[128];

void main() {
    const uint lane = gl_LocalInvocationID.x, first = gl_WorkGroupID.x * cols;
    float sum = 0.0;
    for (uint i = lane; i < cols; i += 128) sum += x[first + i] * x[first + i];
    sums[lane] = sum;
    for (uint step = 64; step > 0; step /= 2) {
        barrier();
        if (lane < step) sums[lane] += sums[lane + step];
    }
    const float scale = inversesqrt(sums[0] / float(cols) + eps);
    for (uint i = lane; i < cols; i += 128) y[first + i] = x[first + i] * scale * weight[i];
}
