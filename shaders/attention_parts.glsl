// Joins the partial results of a row, which lie `between` words apart from `first` on, each o [head_dim] not divided by l,
// then m, l: most_<name>() is the greatest m, and joined_<name>() sum_p e^(m_p - m) o_p of dim `dim`, and the same of l_p.
// `load` of a word says where they lie.
#ifndef SCORIA_ATTENTION_PARTS_GLSL
#define SCORIA_ATTENTION_PARTS_GLSL
#include "numerics.glsl"

#define JOINED(name, load)                                                                          \
    float most_##name(uint first, uint between, uint parts, uint head_dim) {                        \
        float m = load(first + head_dim);                                                           \
        for (uint p = 1; p < parts; ++p) m = max(m, load(first + p * between + head_dim));          \
        return m;                                                                                   \
    }                                                                                               \
    vec2 joined_##name(uint first, uint between, uint parts, uint head_dim, uint dim, float m) {    \
        vec2 sums = vec2(0.0);                                                                      \
        for (uint p = 0; p < parts; ++p) {                                                          \
            const uint part = first + p * between;                                                  \
            sums += exp_safe(load(part + head_dim) - m) * vec2(load(part + dim), load(part + head_dim + 1)); \
        }                                                                                           \
        return sums;                                                                                \
    }

#endif
