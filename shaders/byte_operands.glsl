// x as whole numbers, 32 columns of a token at a time: a step is their largest value by X_LEVELS, so that a number is off by
// at most half a step. Where one is Inf or NaN the step is NaN, and with it all that it makes.
//
// -DWIDE_X: of two bytes, 256 coarse + fine, both of them signed; else of one.
#include "linear.push.h"
#include "numerics.glsl"

// `size`: size_of() x. None counts as less than 2^-102, whose inverse overflows.
const uint LEAST_SIZE = 0x0C800000u, FIRST_INFINITE = 0x7F800000u;
#ifdef WIDE_X
const float X_LEVELS = float(LINEAR_WIDE_LEVELS);
#define X_BYTES uvec2
#else
const float X_LEVELS = float(LINEAR_BYTE_LEVELS);
#define X_BYTES uint
#endif
float byte_step(const uint size) {
    return uintBitsToFloat(size >= FIRST_INFINITE ? 0x7FC00000u : max(size, LEAST_SIZE)) * (1.0 / X_LEVELS);
}
// What a step of one is divided by.
float byte_scale(const uint size) { return X_LEVELS / uintBitsToFloat(clamp(size, LEAST_SIZE, FIRST_INFINITE - 1)); }

// Four columns. Added to 1.5 x 2^23 a number is rounded to whole ones, which are the low bits then.
#ifdef WIDE_X
// With 128 more the second byte is the coarse one, and the first is off by 128.
uvec2 bytes_of_x(const vec4 x, const float scale) {
    const uvec4 codes = floatBitsToUint(fma(x, vec4(scale), vec4(12582912.0 + 128.0)));
    const uvec2 twos = codes.xy & 0xFFFFu | codes.zw << 16;
    const uint coarse = twos.x >> 8 & 0x00FF00FFu | twos.y & 0xFF00FF00u, fine = twos.x & 0x00FF00FFu | twos.y << 8 & 0xFF00FF00u;
    return uvec2(coarse, fine ^ 0x80808080u);
}
#else
uint bytes_of_x(const vec4 x, const float scale) {
    const uvec4 codes = floatBitsToUint(fma(x, vec4(scale), vec4(12582912.0))) & 0xFFu;
    return codes.x | codes.y << 8 | codes.z << 16 | codes.w << 24;
}
#endif
