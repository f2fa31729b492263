// Push constants and specialization constants of compress.
#ifndef SCORIA_COMPRESS_PUSH_H
#define SCORIA_COMPRESS_PUSH_H

// 0 workgroup size
#define COMPRESS_KV_F16 2  // the cache holds f16 pairs, else f32

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
