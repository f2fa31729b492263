// Push constants of the kernels that compute each element alone: glu.comp, add.comp, soft_cap.comp,
// select.comp.
#ifndef SCORIA_ELEMENTWISE_PUSH_H
#define SCORIA_ELEMENTWISE_PUSH_H

// 0 workgroup size
#define ELEMENTS_PER_LANE 4

#ifdef __cplusplus
namespace scoria {
using uint = uint32_t;
#endif

struct ElementwisePush {
    uint rows, cols;
    uint a_first, a_stride;      // words, as in Matrix
    uint b_first, b_stride;      // likewise
    uint out_first, out_stride;  // likewise
};

struct SoftCapPush {
    uint rows, cols;
    uint x_first, x_stride;      // words, as in Matrix
    uint out_first, out_stride;  // likewise
    float cap;
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
