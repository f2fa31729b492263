// The sampler buffer of one sequence (words) and the push constants of the sampling kernels.
#ifndef SCORIA_SAMPLER_H
#define SCORIA_SAMPLER_H

#define SAMPLER_TEMPERATURE 0  // float
#define SAMPLER_TOP_K 1        // 0: off
#define SAMPLER_TOP_P 2        // float; >= 1: off
#define SAMPLER_LOG_MIN_P 3    // float, ln(min_p); -Inf: off
#define SAMPLER_PENALTY 4      // float; 1: off
#define SAMPLER_WINDOW 5       // of the penalty, at most SAMPLER_RING
#define SAMPLER_SEED_LOW 6
#define SAMPLER_SEED_HIGH 7
#define SAMPLER_PUSHED 8  // tokens ever pushed; token i is in slot i % SAMPLER_RING
#define SAMPLER_TOKENS 16
#define SAMPLER_RING 256

// Scratch: per block of the scan {key, index, non-finite}, then, unless greedy, a key per logit.
#define SAMPLE_PARTIAL_WORDS 4
#define SAMPLE_BLOCK 2048  // logits of one workgroup of the scan

// 0 workgroup size, 1 logical subgroup size
#define SAMPLE_GREEDY 2  // takes the largest; keys are not stored

#ifdef __cplusplus
namespace scoria {
using uint = uint32_t;
#endif

struct SamplePush {
    uint vocab, blocks;
    uint logits_first;
    uint result_slots;
    uint from_slot, to_slot;
};

#ifdef __cplusplus
}
#endif
#endif
