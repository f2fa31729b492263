// What the kernels of the paged cache share with C++; the layout is engine/ops/kv_layout.h's.
#ifndef SCORIA_KV_CACHE_H
#define SCORIA_KV_CACHE_H

// Specialization constants, in every module that includes kv_cache.glsl.
#define KV_TYPE_CONSTANT 21    // KV_TYPE
#define KV_PLANES_CONSTANT 22  // KV_PLANES: 2, or 1 where keys are the values too

#define KV_NO_RING 0xFFFFFFFFu  // as the length of a ring: blocks do not wrap

// The enum KvType (engine/ops/op.h).
#define KV_F32 0
#define KV_F16 1
#define KV_BF16 2
#define KV_Q8_0 3
#define KV_Q4_0 4

#define KV_BLOCK_TOKENS 32
#define KV_GROUP 32  // neighbouring dims of a head that share a scale, where numbers are quantised

#endif
