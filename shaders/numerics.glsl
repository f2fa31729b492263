// The only place for transcendental, packing and NaN-sensitive code (DESIGN.md "Numbers"): drivers differ
// in what tanh(100), packHalf2x16(70000) and isnan return, so none of them is called.
#ifndef SCORIA_NUMERICS_GLSL
#define SCORIA_NUMERICS_GLSL

// On bits: with fast-math a driver may fold isnan(x) or x != x to false.
bool is_nan(float value) { return (floatBitsToUint(value) & 0x7FFFFFFFu) > 0x7F800000u; }
bool is_finite(float value) { return (floatBitsToUint(value) & 0x7F800000u) != 0x7F800000u; }

// An unsigned word in the order of the floats; both zeros are equal, NaN comes before all.
uint sort_key(float value) {
    const uint bits = value == 0.0 ? 0 : floatBitsToUint(value);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return 0;
    return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
float from_sort_key(uint key) { return uintBitsToFloat((key & 0x80000000u) != 0 ? key & 0x7FFFFFFFu : ~key); }

// Below -87.3 e^x leaves the normal floats: a zero there is within every bound.
float exp_safe(float value) { return value < -87.0 ? 0.0 : exp(min(value, 88.0)); }

float sigmoid(float value) { return 1.0 / (1.0 + exp_safe(-value)); }
float silu(float value) { return value * sigmoid(value); }

// (1 - e) / (1 + e) with e = exp(-2|x|) in (0, 1]; near zero, where that cancels, the Taylor series.
float tanh_safe(float value) {
    const float size = abs(value);
    const float squared = value * value;
    const float e = exp_safe(-2.0 * size);
    const float large = (1.0 - e) / (1.0 + e);
    return size < 0.1 ? value * (1.0 + squared * (-1.0 / 3.0 + squared * (2.0 / 15.0 - squared * (17.0 / 315.0))))
                      : (value < 0.0 ? -large : large);
}

// float -> half, to nearest even; beyond +-65504 (Inf too) clamps to it; NaN stays NaN.
uint half_bits(float value) {
    const uint bits = floatBitsToUint(value);
    const uint sign = (bits >> 16) & 0x8000u;
    const uint size = bits & 0x7FFFFFFFu;
    if (size > 0x7F800000u) return sign | 0x7E00u;
    if (size >= 0x477FE000u) return sign | 0x7BFFu;
    if (size < 0x33000000u) return sign;  // below 2^-25: rounds to zero
    // Normal halves drop 13 bits of the rebased word; subnormals (below 2^-14) also drop the implicit one.
    const bool subnormal = size < 0x38800000u;
    const uint shift = subnormal ? 126u - (size >> 23) : 13u;
    const uint word = subnormal ? (size & 0x7FFFFFu) | 0x800000u : size - 0x38000000u;
    const uint half_way = 1u << (shift - 1u);
    const uint rest = word & ((1u << shift) - 1u);
    const uint kept = word >> shift;
    const bool up = rest > half_way || (rest == half_way && (kept & 1u) == 1u);
    return sign | (kept + (up ? 1u : 0u));
}

// x in the low half of the word.
uint pack_half2(vec2 values) { return half_bits(values.x) | (half_bits(values.y) << 16); }
vec2 unpack_half2(uint word) { return unpackHalf2x16(word); }

#endif
