// Push constants of rms_norm.comp.
#ifndef SCORIA_RMS_NORM_PUSH_H
#define SCORIA_RMS_NORM_PUSH_H

#ifdef __cplusplus
namespace scoria {
using uint = uint32_t;
#endif

struct RmsNormPush {
    uint rows, groups;           // groups of a row
    uint group;                  // columns of a group
    uint x_first, x_stride;      // words, as in Matrix
    uint out_first, out_stride;  // likewise
    float epsilon;
};

#ifdef __cplusplus
}
#endif
#endif
