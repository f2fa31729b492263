// Embeddings that a token has for each layer (Architecture::per_layer).
#include "parts.h"

#include <cmath>

namespace scoria {
namespace {

constexpr NormRoles per_layer_post_norm{"per-layer post-norm", Role::per_layer_post_norm};

}  // namespace

/// Under its norm the projection need not be divided by sqrt(hidden): the epsilon is multiplied by hidden
/// instead.
TensorId build_per_layer_embeddings(GraphBuilder& graph, TensorId x) {
    const Architecture& stack = *graph.stack;
    const uint32_t cols = stack.per_layer, all = cols * uint32_t(stack.layers.size());
    const float half = std::sqrt(0.5f);
    const TensorId table = graph.emit(op::Embed{graph.tensor("per-layer embedding", all),
                                                graph.weight(Role::per_layer_embedding), EmbedBy::token,
                                                half * std::sqrt(float(cols))});
    const TensorId y = graph.linear("per-layer projection", x, all, Role::per_layer_projection);
    const Norm& kind = stack.norm;
    const TensorId normed =
        graph.emit(op::Norm{y, graph.tensor_like("per-layer normed", y), graph.weight(Role::per_layer_norm),
                            std::nullopt, kind.kind, kind.epsilon * float(stack.hidden), cols, cols});
    return graph.add("per-layer embeddings", table, normed, half);
}

TensorId build_per_layer_update(GraphBuilder& graph, const Layer& layer, TensorId x, TensorId per_layer) {
    const uint32_t cols = graph.stack->per_layer;
    const TensorId gate = graph.linear("per-layer gate", x, cols, Role::per_layer_gate);
    op::Glu glu{gate, per_layer, graph.tensor_like("per-layer gated", gate), layer.feed_forward.activation};
    glu.up_first = cols * uint32_t(graph.layer);
    const TensorId out =
        graph.linear("per-layer out", graph.emit(glu), graph.stack->hidden, Role::per_layer_out);
    return graph.norm(per_layer_post_norm, out);
}

}  // namespace scoria
