// out[t] = softmax(q[t] . K^T * scale) V over the keys of the paged cache that token t may see, per head;
// positions and block tables come from the step buffer, so one recording serves every length.
// Online softmax in float32 (Milakov & Gimelshein 2018). Where the cache is split over workgroups, the last
// of them to arrive joins the partial results (m, l, o); those of shards and of tiles are merged by a second
// kernel.
#pragma once

#include "architecture.h"
#include "kernel_variant.h"

#include <string>

namespace scoria {

struct AttentionArgs {
    Matrix q, out;  // [tokens, heads * head_dim]
    vk::View step;
    const DeviceKv* kv;
    vk::View partials;  // attention_partial_bytes, after clear_arrivals(); ignored if that is 0
    const Attention& shape;
    std::optional<vk::View> bias, sinks;   // float32: slopes [heads] or a table [heads, bias_cols]; [heads]
    std::optional<Matrix> distances = {};  // [tokens, distance_cols()]: by_query, by_pair
    std::optional<vk::View> distance_values = {};  // [bias_span, head_dim]
    std::optional<Matrix> chosen = {};             // Mask::chosen: [tokens, ...], see chosen_bits
    uint32_t first_token = 0;                      // of the batch, whose rows these are from there on
};

struct AttentionShape {
    uint32_t tokens, heads, kv_heads, head_dim;
    uint32_t context;     // most keys a token can see: the cache's positions, or the window
    uint32_t shards = 1;  // of the cache
    bool distance_values = false;
    Precision precision = Precision::strict;
    auto operator<=>(const AttentionShape&) const = default;
};

struct AttentionVariant : KernelVariant {
    uint32_t queries;  // rows of one kv head per logical group, or per workgroup of shares and the tiles
    uint32_t splits;   // parts of the cache per shard, at most
    uint32_t dim_parts = 0;  // attention_coop alone: subgroups that share out the dims of a row
    /// Least keys of a part, where the last to arrive joins them: few rows, one shard, and a device with the
    /// Vulkan memory model at device scope. 0: another dispatch does.
    uint32_t part_keys = 0;
    uint32_t shares = 1;  // subgroups of a workgroup that share out the keys of a part
    /// attention_coop2 alone: rows of a matrix, which a subgroup holds, or the workgroup if they are all.
    uint32_t strip = 0;
    bool of_workgroup() const { return strip == queries && workgroup > subgroup; }
    bool on_matrix_units() const { return dim_parts != 0 || strip != 0; }
};

AttentionShape attention_shape(const Attention& attention, uint32_t tokens, uint32_t positions,
                               uint32_t shards = 1);
/// Valid on a device for a shape and its precision class, default first. What each takes:
///
///   kernel              masks, biases, caps, sinks  values of distances  rows of a kv head           class
///   shares              all                         yes                  any                         f32
///   subgroup, emulated  all                         yes                  any                         f32
///   compact             all                         yes                  any, on CPU drivers         f32
///   tile                all                         no                   a tile or more              f32
///   coop, coop2         all                         no                   16, or 4 of one token        f16
///
/// All take every type of cache, and heads of any size but coop and coop2 those only whose tiles fit into 32
/// KiB of shared memory and the device's registers.
std::vector<AttentionVariant> attention_variants(const vk::Caps& caps, const AttentionShape& shape);
/// The same in other sizes and splits: what is worth timing where that can be done (instruments/tune.h).
std::vector<AttentionVariant> attention_candidates(const vk::Caps& caps, const AttentionShape& shape);
/// "subgroup queries 4 splits 8"
std::string attention_text(const AttentionVariant& variant);
/// Tokens that fill whole tiles of the variant: batches cut at multiples of them give the same bits.
uint32_t attention_tile_tokens(const AttentionVariant& variant, const AttentionShape& shape);
/// Scratch the variant needs; 0 if it writes results directly.
uint64_t attention_partial_bytes(const AttentionVariant& variant, const AttentionShape& shape);
/// To be recorded once before the first record_attention() with these partials, which leaves them as it finds
/// them.
void clear_arrivals(vk::Recorder& recorder, const vk::View& partials);
void record_attention(OpContext& context, const AttentionArgs& args, const AttentionVariant& variant);

/// The weights that attention sums with, which no kernel of it stores, of one token: [heads, keys of its
/// sequence] in args.out, 0 for keys that it does not see; with a sink rows sum to less than 1. `keys` is the
/// most there may be; how many there are, the step buffer says, and rows are as long (plus out.stride).
/// args.q is the one row, and partials and distance_values have no part in it.
std::vector<KernelVariant> attention_map_variants(const vk::Caps& caps);
void record_attention_map(OpContext& context, const AttentionArgs& args, uint32_t keys,
                          const KernelVariant& variant);

}  // namespace scoria
