// Attention over what is cached in common for all heads (struct Latent), which is one key/value head.
#include "parts.h"

namespace scoria {
namespace {

constexpr NormRoles latent_q_norm{"latent q normed", Role::latent_q_norm};

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
    const TensorId heads = graph.emit(op::Attention{
        q, k, k, graph.tensor("attention heads", shape.heads * common.head_dim), graph.slot(), common});
    const TensorId values =
        graph.emit(op::HeadLinear{heads, graph.tensor("values", shape.heads * latent.value_dim),
                                  graph.weight(Role::latent_v), shape.heads, latent.rope_dim});
    return graph.linear("attention out", build_gated_heads(graph, shape, x, values), graph.stack->hidden,
                        Role::o, graph.optional(shape.o_bias, Role::o_bias));
}

}  // namespace scoria
