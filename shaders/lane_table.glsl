// Values held by the lanes of a native subgroup of eight, which on CPU drivers is one register: any of them is
// looked up for eight lanes at once by one instruction (AVX2's vpermd), where a load costs ninety. At other sizes
// such a driver loops over the lanes, so that there LANE_TABLES is false and values are computed or loaded.
#extension GL_KHR_shader_subgroup_shuffle : require

const bool LANE_TABLES = SG_SIZE == 8;

// Of the sixteen values that the nibbles of a type stand for, lane i holds i and i + 8.
vec2 lane_table;

// Those that the low three bits of `at` stand for.
vec4 eight_values(const float table, uvec4 at) {
    at &= 7u;
    return vec4(subgroupShuffle(table, at.x), subgroupShuffle(table, at.y), subgroupShuffle(table, at.z),
                subgroupShuffle(table, at.w));
}
// Those of the low nibbles of the bytes of q.
vec4 sixteen_values(const uint q) {
    const uvec4 bytes = uvec4(q, q >> 8, q >> 16, q >> 24);
    const bvec4 late = lessThan(ivec4(q << 28, q << 20, q << 12, q << 4), ivec4(0));
    return mix(eight_values(lane_table.x, bytes), eight_values(lane_table.y, bytes), late);
}

// In lane j the sum of x, each negated where bit i of j is 0.
float signed_sums(const vec3 x) {
    const uvec3 minus = ~(uvec3(sg_lane()) << uvec3(31, 30, 29)) & 0x80000000u;
    const vec3 products = uintBitsToFloat(floatBitsToUint(x) ^ minus);
    return products.x + products.y + products.z;
}
