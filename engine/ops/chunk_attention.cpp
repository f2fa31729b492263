// See chunk_attention.h.
#include "chunk_attention.h"

#include "chunk_attention.push.h"
#include "fail.h"

#include <bit>

namespace scoria {

ChunkRing chunk_ring(const Chunks& chunks, uint32_t tokens) {
    const auto padded = uint32_t(chunks.padded(tokens));
    if (padded <= chunks.length) return {padded, padded, 0, 1, 1, false};
    return {padded,
            chunks.length,
            chunks.before,
            1 + chunks.before + chunks.after,
            std::max(chunks.rounds, 1u),
            chunks.rounds != 0};
}

std::vector<KernelVariant> hash_variants(const vk::Caps& caps) {
    return plain_variants(caps, Shader::hash, 64);
}

void record_hash(OpContext& context, const HashArgs& args, const KernelVariant& variant) {
    const Chunks chunks = args.shape.chunks.for_length(args.out.rows);
    HashPush push{.tokens = args.out.rows,
                  .heads = args.shape.heads,
                  .head_dim = args.shape.head_dim,
                  .rounds = chunks.rounds,
                  .factors = uint32_t(chunks.buckets.size()),
                  .buckets = {},
                  .x_first = args.x.first,
                  .x_stride = args.x.stride,
                  .out_first = args.out.first,
                  .out_stride = args.out.stride};
    if (chunks.buckets.size() > HASH_FACTORS)
        fail(Status::unsupported, "hash", "expected at most ", HASH_FACTORS,
             " factors of the number of buckets, got ", chunks.buckets.size());
    std::ranges::copy(chunks.buckets, push.buckets);
    context.recorder.dispatch(
        pipeline_of(context, variant), {args.x.view, args.rotations, args.out.view}, push,
        groups_for(uint64_t(push.tokens) * push.heads * push.rounds, variant.workgroup), "hash");
}

std::vector<KernelVariant> sort_variants(const vk::Caps& caps) {
    return plain_variants(caps, Shader::sort, SORT_LANES);
}

void record_sort(OpContext& context, const SortArgs& args, const KernelVariant& variant) {
    const auto bits = uint32_t(std::bit_width(std::max(args.below, 2u) - 1));
    const SortPush push{args.x.rows,    args.x.cols,   (bits + SORT_BITS - 1) / SORT_BITS,
                        args.x.first,   args.x.stride, args.out.first,
                        args.out.stride};
    context.recorder.dispatch(pipeline_of(context, variant), {args.x.view, args.out.view}, push, push.cols,
                              "sort");
}

std::vector<KernelVariant> chunk_attention_variants(const vk::Caps& caps) {
    return plain_variants(caps, Shader::chunk_attention, CHUNK_LANES);
}

void record_chunk_attention(OpContext& context, const ChunkAttentionArgs& args,
                            const KernelVariant& variant) {
    const Attention& shape = args.shape;
    const ChunkRing ring = chunk_ring(shape.chunks, args.q.rows);
    if (shape.head_dim > variant.workgroup * CHUNK_PER_LANE)
        fail(Status::unsupported, "chunk attention", "expected heads of at most ",
             variant.workgroup * CHUNK_PER_LANE, " elements, got ", shape.head_dim);
    constexpr uint64_t most_seen = INT32_MAX;
    if (ring.seen() > most_seen)
        fail(Status::unsupported, "chunk attention", "expected at most ", most_seen,
             " keys for a query, got ", ring.seen());
    const Matrix& sorted = args.sorted ? *args.sorted : args.q;
    const ChunkAttentionPush push{.tokens = args.q.rows,
                                  .heads = shape.heads,
                                  .head_dim = shape.head_dim,
                                  .padded = ring.padded,
                                  .chunk = ring.chunk,
                                  .before = ring.before,
                                  .window = ring.window,
                                  .rounds = ring.rounds,
                                  .flags = (shape.mask == Mask::causal ? CHUNK_CAUSAL : 0) |
                                           (shape.chunks.rounds ? CHUNK_NOT_SELF : 0),
                                  .sorted = ring.sorted && args.sorted,
                                  .scale = shape.scale,
                                  .q_first = args.q.first,
                                  .q_stride = args.q.stride,
                                  .k_first = args.k.first,
                                  .k_stride = args.k.stride,
                                  .v_first = args.v.first,
                                  .v_stride = args.v.stride,
                                  .sorted_first = sorted.first,
                                  .sorted_stride = sorted.stride,
                                  .out_first = args.out.first,
                                  .out_stride = args.out.stride};
    context.recorder.dispatch(pipeline_of(context, variant),
                              {args.q.view, args.k.view, args.v.view, sorted.view, args.out.view}, push,
                              uint64_t(push.tokens) * push.heads, "chunk_attention");
}

}  // namespace scoria
