// Attention in chunks, and the hashing and sorting before it: struct Chunks, op::Hash, op::Sort,
// op::ChunkAttention.
#pragma once

#include "kernel_variant.h"

namespace scoria {

struct HashArgs {
    Matrix x, out;  // [tokens, heads * head_dim], [tokens, heads * rounds]
    vk::View rotations;
    const Attention& shape;
};

struct SortArgs {
    Matrix x, out;  // [rows, cols], [rows, 2 * cols]
    uint32_t below;
};

struct ChunkAttentionArgs {
    Matrix q, k, v;  // [tokens, heads * head_dim], a whole sequence
    std::optional<Matrix> sorted;
    Matrix out;
    const Attention& shape;
};

/// The list that a sequence makes: chunks of `chunk` positions, of which a query sees `window`, once per
/// round.
struct ChunkRing {
    uint32_t padded, chunk, before, window, rounds;
    bool sorted;
    uint64_t seen() const { return uint64_t{chunk} * window * rounds; }
};
ChunkRing chunk_ring(const Chunks& chunks, uint32_t tokens);

std::vector<KernelVariant> hash_variants(const vk::Caps& caps);
void record_hash(OpContext& context, const HashArgs& args, const KernelVariant& variant);
std::vector<KernelVariant> sort_variants(const vk::Caps& caps);
void record_sort(OpContext& context, const SortArgs& args, const KernelVariant& variant);
std::vector<KernelVariant> chunk_attention_variants(const vk::Caps& caps);
/// Errors: unsupported, for heads of more elements than a workgroup takes.
void record_chunk_attention(OpContext& context, const ChunkAttentionArgs& args, const KernelVariant& variant);

}  // namespace scoria
