// The only place for transcendental, packing and NaN-sensitive code (DESIGN.md "Numbers"): drivers differ
// in what tanh(100), packHalf2x16(70000) and isnan return, so none of them is called.
#ifndef SCORIA_NUMERICS_GLSL
#define SCORIA_NUMERICS_GLSL

// On bits: with fast-math a driver may fold isnan(x) or x != x to false.
bool is_nan(const float value) { return (floatBitsToUint(value) & 0x7FFFFFFFu) > 0x7F800000u; }
bool is_finite(const float value) { return (floatBitsToUint(value) & 0x7F800000u) != 0x7F800000u; }

// An unsigned word in the order of the floats; both zeros are equal, NaN comes before all.
uint sort_key(const float value) {
    const uint bits = value == 0.0 ? 0 : floatBitsToUint(value);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return 0;
    return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
float from_sort_key(const uint key) { return uintBitsToFloat((key & 0x80000000u) != 0 ? key & 0x7FFFFFFFu : ~key); }

// Below -87.3 e^x leaves the normal floats: a zero there is within every bound. NaN stays NaN, which min may lose.
// Chosen of what is already computed: glslang makes a branch of a choice with work in it.
float exp_safe(const float value) {
    const float power = exp(min(value, 88.0)), kept = value < -87.0 ? 0.0 : power;
    return is_nan(value) ? value : kept;
}

// log(1 + e) for e in [0, 1] as 2 artanh(e / (2 + e)): 1 + e would lose the low bits of a small e.
float log1p_safe(const float e) {
    const float s = e / (2.0 + e), t = s * s;
    const float series = 1.0 / 7.0 + t * (1.0 / 9.0 + t * (1.0 / 11.0 + t * (1.0 / 13.0)));
    return 2.0 * s * (1.0 + t * (1.0 / 3.0 + t * (1.0 / 5.0 + t * series)));
}

float log_positive(const float value) { return log(max(value, 1.17549435e-38)); }

float sigmoid(const float value) { return 1.0 / (1.0 + exp_safe(-value)); }
float silu(const float value) { return value * sigmoid(value); }

// (1 - e) / (1 + e) with e = exp(-2|x|) in (0, 1]; near zero, where that cancels, the Taylor series.
float tanh_safe(const float value) {
    const float size = abs(value);
    const float squared = value * value;
    const float e = exp_safe(-2.0 * size);
    const float large = (1.0 - e) / (1.0 + e);
    return size < 0.1 ? value * (1.0 + squared * (-1.0 / 3.0 + squared * (2.0 / 15.0 - squared * (17.0 / 315.0))))
                      : (value < 0.0 ? -large : large);
}

// e^x - 1 = 2 t / (1 - t) with t = tanh(x / 2), which near zero does not cancel. For x <= 0.
float expm1_safe(const float value) {
    const float t = tanh_safe(0.5 * value);
    return 2.0 * t / (1.0 - t);
}

// erfc(z) e^(z^2) for z in [0, 9]: t times a polynomial in t = 1 / (1 + z / 2), by Chebyshev interpolation; relative
// error 8e-8.
float erfc_scaled(const float z) {
    const float t = 1.0 / (1.0 + 0.5 * z);
    const float u = (t - 0.59090909) * 2.4444444;
    const float terms[11] = float[](0.577977061, 0.323939562, 0.0986550376, 0.00521798152, -0.00576798571,
                                    -0.000505988719, 0.000533203536, -4.27940631e-06, -5.49879624e-05,
                                    6.48844252e-06, 3.91562662e-06);
    float sum = terms[10];
    for (int i = 9; i >= 0; --i) sum = fma(sum, u, terms[i]);
    return t * sum;
}

// x Phi(x) = x erfc(-x / sqrt 2) / 2, the smaller tail computed, so that nothing cancels.
float gelu(const float value) {
    const float z = min(abs(value) * 0.70710678, 9.0);
    const float tail = 0.5 * exp_safe(-z * z) * erfc_scaled(z);
    return value * (value < 0.0 ? tail : 1.0 - tail);
}

// Values of the enum Activation (loader/architecture.h).
#define ACTIVATION_IDENTITY 0
#define ACTIVATION_SILU 1
#define ACTIVATION_GELU 2
#define ACTIVATION_GELU_TANH 3
#define ACTIVATION_GELU_QUICK 4
#define ACTIVATION_RELU 5
#define ACTIVATION_RELU_SQUARED 6
#define ACTIVATION_SIGMOID 7
#define ACTIVATION_ELU 8
#define ACTIVATION_SELU 9
#define ACTIVATION_SOFTPLUS 10
#define ACTIVATION_TANH 11

float activated(const float value, const uint activation) {
    switch (activation) {
    case ACTIVATION_SILU: return silu(value);
    case ACTIVATION_GELU: return gelu(value);
    // 0.5 (1 + tanh(y)) = sigmoid(2 y)
    case ACTIVATION_GELU_TANH: return value * sigmoid(1.59576912 * (value + 0.044715 * value * value * value));
    case ACTIVATION_GELU_QUICK: return value * sigmoid(1.702 * value);
    case ACTIVATION_RELU: return max(value, 0.0);
    case ACTIVATION_RELU_SQUARED: return max(value, 0.0) * max(value, 0.0);
    case ACTIVATION_SIGMOID: return sigmoid(value);
    case ACTIVATION_ELU: return value > 0.0 ? value : expm1_safe(value);
    case ACTIVATION_SELU: return 1.05070099 * (value > 0.0 ? value : 1.67326324 * expm1_safe(value));
    case ACTIVATION_SOFTPLUS: return max(value, 0.0) + log1p_safe(exp_safe(-abs(value)));
    case ACTIVATION_TANH: return tanh_safe(value);
    default: return value;
    }
}

// float -> half, to nearest even; beyond +-65504 (Inf too) clamps to it; NaN stays NaN.
uint half_bits(const float value) {
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
uint pack_half2(const vec2 values) { return half_bits(values.x) | (half_bits(values.y) << 16); }
vec2 unpack_half2(const uint word) { return unpackHalf2x16(word); }

// Bits of the largest |value|, in whose order Inf and NaN are last.
uint size_of(const vec4 values) {
    const uvec4 bits = floatBitsToUint(values) & 0x7FFFFFFFu;
    return max(max(bits.x, bits.y), max(bits.z, bits.w));
}

// The power of two that puts the largest of some numbers, of which `size` is |x| as bits, into [2^14, 2^15), and its
// inverse, with which to multiply them; both are normal floats.
vec2 half_power(const uint size) {
    const uint exponent = clamp(size >> 23, 15u, 254u);
    return uintBitsToFloat(uvec2(exponent - 14, 268 - exponent) << 23);
}

// float -> bfloat16, to nearest even; NaN stays NaN, and what rounds past the largest becomes Inf.
uint bfloat_bits(const float value) {
    const uint bits = floatBitsToUint(value);
    if (is_nan(value)) return bits >> 16 | 0x40u;
    return (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16;
}
uint pack_bfloat2(const vec2 values) { return bfloat_bits(values.x) | bfloat_bits(values.y) << 16; }

#endif
