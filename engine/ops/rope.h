// Rotary positions and the write to the paged cache, in one kernel: q is rotated in place, k rotated and
// v as it is go to the cache at each token's position.
#pragma once

#include "architecture.h"
#include "kernel_variant.h"

#include <algorithm>
#include <span>

namespace scoria {

/// cos and sin of every angle as float32 pairs, computed in double: coarse [ceil(context / 256)][width / 2]
/// for positions 256 i (times the magnitude), then fine [256][width / 2]; the kernel joins them by angle
/// addition. GPU sin and cos are good to 2^-11 at best (DESIGN.md "Numbers").
/// `length` chooses the frequencies of a rope that depends on the sequence's length.
std::vector<float> rope_tables(const Rope& rope, uint32_t context, uint64_t length = 0);
/// Whether a session needs tables of its own, since rotations depend on its length.
inline bool by_length(std::span<const Rope> ropes) {
    return std::ranges::any_of(ropes, [](const Rope& rope) { return rope.short_length != 0; });
}
/// Floats that rope_tables returns.
uint64_t rope_table_floats(const Rope& rope, uint32_t context);

struct RopeCacheArgs {
    Matrix qkv;      // [tokens, (heads + 2 kv_heads) * head_dim]: q | k | v, or q alone
    uint32_t heads;  // kv_heads and head_dim are the cache's
    bool with_kv = true;
    RopePairs pairs;
    uint32_t width;  // rotated leading elements of a head; 0: none
    vk::View tables;
    std::optional<vk::View> q_norm, k_norm;  // [head_dim]: RMS norm of each head
    bool norm_after = false;                 // after rotation
    float epsilon = 0;
    vk::View step;
    const DeviceKv* kv;
    float query_growth = 0;  // as Rope has them
    uint32_t growth_length = 1, growth_offset = 0;
};

/// What decides who else may do it, of heads without norms whose keys are no values.
struct RopeShape {
    uint32_t head_dim, width;
    RopePairs pairs;
    KvType type;
    uint32_t shards = 1;  // of the cache
    bool grows = false;   // queries do
};

/// Rows of the coarse part of `tables`.
uint32_t rope_coarse_rows(const RopeCacheArgs& args);
/// What rope.glsl is made for.
std::vector<vk::Constant> rope_constants(const RopeCacheArgs& args);
std::vector<KernelVariant> rope_cache_variants(const vk::Caps& caps);
void record_rope_cache(OpContext& context, const RopeCacheArgs& args, const KernelVariant& variant);

}  // namespace scoria
