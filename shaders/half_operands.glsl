// Operands of float16 products, eight numbers in 16 bytes; what is beyond +-65504 is the caller's to scale.
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require

uvec4 packed_halves(const vec4 lo, const vec4 hi) {
    return uvec4(packFloat2x16(f16vec2(lo.xy)), packFloat2x16(f16vec2(lo.zw)), packFloat2x16(f16vec2(hi.xy)),
                 packFloat2x16(f16vec2(hi.zw)));
}
