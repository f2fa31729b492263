// The step buffer: everything that changes from one decode step to the next, so that recorded commands
// can be replayed. Included by GLSL and C++; all words are uint32.
//
//   word 0                    tokens in this batch
//   word 1                    outputs: rows whose logits are wanted
//   word 2                    status bits, set by the device (STEP_STATUS_*), cleared by the host
//   word 3                    step: counts sampled tokens since the host last wrote (result ring slot)
//   word 4                    tokens of the prefix that see each other; 0 but for prefix language models
//   word 5                    tokens of the encoder's sequence, which cross-attention sees
//   word 6                    one past the last global token; masks that know such are of one whole sequence
//   word 7                    the first position that a compressed memory holds
//   STEP_TOKENS + 4 t ...     per token: id, position, table, sampler slot
//                             `table` is the word of this buffer where the block table of the token's
//                             sequence starts; entry p / kv_block_tokens is a physical block id
//   outputs list, block tables, pieces: where the host puts them (push constants and `table` say)
#ifndef SCORIA_STEP_H
#define SCORIA_STEP_H

#define STEP_TOKEN_COUNT 0
#define STEP_OUTPUT_COUNT 1
#define STEP_STATUS 2
#define STEP_INDEX 3
#define STEP_PREFIX 4
#define STEP_SOURCE 5
#define STEP_GLOBALS 6
#define STEP_LOW 7
#define STEP_TOKENS 16
#define STEP_TOKEN_WORDS 4
#define STEP_TOKEN_ID 0
#define STEP_TOKEN_POSITION 1
#define STEP_TOKEN_TABLE 2
#define STEP_TOKEN_SAMPLER 3
#define STEP_TOKEN_TYPE 3              // of encoders, which sample nothing
#define STEP_TOKEN_GLOBAL 0x80000000u  // set in it: a global token

#define STEP_STATUS_NON_FINITE 1u

#endif
