// Push constants and specialization constants of compress.
#ifndef SCORIA_COMPRESS_PUSH_H
#define SCORIA_COMPRESS_PUSH_H

#include "kv_cache.h"

// 0 workgroup size; KV_TYPE_CONSTANT: none that is quantised

#ifdef __cplusplus
namespace scoria {
using uint = uint32_t;
#endif

struct CompressPush {
    uint kv_heads, head_words;  // words of a head's key, or value
    uint table, blocks;         // word of the step buffer where the block table starts; blocks of the cache
    uint old_memory;            // positions: see CompressedWindow
    uint new_low, new_memory;
    uint rate;
};

#ifdef __cplusplus
}
#endif
#endif
