// A layer: where its norms stand, and how what its parts make is added to the residual stream.
#include "parts.h"

#include "fail.h"

namespace scoria {
namespace {

constexpr NormRoles attention_post_norm_2{"second attention post-norm", Role::attention_post_norm_2,
                                          Role::attention_post_norm_2_bias},
    cross_norm{"cross norm", Role::cross_norm, Role::cross_norm_bias};

/// What a layer ends with.
TensorId end_of(GraphBuilder& graph, const Layer& layer, TensorId stream, std::optional<TensorId> per_layer) {
    if (per_layer)
        stream =
            graph.add("per-layer residual", stream, build_per_layer_update(graph, layer, stream, *per_layer));
    return graph.scaled("scaled", stream, layer.scale);
}

/// kept * stream + scale * made
TensorId residual(GraphBuilder& graph, const char* name, TensorId stream, TensorId made, float kept,
                  float scale) {
    if (kept == 1) return graph.add(name, stream, made, scale);
    return graph.add(name, graph.scaled(cat(name, " scaled"), made, scale), stream, kept);
}

TensorId parallel_block(GraphBuilder& graph, const Layer& layer, TensorId before) {
    const float scale = graph.stack->residual_scale;
    const bool one_norm = graph.stack->placement == NormPlacement::parallel;
    const TensorId x = graph.norm(attention_norm, before);
    const TensorId y = one_norm ? x : graph.norm(feed_forward_norm, before);
    const TensorId stream =
        graph.add("attention residual", before, build_attention(graph, layer.attention, x), scale);
    const TensorId fed =
        build_feed_forward(graph, layer.feed_forward, {.x = y, .stream = stream, .before = before});
    return graph.add("feed-forward residual", stream, fed, scale * layer.feed_forward_out);
}

}  // namespace

TwoStreams build_reversible_block(GraphBuilder& graph, const Layer& layer, TwoStreams streams) {
    const TensorId attended =
        build_attention(graph, layer.attention, graph.norm(attention_norm, streams.second));
    const TensorId first = graph.add("attention residual", streams.first, attended);
    const TensorId x = graph.norm(feed_forward_norm, first);
    const TensorId fed =
        build_feed_forward(graph, layer.feed_forward, {.x = x, .stream = first, .before = streams.second});
    return {first, graph.add("feed-forward residual", streams.second, fed)};
}

TensorId build_block(GraphBuilder& graph, const Layer& layer, TensorId before,
                     std::optional<TensorId> per_layer) {
    if (graph.stack->alternating.count) return build_alternating_block(graph, layer, before, *per_layer);
    const NormPlacement placement = graph.stack->placement_of(layer);
    if (placement == NormPlacement::parallel || placement == NormPlacement::parallel_2)
        return parallel_block(graph, layer, before);
    const float scale = graph.stack->residual_scale;
    const bool pre = placement == NormPlacement::pre || placement == NormPlacement::sandwich ||
                     placement == NormPlacement::normed;
    const bool post = placement == NormPlacement::sandwich || placement == NormPlacement::output;
    Norm behind = graph.stack->norm;
    if (graph.stack->post_epsilon > 0) behind.epsilon = graph.stack->post_epsilon;
    const auto post_normed = [&](const NormRoles& roles, TensorId x) {
        return graph.norm(behind, roles, x, graph.at(x).cols, graph.at(x).cols);
    };
    TensorId stream = before;
    const auto normed = [&](const NormRoles& roles) {
        const TensorId y = graph.norm(roles, stream);
        if (placement == NormPlacement::normed) stream = y;
        return y;
    };
    if (layer.mixes()) {
        const TensorId in = pre && layer.attention_norm ? normed(attention_norm) : stream;
        const auto add_mixed = [&](const char* name, TensorId mixed, float factor) {
            if (post) mixed = post_normed(attention_post_norm, mixed);
            stream = residual(graph, name, stream, mixed, layer.attention_residual, scale * factor);
        };
        if (layer.recurs())
            add_mixed(layer.attention.heads ? "recurrence residual" : "attention residual",
                      build_recurrence(graph, layer.recurrence, in), layer.recurrence_out);
        if (layer.attention.heads)
            add_mixed("attention residual", build_attention(graph, layer.attention, in), layer.attention_out);
    }
    const bool twice = placement == NormPlacement::post_2, after = twice || placement == NormPlacement::post;
    if (after) stream = graph.norm(attention_post_norm, stream);
    if (twice)
        stream = graph.norm(attention_post_norm_2, graph.add("attention residual again", before, stream));
    if (layer.cross.heads) {
        const TensorId x =
            build_cross_attention(graph, layer.cross, pre ? graph.norm(cross_norm, stream) : stream);
        stream = graph.add("cross residual", stream, x, scale);
        if (!pre) stream = graph.norm(cross_norm, stream);
    }
    if (!layer.feeds()) return end_of(graph, layer, stream, per_layer);
    TensorId x = pre ? normed(feed_forward_norm) : stream;
    x = build_feed_forward(graph, layer.feed_forward, {.x = x, .stream = stream, .before = before});
    if (post) x = post_normed(feed_forward_post_norm, x);
    stream = residual(graph, "feed-forward residual", stream, x, layer.feed_forward_residual,
                      scale * layer.feed_forward_out);
    if (after) stream = graph.norm(feed_forward_post_norm, stream);
    return end_of(graph, layer, stream, per_layer);
}

}  // namespace scoria
