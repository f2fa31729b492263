// The sampler buffer of one sequence (words) and the push constants of the sampling kernels. Of several
// sequences one buffer stands behind the other.
#ifndef SCORIA_SAMPLER_H
#define SCORIA_SAMPLER_H

#define SAMPLER_TEMPERATURE 0  // float
#define SAMPLER_TOP_K 1        // 0: off
#define SAMPLER_TOP_P 2        // float; >= 1: off
#define SAMPLER_LOG_MIN_P 3    // float, ln(min_p); -Inf: off
#define SAMPLER_PENALTY 4      // float; 1: off
#define SAMPLER_WINDOW 5       // of the penalties, at most SAMPLER_RING
#define SAMPLER_SEED_LOW 6
#define SAMPLER_SEED_HIGH 7
#define SAMPLER_PUSHED 8            // tokens ever pushed; token i is in slot i % SAMPLER_RING
#define SAMPLER_FREQUENCY 9         // float; 0: off
#define SAMPLER_PRESENCE 10         // float; 0: off
#define SAMPLER_TYPICAL 11          // float; >= 1: off
#define SAMPLER_XTC_THRESHOLD 12    // float
#define SAMPLER_XTC_PROBABILITY 13  // float; 0: off
#define SAMPLER_MIROSTAT_TAU 14     // float, bits; 0: off
#define SAMPLER_MIROSTAT_ETA 15     // float
#define SAMPLER_MIROSTAT_MU 16      // float, bits: the state
#define SAMPLER_BIAS_COUNT 17       // of the pairs at SAMPLER_BIASES
#define SAMPLER_MASKED 18           // whether the words at SAMPLER_MASK say which tokens are allowed
#define SAMPLER_TOKENS 32
#define SAMPLER_RING 256
#define SAMPLER_BIASES 288  // pairs {token, float added to its logit}, sorted by token
#define SAMPLER_BIAS_LIMIT 2048
#define SAMPLER_MASK 4384  // a bit per token, 1: allowed

// Scratch: per block of the scan {key, index, non-finite}, then, unless greedy, a key per logit.
#define SAMPLE_PARTIAL_WORDS 4
#define SAMPLE_BLOCK 512  // logits of one workgroup of the scan

// A slot of sample_top's results: {largest logit, sum of e^(x - largest), logit of the token chosen, 0}, then
// pairs {token, logit}.
#define SAMPLE_TOP_LIMIT 64  // pairs at most
#define SAMPLE_TOP_PAIRS 4
#define SAMPLE_TOP_WORDS 132

#define SAMPLE_ALWAYS 0xFFFFFFFFu  // as a guess: none
#define SAMPLE_ONE 0               // as outputs_word: one row, of from_slot

// 0 workgroup size, 1 logical subgroup size
#define SAMPLE_GREEDY 2  // takes the largest; keys are not stored
#define SAMPLE_LOADS 3   // of a lane, before it waits for the first

#ifdef __cplusplus
namespace scoria {
using uint = uint32_t;
#endif

struct SamplePush {
    uint vocab, blocks;
    uint logits_first;
    uint result_slots;
    uint from_slot, to_slot;
    uint guess;  // SAMPLE_ALWAYS, or the token that from_slot must have got: else these logits follow nothing
    uint rows;   // of logits, each with scratch of its own
    uint outputs_word;   // SAMPLE_ONE, or where the step buffer lists the rows' slots: each samples into its
                         // own, and its result has the row's number
    uint sampler_words;  // of each sequence; a slot's STEP_TOKEN_SAMPLER says which one
};

struct SampleTopPush {
    uint vocab, logits_first;
    uint result_slots;
    uint slot;                // token of the step buffer that was chosen
    uint count;               // at most SAMPLE_TOP_LIMIT and vocab
    uint guess;               // as SamplePush
    uint rows, outputs_word;  // the same
};

#ifdef __cplusplus
}
#endif
#endif
