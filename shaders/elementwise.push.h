// Push constants and specialization constants of the kernels that compute each element alone: binary.comp,
// map.comp, select.comp, pack.comp, mix.comp.
#ifndef SCORIA_ELEMENTWISE_PUSH_H
#define SCORIA_ELEMENTWISE_PUSH_H

// 0 workgroup size
#define ELEMENTWISE_KIND 1        // BINARY_... or MAP_...
#define ELEMENTWISE_ACTIVATION 2  // numerics.glsl

#define MIX_FACTORS 1
#define MIX_INPUTS 2  // streams of y

#define ELEMENTS_PER_LANE 4

#define BINARY_ADD 0
#define BINARY_GLU 1
#define BINARY_GLU_CLAMPED 2
#define BINARY_GLU_ACTIVATED_CLAMPED 3
#define BINARY_GATE 4

// As the enum MapKind (engine/graph.h).
#define MAP_SCALE 0
#define MAP_CLAMP 1
#define MAP_SOFT_CAP 2
#define MAP_ACTIVATE 3
#define MAP_XIELU 4

#ifdef __cplusplus
namespace scoria {
using uint = uint32_t;
#endif

struct BinaryPush {
    uint per_gate;  // columns of a that one of b is for (BINARY_GATE)
    uint rows, cols;
    uint a_first, a_stride;      // words, as in Matrix
    uint b_first, b_stride;      // likewise
    uint out_first, out_stride;  // likewise
    float value, slope, offset;
};

struct MapPush {
    uint rows, cols;
    uint x_first, x_stride;      // words, as in Matrix
    uint out_first, out_stride;  // likewise
    float value, second;
};

struct PackPush {
    uint rows, heads;
    uint a_count, b_count;   // columns of each head of out that come from each
    uint a_head, b_head;     // words between heads
    uint a_first, a_stride;  // words, as in Matrix
    uint b_first, b_stride;  // likewise
    uint out_first, out_stride;
};

struct MixPush {
    uint rows, width;         // columns of a stream
    uint streams, unchanged;  // of out, and how many of them, the first ones, are x's
    uint x_first, x_stride;   // words, as in Matrix
    uint y_first, y_stride;   // likewise
    uint factors_first, factors_stride;
    uint out_first, out_stride;
    float offset, factor;
};

struct SelectPush {
    uint rows, cols;  // rows of out
    uint x_rows;
    uint x_first, x_stride;      // words, as in Matrix
    uint out_first, out_stride;  // likewise
    uint outputs_word;           // of the step buffer
};

#ifdef __cplusplus
}
#endif
#endif
