// out = W x with W in halves, a lane per row, for `scoria validate --shader linear_f16.comp --as linear`. Its names
// are its own: linear_f16.json says what they stand for.
#version 460
#extension GL_EXT_shader_16bit_storage : require
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer Matrix { float16_t data[]; } mat;
layout(set = 0, binding = 1) readonly buffer Vectors { float data[]; } vectors;
layout(set = 0, binding = 2) writeonly buffer Products { float data[]; } products;
layout(push_constant) uniform Push { uint ne0, ne1; };

void main() {
    const uint row = gl_GlobalInvocationID.x, token = gl_WorkGroupID.y;
    if (row >= ne1) return;
    float sum = 0.0;
    for (uint i = 0; i < ne0; ++i) sum = fma(float(mat.data[row * ne0 + i]), vectors.data[token * ne0 + i], sum);
    products.data[token * ne1 + row] = sum;
}
