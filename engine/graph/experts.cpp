// Feed-forward layers of experts, of which a token passes few (struct Routing).
#include "parts.h"

#include <cmath>

namespace scoria {
namespace {

constexpr NormRoles router_norm{"router norm", Role::router_norm},
    expert_norm{"expert norm", Role::expert_norm},
    expert_post_norm{"expert post-norm", Role::expert_post_norm},
    shared_post_norm{"shared post-norm", Role::shared_post_norm};

/// A score per expert.
TensorId scores_of(GraphBuilder& graph, const Routing& routing, const FeedForwardInput& in) {
    const TensorId x = routing.apart ? graph.norm(router_norm, in.stream) : in.x;
    TensorId scores = graph.linear("router", routing.early ? in.before : x, routing.experts, Role::router,
                                   graph.optional(routing.router_bias, Role::router_bias));
    if (routing.apart)
        scores =
            graph.map("router scaled", scores, MapKind::scale, 1 / std::sqrt(float(graph.stack->hidden)));
    return scores;
}

/// The expert that all tokens pass.
TensorId shared_expert(GraphBuilder& graph, const FeedForward& shape, TensorId x) {
    const Routing& routing = shape.routing;
    const auto shared = [&](const char* name, TensorId in, uint32_t cols, Role role, Role bias) {
        return graph.linear(name, in, cols, role, graph.optional(routing.shared_bias, bias));
    };
    std::optional<TensorId> gate;
    if (shape.gated)
        gate = shared("shared gate", x, routing.shared_size, Role::shared_gate, Role::shared_gate_bias);
    const TensorId up = shared("shared up", x, routing.shared_size, Role::shared_up, Role::shared_up_bias);
    const TensorId inner = build_activated(graph, "shared ", shape, gate, up, shape.clamp);
    const TensorId down =
        shared("shared out", inner, graph.stack->hidden, Role::shared_down, Role::shared_down_bias);
    if (!routing.shared_gate) return down;
    const TensorId share = graph.linear("shared expert gate", x, 1, Role::shared_expert_gate);
    return graph.emit(op::Gate{down, share, graph.tensor_like("shared gated out", down), 1});
}

}  // namespace

TensorId build_experts(GraphBuilder& graph, const FeedForward& shape, const FeedForwardInput& in) {
    const Routing& routing = shape.routing;
    const TensorId scores = scores_of(graph, routing, in);
    const TensorId x = routing.apart ? graph.norm(expert_norm, in.stream) : in.x;
    const TensorId routes =
        graph.emit(op::Route{scores, graph.tensor("routes", 2 * routing.used), routing,
                             graph.optional(routing.choice_bias, Role::router_choice_bias),
                             graph.optional(routing.weight_scale, Role::router_weight_scale)});
    const auto experts = [&](const char* name, TensorId y, uint32_t cols, Role role, Role bias) {
        return graph.emit(op::ExpertLinear{y, routes, graph.tensor(name, routing.used * cols),
                                           graph.weight(role), graph.optional(routing.bias, bias),
                                           routing.experts, routing.used});
    };
    std::optional<TensorId> gate;
    if (shape.gated)
        gate = experts("expert gate", x, routing.size, Role::expert_gate, Role::expert_gate_bias);
    const TensorId up = experts("expert up", x, routing.size, Role::expert_up, Role::expert_up_bias);
    if (routing.scales_input)  // up is scaled with the sum
        gate = graph.emit(op::Gate{*gate, routes, graph.tensor_like("expert gate scaled", *gate),
                                   routing.used, routing.used, Activation::identity});
    const TensorId inner = build_activated(graph, "expert ", shape, gate, up, routing.clamp);
    const TensorId down =
        experts("expert out", inner, graph.stack->hidden, Role::expert_down, Role::expert_down_bias);
    TensorId sum =
        graph.emit(op::ExpertSum{down, routes, graph.tensor("experts", graph.stack->hidden), routing.used});
    if (routing.apart) sum = graph.norm(expert_post_norm, sum);
    if (routing.shared_size == 0) return sum;
    TensorId shared = shared_expert(graph, shape, in.x);
    if (routing.apart) shared = graph.norm(shared_post_norm, shared);
    return graph.add("experts and shared", sum, shared);
}

}  // namespace scoria
