// Attention, from the (normed) stream to what is added to it: of the tokens to each other, and to an
// encoder's.
#include "parts.h"

#include <span>
#include <vector>

namespace scoria {
namespace {

constexpr NormRoles q_norm{"q normed", Role::q_norm, Role::q_norm_bias},
    k_norm{"k normed", Role::k_norm, Role::k_norm_bias}, heads_norm{"heads normed", Role::heads_norm};

TensorId qk_normed(GraphBuilder& graph, const QkNorm& kind, const NormRoles& roles, TensorId x,
                   uint32_t head_dim) {
    const uint32_t cols = graph.at(x).cols;
    const uint32_t group = kind.group == QkNorm::Group::head ? head_dim : cols;
    return graph.norm(kind.norm, roles, x, group, kind.own_weights ? cols : group);
}

/// For PositionBias::by_query.
TensorId distances_of_query(GraphBuilder& graph, const Attention& shape, TensorId x) {
    const TensorId query = graph.linear("q of distances", x, shape.heads * shape.head_dim, Role::q,
                                        graph.optional(shape.distance_q_bias, Role::distance_q_bias));
    return graph.emit(op::HeadLinear{query, graph.tensor("distances", shape.distance_cols()),
                                     graph.weight(Role::distance_k), shape.heads, 0});
}

/// For PositionBias::by_pair.
TensorId distances_of_pair(GraphBuilder& graph, const Attention& shape, TensorId q, TensorId k) {
    return graph.emit(op::HeadLinear{graph.side_by_side("q and k", q, k),
                                     graph.tensor("distances", shape.distance_cols()),
                                     graph.weight(Role::distance_k), 2 * shape.heads, 0});
}

/// What attention reads; k and v only where they are the layer's own.
struct Heads {
    TensorId q;
    std::optional<TensorId> k, v;
};

/// As the layer's weights have them; narrower v heads are as wide as k's in the cache, by columns of k that
/// are left out of what attention finds.
Heads projected(GraphBuilder& graph, const Attention& shape, TensorId x) {
    const uint32_t q_cols = shape.heads * shape.head_dim, kv_cols = shape.kv_heads * shape.head_dim;
    const Projection all[] = {
        {"q", q_cols, Role::q, shape.q_bias, Role::q_bias},
        {"k", kv_cols, Role::k, shape.k_bias, Role::k_bias},
        {"v", shape.kv_heads * shape.v_head_dim(), Role::v, shape.v_bias, Role::v_bias}};
    const size_t count = shape.kv_layer >= 0 ? 1 : shape.v_is_k ? 2 : 3;
    const std::vector<TensorId> made = graph.projected(x, std::span(all).first(count));
    Heads to{made[0], {}, {}};
    if (count > 1) to.k = made[1], to.v = made.back();
    if (to.v && shape.value_dim)
        to.v = graph.emit(op::Pack{*to.v,
                                   *to.k,
                                   graph.tensor("v packed", kv_cols),
                                   shape.kv_heads,
                                   {0, shape.value_dim},
                                   {0, shape.head_dim - shape.value_dim}});
    return to;
}

/// q, k and v may each be followed by adapters, a norm, a clamp and a rotation; plan_attention.cpp knows this
/// order.
Heads heads_of(GraphBuilder& graph, const Attention& shape, TensorId x) {
    Heads to = projected(graph, shape, x);
    if (to.v && shape.v_norm)
        to.v = graph.emit(op::Norm{*to.v, graph.tensor("v normed", shape.kv_heads * shape.head_dim),
                                   std::nullopt, std::nullopt, NormKind::rms, shape.qk_norm.norm.epsilon,
                                   shape.head_dim, shape.head_dim});
    const auto norm = [&] {
        if (shape.qk_norm.group == QkNorm::Group::none) return;
        to.q = qk_normed(graph, shape.qk_norm, q_norm, to.q, shape.head_dim);
        if (to.k) to.k = qk_normed(graph, shape.qk_norm, k_norm, *to.k, shape.head_dim);
    };
    if (!shape.qk_norm.after_rope) norm();
    if (shape.clip > 0) {
        to.q = graph.map("q clamped", to.q, MapKind::clamp, shape.clip);
        if (to.k) to.k = graph.map("k clamped", *to.k, MapKind::clamp, shape.clip);
        if (to.v) to.v = graph.map("v clamped", *to.v, MapKind::clamp, shape.clip);
    }
    to.q = graph.rope("q rotated", to.q, shape, shape.heads, true);
    if (to.k) to.k = graph.rope("k rotated", *to.k, shape, shape.kv_heads, false);
    if (shape.qk_norm.after_rope) norm();
    return to;
}

/// The rows of global tokens, which see all keys by projections of their own (Longformer); `local` has the
/// others. Its keys and values are no longer needed.
TensorId global_attention(GraphBuilder& graph, const Attention& local_shape, TensorId x, TensorId local) {
    Attention shape = local_shape;
    shape.mask = Mask::global_rows;
    shape.window = 0;
    const uint32_t q_cols = shape.heads * shape.head_dim, kv_cols = shape.kv_heads * shape.head_dim;
    const Projection all[] = {{"global q", q_cols, Role::global_q, shape.q_bias, Role::global_q_bias},
                              {"global k", kv_cols, Role::global_k, shape.k_bias, Role::global_k_bias},
                              {"global v", kv_cols, Role::global_v, shape.v_bias, Role::global_v_bias}};
    const std::vector<TensorId> made = graph.projected(x, all);
    op::Attention attention{
        made[0], made[1], made[2], graph.tensor("attention heads with global", q_cols), graph.slot(), shape};
    attention.base = local;
    return graph.emit(attention);
}

}  // namespace

TensorId build_gated_heads(GraphBuilder& graph, const Attention& shape, TensorId x, TensorId heads) {
    const uint32_t columns = shape.gate_columns(), cols = graph.at(heads).cols;
    if (columns == 0) return heads;
    const TensorId gate = graph.linear("attention gate", x, columns, Role::attention_gate),
                   out = graph.tensor("attention gated", cols);
    return columns == cols ? graph.emit(op::Glu{gate, heads, out, shape.gate_activation})
                           : graph.emit(op::Gate{heads, gate, out, columns, 0, shape.gate_activation});
}

TensorId build_attention(GraphBuilder& graph, const Attention& shape, TensorId x) {
    if (shape.latent.kv_rank) return build_latent_attention(graph, shape, x);
    if (shape.chunks.length) return build_chunk_attention(graph, shape, x);
    std::optional<TensorId> distances;
    if (shape.bias == PositionBias::by_query) distances = distances_of_query(graph, shape, x);
    const Heads in = heads_of(graph, shape, x);
    if (shape.bias == PositionBias::by_pair) distances = distances_of_pair(graph, shape, in.q, *in.k);
    const TensorId out = graph.tensor("attention heads", shape.heads * shape.head_dim);
    op::Attention attention{in.q, in.k, in.v, out, graph.slot(), shape};
    if (shape.bias != PositionBias::none && !distances)
        attention.bias = WeightRef{Role::position_bias, 0, graph.in_encoder()};
    attention.sinks = graph.optional(shape.sinks, Role::sinks);
    attention.distances = distances;
    attention.distance_values = graph.optional(shape.distance_values, Role::distance_v);
    TensorId heads = graph.emit(attention);
    if (shape.global_tokens) heads = global_attention(graph, shape, x, heads);
    if (shape.value_dim)
        heads = graph.emit(op::Pack{heads,
                                    heads,
                                    graph.tensor("attention values", shape.heads * shape.value_dim),
                                    shape.heads,
                                    {0, shape.value_dim},
                                    {}});
    heads = build_gated_heads(graph, shape, x, heads);
    if (shape.heads_norm) heads = graph.norm(heads_norm, heads);
    return graph.linear("attention out", heads, graph.stack->hidden, Role::o,
                        graph.optional(shape.o_bias, Role::o_bias));
}

void build_cross_keys(GraphBuilder& graph, const Attention& cross, TensorId encoded) {
    const uint32_t cols = cross.kv_heads * cross.head_dim;
    const Projection all[] = {{"cross k", cols, Role::cross_k, cross.k_bias, Role::cross_k_bias},
                              {"cross v", cols, Role::cross_v, cross.v_bias, Role::cross_v_bias}};
    const std::vector<TensorId> made = graph.projected(encoded, all);
    const uint32_t slot = cross_slot(graph.model, uint32_t(graph.layer));
    graph.emit(op::Store{made[0], made[1], graph.tensor("cross k stored", cols), slot, cross});
}

TensorId build_cross_attention(GraphBuilder& graph, const Attention& cross, TensorId x) {
    Attention shape = cross;
    shape.kv_layer = static_cast<int32_t>(cross_slot(graph.model, uint32_t(graph.layer)));
    const uint32_t cols = shape.heads * shape.head_dim;
    const TensorId q =
        graph.linear("cross q", x, cols, Role::cross_q, graph.optional(shape.q_bias, Role::cross_q_bias));
    const TensorId heads = graph.emit(op::Attention{
        q, std::nullopt, std::nullopt, graph.tensor("cross heads", cols), uint32_t(shape.kv_layer), shape});
    return graph.linear("cross out", heads, graph.stack->hidden, Role::cross_o,
                        graph.optional(shape.o_bias, Role::cross_o_bias));
}

}  // namespace scoria
