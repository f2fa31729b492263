// Joins the partial results of a row, which lie `between` words apart from `first` on, each o [head_dim] not divided by l,
// then m, l: joined_<name>() is the sum of e^(m_p - m) o_p of dim `dim`, that of l_p, and the greatest m (Milakov &
// Gimelshein 2018, alg. 3). `load` of a word says where they lie; so many parts are loaded before the first is waited for.
#ifndef SCORIA_ATTENTION_PARTS_GLSL
#define SCORIA_ATTENTION_PARTS_GLSL
#include "numerics.glsl"

#define JOINED(name, load, at_once)                                                                     \
    vec3 joined_##name(uint first, uint between, uint parts, uint head_dim, uint dim) {                 \
        vec2 sums = vec2(0.0);                                                                          \
        float most = uintBitsToFloat(0xFF800000u);                                                      \
        [[dont_unroll]] for (uint p = 0; p < parts; p += at_once) {                                     \
            float m[at_once], now = most;                                                               \
            vec2 values[at_once];                                                                       \
            [[unroll]] for (uint i = 0; i < at_once; ++i) {                                             \
                const uint part = first + min(p + i, parts - 1) * between;                              \
                m[i] = load(part + head_dim);                                                           \
                values[i] = vec2(load(part + dim), load(part + head_dim + 1));                          \
            }                                                                                           \
            [[unroll]] for (uint i = 0; i < at_once; ++i) now = max(now, m[i]);                         \
            sums *= exp_safe(most - now);                                                               \
            [[unroll]] for (uint i = 0; i < at_once; ++i) {                                             \
                const float weight = exp_safe(m[i] - now);                                              \
                if (p + i < parts) sums += weight * values[i];                                          \
            }                                                                                           \
            most = now;                                                                                 \
        }                                                                                               \
        return vec3(sums, most);                                                                        \
    }

#endif
