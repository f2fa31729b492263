// Attention over what is cached in common for all heads (struct Latent), which is one key/value head.
#include "parts.h"

namespace scoria {
namespace {

constexpr NormRoles latent_q_norm{"latent q normed", Role::latent_q_norm},
    index_norm{"index k normed", Role::index_norm, Role::index_norm_bias};
constexpr Norm index_norm_kind{NormKind::layer, 1e-6f, true, true};

/// The keys that x sees by the layer's own indexer, or by the last one before it. q: the normed latent one.
std::optional<TensorId> chosen_keys(GraphBuilder& graph, const Attention& shape, TensorId x, TensorId q) {
    if (shape.indexer.shared) return graph.chosen;
    if (!shape.indexer.chooses()) return {};
    const Attention index = index_attention(shape);
    q = graph.bare_linear("index q", q, index.heads * index.head_dim, Role::index_q);
    TensorId k = graph.bare_linear("index k", x, index.head_dim, Role::index_k);
    k = graph.norm(index_norm_kind, index_norm, k, index.head_dim, index.head_dim);
    const TensorId weights = graph.bare_linear("index weights", x, index.heads, Role::index_weights);
    q = graph.rope("index q rotated", q, index, index.heads, true);
    k = graph.rope("index k rotated", k, index, 1, false);
    const uint32_t words = (graph.model.context + chosen_bits - 1) / chosen_bits;
    graph.chosen = graph.emit(op::Choose{q, k, weights, graph.tensor("chosen keys", words),
                                         index_slot(graph.model, uint32_t(graph.layer)), index});
    return graph.chosen;
}

}  // namespace

TensorId build_latent_attention(GraphBuilder& graph, const Attention& shape, TensorId x) {
    const Latent& latent = shape.latent;
    const Attention common = kernel_attention(shape);
    const Norm rms{NormKind::rms, latent.epsilon};
    TensorId q = x;
    if (latent.q_rank) {
        q = graph.linear("latent q", x, latent.q_rank, Role::latent_q,
                         graph.optional(latent.bias, Role::latent_q_bias));
        q = graph.norm(rms, latent_q_norm, q, latent.q_rank, latent.q_rank);
    }
    const std::optional<TensorId> chosen = chosen_keys(graph, shape, x, q);
    q = graph.linear("q", q, shape.heads * shape.head_dim, Role::q);
    const TensorId absorbed =
        graph.emit(op::HeadLinear{q, graph.tensor("q absorbed", shape.heads * latent.kv_rank),
                                  graph.weight(Role::latent_k), shape.heads, latent.rope_dim});
    const TensorId kv = graph.linear("latent kv", x, latent.kv_rank + latent.rope_dim, Role::latent_kv,
                                     graph.optional(latent.bias, Role::latent_kv_bias));
    const TensorId c = graph.emit(op::Norm{kv, graph.tensor("latent kv normed", latent.kv_rank),
                                           graph.weight(Role::latent_kv_norm), std::nullopt, rms.kind,
                                           rms.epsilon, latent.kv_rank, latent.kv_rank});
    const auto pack = [&](const char* name, TensorId a, TensorId b, uint32_t heads, uint32_t first) {
        return graph.emit(op::Pack{a,
                                   b,
                                   graph.tensor(name, heads * common.head_dim),
                                   heads,
                                   {first, latent.rope_dim},
                                   {0, latent.kv_rank}});
    };
    q = pack("q packed", q, absorbed, shape.heads, 0);
    TensorId k = pack("k packed", kv, c, 1, latent.kv_rank);
    q = graph.rope("q rotated", q, common, shape.heads, true);
    k = graph.rope("k rotated", k, common, 1, false);
    op::Attention attention{
        q, k, k, graph.tensor("attention heads", shape.heads * common.head_dim), graph.slot(), common};
    attention.chosen = chosen;
    const TensorId heads = graph.emit(attention);
    const TensorId values =
        graph.emit(op::HeadLinear{heads, graph.tensor("values", shape.heads * latent.value_dim),
                                  graph.weight(Role::latent_v), shape.heads, latent.rope_dim});
    return graph.linear("attention out", build_gated_heads(graph, shape, x, values), graph.stack->hidden,
                        Role::o, graph.optional(shape.o_bias, Role::o_bias));
}

}  // namespace scoria
