// Push constants and specialization constants of rope_cache.comp.
#ifndef SCORIA_ROPE_CACHE_PUSH_H
#define SCORIA_ROPE_CACHE_PUSH_H

#include "kv_cache.h"

// 0 workgroup size, 1 logical subgroup size
#define ROPE_INTERLEAVED 16  // pairs are (2i, 2i + 1), else (i, i + width / 2)
#define ROPE_QK_NORM 17      // RMS norm of each q and k head: ROPE_NORM_...

#define ROPE_QUERIES_GROW 18
#define ROPE_SPREAD_DIMS 5  // of a head, where keys are spread (kv_cache.glsl); else 1

#define ROPE_NORM_NONE 0
#define ROPE_NORM_BEFORE 1  // before rotation
#define ROPE_NORM_AFTER 2   // after

#ifdef __cplusplus
namespace scoria {
using uint = uint32_t;
#endif

struct RopeCachePush {
    uint tokens, heads, kv_heads, head_dim;
    uint width;                  // leading dims of a head that rotate
    uint qkv_first, qkv_stride;  // words, as in Matrix
    uint coarse_rows;            // of the angle table
    uint first_block, blocks;    // physical blocks of this shard
    uint ring;                   // block p / KV_BLOCK_TOKENS % ring of the table holds position p
    uint rotate_q;               // once per token, though every shard has a dispatch
    float epsilon;
    float query_growth;  // by which queries grow with the logarithm of their position ...
    uint growth_length;  // ... in steps of so many
    uint growth_offset;  // added to the position
};

#ifdef __cplusplus
}
#endif
#endif
