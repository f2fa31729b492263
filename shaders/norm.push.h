// Push constants and specialization constants of norm.comp.
#ifndef SCORIA_NORM_PUSH_H
#define SCORIA_NORM_PUSH_H

// 0 workgroup size, 1 logical subgroup size
#define NORM_CENTRED 2  // layer norm, else RMS norm
#define NORM_LOADS 3    // of a lane at a time

#define NORM_WEIGHT 1u
#define NORM_BIAS 2u
#define NORM_OWN_WEIGHTS 4u  // weight and bias have a value per column, else per column of a group

#ifdef __cplusplus
namespace scoria {
using uint = uint32_t;
#endif

struct NormPush {
    uint rows, groups;           // groups of a row
    uint group;                  // columns of a group
    uint flags;                  // NORM_WEIGHT, ...
    uint x_first, x_stride;      // words, as in Matrix
    uint out_first, out_stride;  // likewise
    float epsilon;
};

#ifdef __cplusplus
}
#endif
#endif
