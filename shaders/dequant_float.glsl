// f32, f16 and bf16: values as they are; elements 2i and 2i + 1 share a word where they are 16 bits wide.

vec4 f16_codes(const uvec2 q) { return vec4(unpackHalf2x16(q.x), unpackHalf2x16(q.y)); }
vec4 bf16_codes(const uvec2 q) {
    return uintBitsToFloat(uvec4(q.x << 16, q.x & 0xFFFF0000u, q.y << 16, q.y & 0xFFFF0000u));
}
