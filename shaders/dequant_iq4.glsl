// Nibbles that index sixteen values.
//   iq4_nl  d v(q)             unit of 32: 4 words of codes, side d
//   iq4_xs  d (s - 32) v(q)    unit of 256: d | high scale bits << 16, low scale bits, 32 words of codes
// The values, -127 -104 -83 -65 -49 -35 -22 -10 1 13 25 38 53 69 89 113, lie within 0.434 of a polynomial of
// degree four (weighted least squares, weights grown where the error was largest), which leaves rounding a
// margin a hundred times what float32 loses. Selects cost half as much again. GPUs have them in sixteen words of shared memory, of
// sixteen banks, where lanes look up at once what they like, and a weight takes half the vector instructions.
//
// Kernels that multiply halves compute two at a time: what is left of them above the line 16 q - 120 is 19 at most, so that a
// polynomial of it, whose centre is where it has a whole value (-4), ends 0.443 at most from its whole number, whether or not
// products are rounded. With -1144 beside it that sum is rounded to a whole number on its own, and takes 1024 + 16 q back to
// the value.

vec4 iq4_values(const vec4 t) {  // t = 1 + q / 16
    return roundEven((((103.9587 * t - 288.5419) * t - 109.3113) * t + 1055.187) * t - 887.8593);
}
#ifdef HALF_PAIRS
// Of two codes, each in bits 4 to 7 of its half.
f16vec2 iq4_pair(const uint bits) {
    const f16vec2 line = unpackFloat2x16(bits & 0x00F000F0u | 0x64006400u);
    const f16vec2 t = fma(line, f16vec2(0.0078125), f16vec2(-8.9296875));
    precise f16vec2 left = fma(f16vec2(6.125), t, f16vec2(40.4));
    left = fma(left, t, f16vec2(-9.445));
    left = fma(left, t, f16vec2(-35.97));
    left = fma(left, t, f16vec2(-1148.0));
    return left + line;
}
// Columns 0 and 2, 1 and 3, 4 and 6, 5 and 7.
uvec4 iq4_pairs(const uint q) { return uvec4(q << 4, q >> 4, q, q >> 8); }
#endif
#ifdef COMPACT
void start_iq4() {
    const float lane = float(sg_lane());
    lane_table = iq4_values(vec4(1.0 + lane / 16.0, 1.5 + lane / 16.0, 1.0, 1.0)).xy;
}
#elif defined(STARTS_WEIGHTS)
layout(constant_id = 61) const bool LOOKS_UP_SHARED = false;  // vk::constant_looks_up_shared
shared float iq4_table[16];
void start_iq4() {
    if (!LOOKS_UP_SHARED) return;
    for (uint q = gl_LocalInvocationID.x; q < 16; q += gl_WorkGroupSize.x) iq4_table[q] = iq4_values(vec4(1.0 + q / 16.0)).x;
    barrier();
}
vec4 shared_values(const uint q, const uint bit) {
    return vec4(iq4_table[q >> bit & 15u], iq4_table[q >> (bit + 8) & 15u], iq4_table[q >> (bit + 16) & 15u],
                iq4_table[q >> (bit + 24) & 15u]);
}
#endif
void iq4_codes(const uint q, out vec4 lo, out vec4 hi) {
#ifdef HALF_PAIRS
    const uvec4 pairs = iq4_pairs(q);
    lo = vec4(iq4_pair(pairs.x), iq4_pair(pairs.y)).xzyw;
    hi = vec4(iq4_pair(pairs.z), iq4_pair(pairs.w)).xzyw;
#else
#ifdef COMPACT
    if (LANE_TABLES) {
        lo = sixteen_values(q);
        hi = sixteen_values(q >> 4);
        return;
    }
#elif defined(STARTS_WEIGHTS)
    if (LOOKS_UP_SHARED) {
        lo = shared_values(q, 0);
        hi = shared_values(q, 4);
        return;
    }
#endif
    sixteenths(q, lo, hi);
    lo = iq4_values(lo);
    hi = iq4_values(hi);
#endif
}

Unit iq4_xs_unit(const uint unit, const Slot slot) {
    return Unit(weight_word(unit * 34, slot), 0, uvec3(weight_word(unit * 34, 1, slot), 0, 0));
}
Affine iq4_xs_affine(const Unit unit, const uint i) {
    const uint scale = (unit.words.x >> (4 * i) & 15u) | (unit.word >> (16 + 2 * i) & 3u) << 4;
    return Affine(unit_d(unit).x * float(int(scale) - 32), 0.0, 0.0);
}
