// Several residual streams side by side, which a layer predicts and corrects (struct Alternating).
#include "parts.h"

#include <cmath>

namespace scoria {
namespace {

constexpr NormRoles altup_router_norm{"stream router norm", Role::altup_router_norm},
    laurel_norm{"laurel norm", Role::laurel_norm};

/// A stream of the rows of x, which may be several.
TensorId one_stream(GraphBuilder& graph, const char* name, TensorId x) {
    return graph.tensor(name, graph.stack->hidden, graph.at(x).rows);
}

TensorId first_norm(GraphBuilder& graph, const NormRoles& roles, TensorId x) {
    const Norm& kind = graph.stack->norm;
    return graph.emit(op::Norm{x, one_stream(graph, roles.name, x), graph.optional(kind.weight, roles.weight),
                               std::nullopt, kind.kind, kind.epsilon, graph.stack->hidden,
                               graph.stack->hidden});
}

/// Each stream of x as long as the first of y.
TensorId as_long(GraphBuilder& graph, const char* name, TensorId x, TensorId y) {
    constexpr float least = 1e-5f;  // of the published code
    return graph.emit(op::Norm{x, graph.tensor_like(name, x), std::nullopt, std::nullopt, NormKind::match,
                               least, graph.stack->hidden, graph.stack->hidden, y});
}

/// hidden times what altup_predict or altup_correct makes of the router's tanh.
TensorId stream_factors(GraphBuilder& graph, const char* name, TensorId x, uint32_t count, Role role) {
    const TensorId routed = graph.bare_linear("stream router", first_norm(graph, altup_router_norm, x),
                                              graph.stack->alternating.count, Role::altup_router);
    const TensorId modalities =
        graph.map("stream modalities", routed, MapKind::soft_cap, float(graph.stack->hidden));
    return graph.bare_linear(name, modalities, count, role);
}

/// What the block of a layer makes of the first stream as predicted.
TensorId built_of_first(GraphBuilder& graph, const Layer& layer, TensorId predicted, TensorId streams) {
    const uint32_t hidden = graph.stack->hidden;
    const TensorId x = first_norm(graph, attention_norm, predicted);
    const TensorId left = graph.linear("laurel left", x, graph.stack->alternating.laurel, Role::laurel_left);
    const TensorId right = graph.linear("laurel right", left, hidden, Role::laurel_right);
    const TensorId laurel = graph.add("laurel", x, graph.norm(laurel_norm, right));
    const TensorId attended = graph.norm(attention_post_norm, build_attention(graph, layer.attention, x));
    TensorId stream =
        graph.emit(op::Add{predicted, attended, graph.tensor_like("attention residual", attended)});
    stream = graph.add("with laurel", stream, laurel);
    stream = graph.map("with laurel, scaled", stream, MapKind::scale, std::sqrt(0.5f));
    const TensorId normed = graph.norm(feed_forward_norm, stream);
    const TensorId fed =
        build_feed_forward(graph, layer.feed_forward, {.x = normed, .stream = stream, .before = streams});
    return graph.add("feed-forward residual", stream, graph.norm(feed_forward_post_norm, fed));
}

}  // namespace

TensorId build_streams(GraphBuilder& graph, TensorId x) {
    const uint32_t others = graph.stack->alternating.count - 1;
    const TensorId y = graph.linear("other streams", x, others * graph.stack->hidden, Role::altup_in);
    return graph.side_by_side("streams", x, as_long(graph, "other streams matched", y, x));
}

TensorId build_alternating_block(GraphBuilder& graph, const Layer& layer, TensorId streams,
                                 TensorId per_layer) {
    const Alternating& shape = graph.stack->alternating;
    const uint32_t hidden = graph.stack->hidden;
    const auto mix = [&](const char* name, TensorId x, TensorId y, std::optional<TensorId> factors,
                         float offset, uint32_t first = 0) {
        return graph.emit(
            op::Mix{x, y, factors, graph.tensor_like(name, x), hidden, offset, 1 / float(hidden), first});
    };
    const TensorId predicting =
        stream_factors(graph, "prediction factors", streams, shape.count * shape.count, Role::altup_predict);
    const TensorId predicted = mix("streams predicted", streams, streams, predicting, 0);
    const TensorId stream = built_of_first(graph, layer, predicted, streams);
    const TensorId innovation =
        graph.emit(op::Add{stream, predicted, graph.tensor_like("innovation", stream), -1});
    const TensorId correcting =
        stream_factors(graph, "correction factors", stream, shape.count, Role::altup_correct);
    const TensorId corrected = mix("streams corrected", predicted, innovation, correcting, 1);
    const TensorId first = graph.emit(op::Norm{corrected, one_stream(graph, "stream scaled", corrected),
                                               graph.optional(shape.scaled, Role::altup_scale), std::nullopt,
                                               NormKind::scale, 0, hidden, hidden});
    const TensorId update = build_per_layer_update(graph, layer, first, per_layer);
    return mix("streams out", corrected, update, std::nullopt, 1, 1);
}

TensorId build_merged_streams(GraphBuilder& graph, TensorId streams) {
    const uint32_t count = graph.stack->alternating.count, hidden = graph.stack->hidden;
    const uint32_t cols = (count - 1) * hidden;
    const RowKind rows = graph.at(streams).rows;
    const TensorId others = graph.emit(
        op::Pack{streams, streams, graph.tensor("other streams", cols, rows), 1, {hidden, cols}, {}});
    const TensorId out = graph.emit(op::HeadLinear{others, graph.tensor("other streams out", cols, rows),
                                                   graph.weight(Role::altup_out), count - 1, 0});
    const TensorId matched = as_long(graph, "other streams out matched", out, streams);
    const TensorId sum = graph.emit(
        op::Mix{streams, matched, std::nullopt, one_stream(graph, "streams summed", streams), hidden, 1});
    return graph.map("streams merged", sum, MapKind::scale, 1 / float(count));
}

}  // namespace scoria
