// out = W x with W in blocks of Q4_0 as a GGUF file has them, a lane per row, for
// `scoria validate --shader linear_q4_0.comp --as linear`. linear_q4_0.json says what is in the buffer of weights.
#version 460
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_8bit_storage : require
layout(local_size_x = 64) in;
struct Block {
    float16_t scale;
    uint8_t codes[16];  // the low halves are columns 0 to 15, the high ones 16 to 31
};
layout(binding = 0) readonly buffer Weight { Block weight[]; };
layout(binding = 1) readonly buffer X { float x[]; };
layout(binding = 2) writeonly buffer Out { float y[]; };
layout(push_constant) uniform Push { uint rows, cols; };

void main() {
    const uint row = gl_GlobalInvocationID.x, token = gl_WorkGroupID.y, blocks = cols / 32;
    if (row >= rows) return;
    float sum = 0.0;
    for (uint b = 0; b < blocks; ++b) {
        const uint block = row * blocks + b, first = token * cols + 32 * b;
        float in_block = 0.0;
        for (uint i = 0; i < 16; ++i) {
            const uint codes = uint(weight[block].codes[i]);
            in_block = fma(float(codes & 15) - 8.0, x[first + i], in_block);
            in_block = fma(float(codes >> 4) - 8.0, x[first + 16 + i], in_block);
        }
        sum = fma(float(weight[block].scale), in_block, sum);
    }
    y[token * rows + row] = sum;
}
