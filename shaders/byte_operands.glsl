// x as bytes, 32 columns of a token at a time: a step is a 127th of their largest value, so that a byte is off by at most
// half a step. Where one is Inf or NaN the step is NaN, and with it all that it makes.
#include "numerics.glsl"

// `size`: size_of() x. None counts as less than 2^-102, whose inverse overflows.
const uint LEAST_SIZE = 0x0C800000u, FIRST_INFINITE = 0x7F800000u;
float byte_step(uint size) {
    return uintBitsToFloat(size >= FIRST_INFINITE ? 0x7FC00000u : max(size, LEAST_SIZE)) / 127.0;
}
// Bytes of a step of one.
float byte_scale(uint size) { return 127.0 / uintBitsToFloat(clamp(size, LEAST_SIZE, FIRST_INFINITE - 1)); }

// Four columns, the first in the lowest byte. Added to 1.5 x 2^23 a number is rounded to whole ones, which are the low bits
// then.
uint bytes_of_x(vec4 x, float scale) {
    const uvec4 codes = floatBitsToUint(fma(x, vec4(scale), vec4(12582912.0))) & 0xFFu;
    return codes.x | codes.y << 8 | codes.z << 16 | codes.w << 24;
}
