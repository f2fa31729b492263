// Joins the partial results of a row, which lie `between` words apart from `first` on, each o [head_dim] not divided by l,
// then m, l: out = sum_p e^(m_p - m) o_p / sum_p e^(m_p - m) l_p. Who includes it has load_part(word).
#ifndef SCORIA_ATTENTION_PARTS_GLSL
#define SCORIA_ATTENTION_PARTS_GLSL
#include "numerics.glsl"

// m
float most_of(uint first, uint between, uint parts, uint head_dim) {
    float m = load_part(first + head_dim);
    for (uint p = 1; p < parts; ++p) m = max(m, load_part(first + p * between + head_dim));
    return m;
}

// Dim `dim` of out.
float joined(uint first, uint between, uint parts, uint head_dim, uint dim, float m) {
    float o = 0.0, l = 0.0;
    for (uint p = 0; p < parts; ++p) {
        const uint part = first + p * between;
        const float scale = exp_safe(load_part(part + head_dim) - m);
        o += scale * load_part(part + dim);
        l += scale * load_part(part + head_dim + 1);
    }
    return o / l;
}

#endif
