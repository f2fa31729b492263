// x as whole numbers, 32 columns of a token at a time: a step is their largest value by X_LEVELS, so that a number is off by
// at most half a step. Where one is Inf or NaN the step is NaN, and with it all that it makes.
//
// -DWIDE_X: of two bytes, 256 coarse + fine, both of them signed; else of one.
#include "numerics.glsl"

// `size`: size_of() x. None counts as less than 2^-102, whose inverse overflows.
const uint LEAST_SIZE = 0x0C800000u, FIRST_INFINITE = 0x7F800000u;
#ifdef WIDE_X
const float X_LEVELS = 127.0 * 256.0 + 127.0;
#define X_BYTES uvec2
#else
const float X_LEVELS = 127.0;
#define X_BYTES uint
#endif
float byte_step(uint size) {
    return uintBitsToFloat(size >= FIRST_INFINITE ? 0x7FC00000u : max(size, LEAST_SIZE)) / X_LEVELS;
}
// What a step of one is divided by.
float byte_scale(uint size) { return X_LEVELS / uintBitsToFloat(clamp(size, LEAST_SIZE, FIRST_INFINITE - 1)); }

// The lowest byte of each, the first in the lowest.
uint low_bytes(uvec4 codes) {
    codes &= 0xFFu;
    return codes.x | codes.y << 8 | codes.z << 16 | codes.w << 24;
}
// Four columns. Added to 1.5 x 2^23 a number is rounded to whole ones, which are the low bits then.
X_BYTES bytes_of_x(vec4 x, float scale) {
    const uvec4 codes = floatBitsToUint(fma(x, vec4(scale), vec4(12582912.0)));
#ifdef WIDE_X
    return uvec2(low_bytes(codes + 0x80u >> 8), low_bytes(codes));
#else
    return low_bytes(codes);
#endif
}
