// Feed-forward layers that all tokens pass, from the (normed) stream to what is added to it.
#include "parts.h"

#include "fail.h"

namespace scoria {
namespace {

constexpr NormRoles inner_norm{"inner normed", Role::inner_norm};

}  // namespace

TensorId build_activated(GraphBuilder& graph, std::string_view whose, const FeedForward& shape,
                         std::optional<TensorId> gate, TensorId up, const GluClamp& clamp) {
    if (!gate && shape.activation == Activation::xielu)
        return graph.emit(op::Map{up, graph.tensor_like(cat(whose, "activated"), up), MapKind::xielu,
                                  shape.xielu.rise(), shape.xielu.fall()});
    if (!gate) return graph.map(cat(whose, "activated"), up, MapKind::activate, 0, shape.activation);
    return graph.emit(
        op::Glu{*gate, up, graph.tensor_like(cat(whose, "gated"), up), shape.activation, clamp});
}

TensorId build_feed_forward(GraphBuilder& graph, const FeedForward& shape, const FeedForwardInput& in) {
    if (shape.routing.experts) return build_experts(graph, shape, in);
    const Layer& layer = graph.stack->layers[size_t(graph.layer)];
    TensorId x = in.x;
    if (layer.recurrence.feed_forward_shift)
        x = graph.emit(op::Shift{x, graph.tensor_like("feed-forward shifted", x),
                                 graph.weight(Role::feed_forward_shift), true, graph.slot(),
                                 layer.recurrence});
    std::optional<TensorId> gate;
    if (shape.gated) {
        gate =
            graph.linear("gate", x, shape.size, Role::gate, graph.optional(shape.gate_bias, Role::gate_bias));
        gate = graph.scaled("gate scaled", *gate, shape.gate_scale);
    }
    const TensorId up =
        graph.linear("up", x, shape.size, Role::up, graph.optional(shape.up_bias, Role::up_bias));
    if (gate && shape.cuts_gate())
        gate = graph.emit(op::Norm{*gate, graph.tensor_like("gate cut", *gate), std::nullopt, std::nullopt,
                                   NormKind::cut, shape.gate_cut, shape.size, shape.size});
    TensorId inner = build_activated(graph, "", shape, gate, up, shape.clamp);
    if (shape.inner_norm) inner = graph.norm(inner_norm, inner);
    return graph.linear("feed-forward out", inner, graph.stack->hidden, Role::down,
                        graph.optional(shape.down_bias, Role::down_bias));
}

}  // namespace scoria
