// Push constants and specialization constants of choose.comp.
#ifndef SCORIA_CHOOSE_PUSH_H
#define SCORIA_CHOOSE_PUSH_H

// 0 workgroup size
#define CHOOSE_LOADS 1  // of a lane, before it waits for the first

#define CHOOSE_LANES 512  // largest workgroup
#define CHOOSE_BITS 8     // of a digit

#ifdef __cplusplus
namespace scoria {
using uint = uint32_t;
#endif

struct ChoosePush {
    uint first_token, tokens;  // of the batch; words below count from the first
    uint top;                  // most keys chosen
    uint scores_stride;        // words, as in Matrix
    uint out_first, out_stride, out_cols;
};

#ifdef __cplusplus
}
#endif
#endif
