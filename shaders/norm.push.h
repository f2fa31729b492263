// Push constants and specialization constants of norm.comp.
#ifndef SCORIA_NORM_PUSH_H
#define SCORIA_NORM_PUSH_H

// 0 workgroup size, 1 logical subgroup size
#define NORM_KIND 2   // NORM_RMS, ...
#define NORM_LOADS 3  // of a lane at a time

// As the enum NormKind (loader/architecture.h).
#define NORM_RMS 0
#define NORM_LAYER 1
#define NORM_SCALE 2
#define NORM_MATCH 3
#define NORM_CUT 4

#define NORM_WEIGHT 1u
#define NORM_BIAS 2u
#define NORM_OWN_WEIGHTS 4u  // weight and bias have a value per column, else per column of a group

#ifdef __cplusplus
namespace scoria {
using uint = uint32_t;
#endif

struct NormPush {
    uint rows, groups;             // groups of a row
    uint group;                    // columns of a group
    uint flags;                    // NORM_WEIGHT, ...
    uint x_first, x_stride;        // words, as in Matrix
    uint like_first, like_stride;  // likewise, of what NORM_MATCH reads in place of a weight
    uint out_first, out_stride;
    float epsilon;
};

#ifdef __cplusplus
}
#endif
#endif
