// Push constants of the kernels of attention in chunks: hash.comp, sort.comp, chunk_attention.comp.
// Specialization constant 0: workgroup size.
#ifndef SCORIA_CHUNK_ATTENTION_PUSH_H
#define SCORIA_CHUNK_ATTENTION_PUSH_H

#define HASH_FACTORS 4     // at most so many factors of the number of buckets
#define SORT_LANES 128     // largest workgroup of sort.comp
#define SORT_BITS 4        // of a digit
#define CHUNK_LANES 64     // workgroup of chunk_attention.comp
#define CHUNK_PER_LANE 16  // elements of a head that a lane takes: head_dim <= CHUNK_LANES * CHUNK_PER_LANE

#define CHUNK_CAUSAL 1u
#define CHUNK_NOT_SELF 2u  // a position sees itself only where it sees nothing else

#ifdef __cplusplus
namespace scoria {
using uint = uint32_t;
#endif

struct HashPush {
    uint tokens, heads, head_dim, rounds;
    uint factors;
    uint buckets[HASH_FACTORS];  // even
    uint x_first, x_stride;      // words, as in Matrix
    uint out_first, out_stride;
};

struct SortPush {
    uint rows, cols;
    uint passes;  // digits of the largest number
    uint x_first, x_stride;
    uint out_first, out_stride;
};

struct ChunkAttentionPush {
    uint tokens, heads, head_dim;
    uint padded;  // positions, padding included
    uint chunk;   // positions; divides rounds * padded
    uint before;  // chunks seen before the own one
    uint window;  // chunks seen in all
    uint rounds;  // at least 1
    uint flags;   // CHUNK_...
    uint sorted;  // 0: the list is the sequence
    float scale;
    uint q_first, q_stride;
    uint k_first, k_stride;
    uint v_first, v_stride;
    uint sorted_first, sorted_stride;
    uint out_first, out_stride;
};

#ifdef __cplusplus
}
#endif
#endif
