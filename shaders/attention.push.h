// Push constants and specialization constants of the attention kernels.
#ifndef SCORIA_ATTENTION_PUSH_H
#define SCORIA_ATTENTION_PUSH_H

#include "kv_cache.h"

// 0 workgroup size, 1 logical subgroup size
#define ATTENTION_HEAD_DIM 3
#define ATTENTION_QUERIES 4   // vec: rows of one kv head that a group takes
#define ATTENTION_MASK 5      // the enum Mask (loader/architecture.h)
#define ATTENTION_BIAS 6      // the enum PositionBias
#define ATTENTION_SOFT_CAP 7  // scores are capped
#define ATTENTION_SINKS 8     // a score per head joins the sum
#define ATTENTION_VALUES 9    // distances add to values
// coop: the matrix shape, rows of a workgroup (tile: too), and subgroups that share out the dims of a row
#define ATTENTION_M 10
#define ATTENTION_N 11
#define ATTENTION_K 12
#define ATTENTION_ROWS 13
#define ATTENTION_DIM_PARTS 14
#define ATTENTION_SHARES 18   // vec: subgroups of a workgroup that share out the keys of a split; 1 or all
#define ATTENTION_IN_STEP 19  // vec: lanes of a subgroup are, see sg_share_memory()
// coop: a lane holds the next tile's words while this one is multiplied; vec: values while keys are
#define ATTENTION_AHEAD 20
// coop2, whose M is a strip of rows: as gl_Scope...
#define ATTENTION_SCOPE 23
#define ATTENTION_OF_WORKGROUP 2
#define ATTENTION_OF_SUBGROUP 3
// tile: lanes, dims that it holds in shared memory at a time, the most of such chunks of a head
#define ATTENTION_TILE_WORKGROUP 128
#define ATTENTION_TILE_CHUNK 32
#define ATTENTION_TILE_CHUNKS 18
// Words before the partial results: of each tile and kv head how many parts have arrived, 0 between
// dispatches.
#define ATTENTION_ARRIVALS 1024

// The enum Mask (loader/architecture.h).
#define MASK_CAUSAL 0
#define MASK_STRIDED 1
#define MASK_FIXED_BLOCK 2
#define MASK_FIXED_SUMMARY 3
#define MASK_STRIDED_UNION 4
#define MASK_FIXED_UNION 5
#define MASK_LOCAL_BLOCK 6
#define MASK_BIDIRECTIONAL 7
#define MASK_PREFIX 8
#define MASK_SOURCE 9
#define MASK_GLOBAL_KEYS 10
#define MASK_GLOBAL_ROWS 11
#define MASK_COMPRESSED 12
#define MASK_CHOSEN 13
#define CHOSEN_BITS 16  // chosen_bits there

#ifdef __cplusplus
namespace scoria {
using uint = uint32_t;
#endif

struct AttentionPush {
    uint first_token, tokens;  // of the batch; words below and results count from the first
    uint heads, kv_heads;
    uint q_first, q_stride;      // words, as in Matrix
    uint out_first, out_stride;  // likewise
    uint first_block, blocks;    // physical blocks of this shard
    uint ring;                   // block p / KV_BLOCK_TOKENS % ring of the table holds position p
    uint splits;                 // parts of the cache in this dispatch
    uint first_part, parts;      // this dispatch's partial results among all; parts == 1: writes `out` itself
    uint part_keys;              // vec: least keys of a part; the last to arrive writes `out`, unless 0
    uint window;                 // 0: all earlier keys
    uint stride, summary;        // of the mask
    uint bias_span;              // distances in a table of biases
    uint bias_first, bias_stride;  // words, as in Matrix, of products of queries, and of keys
    float scale, soft_cap;
};

struct AttentionMergePush {
    uint first_token, tokens, heads, head_dim, parts;
    uint out_first, out_stride;
};

#ifdef __cplusplus
}
#endif
#endif
