// Attention of Reformer (struct Chunks). Keys are projected, or the queries normed (Kitaev et al. 2020,
// "Shared-QK").
#include "parts.h"

namespace scoria {

TensorId build_chunk_attention(GraphBuilder& graph, const Attention& shape, TensorId x) {
    const Chunks& chunks = shape.chunks;
    const uint32_t cols = shape.heads * shape.head_dim;
    const TensorId q = graph.linear("q", x, cols, Role::q);
    std::optional<TensorId> sorted;
    TensorId k = q;
    if (chunks.rounds) {
        const uint32_t lists = shape.heads * chunks.rounds;
        k = graph.emit(op::Norm{q, graph.tensor("keys", cols), std::nullopt, std::nullopt, NormKind::rms,
                                1e-6f, shape.head_dim, shape.head_dim});
        const TensorId buckets = graph.emit(op::Hash{
            q, graph.tensor("buckets", lists), {Role::hash_rotations, -1, graph.in_encoder()}, shape});
        sorted = graph.emit(op::Sort{buckets, graph.tensor("sorted", 2 * lists),
                                     chunks.for_length(graph.model.context).bucket_count()});
    } else {
        k = graph.linear("k", x, cols, Role::k);
    }
    const TensorId v = graph.linear("v", x, cols, Role::v);
    const TensorId heads =
        graph.emit(op::ChunkAttention{q, k, v, sorted, graph.tensor("attention heads", cols), shape});
    return graph.linear("attention out", heads, graph.stack->hidden, Role::o);
}

}  // namespace scoria
