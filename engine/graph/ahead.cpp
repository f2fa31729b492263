// Models that guess for another (enum Ahead).
#include "parts.h"

#include <utility>

namespace scoria {
namespace {

constexpr NormRoles ahead_embedding_norm{"embedding normed", Role::ahead_embedding_norm},
    ahead_hidden_norm{"hidden normed", Role::ahead_hidden_norm},
    ahead_features_norm{"features normed", Role::ahead_features_norm};

TensorId given(GraphBuilder& graph, uint32_t cols) {
    graph.made.given = graph.tensor("given", cols);
    return *graph.made.given;
}

}  // namespace

TensorId build_predicting(GraphBuilder& graph, TensorId embedding) {
    const uint32_t hidden = graph.stack->hidden;
    TensorId first = graph.norm(ahead_embedding_norm, embedding),
             second = graph.norm(ahead_hidden_norm, given(graph, hidden));
    if (graph.stack->ahead == Ahead::hidden_first) std::swap(first, second);
    return graph.linear("ahead in", graph.side_by_side("embedding and hidden", first, second), hidden,
                        Role::ahead_in);
}

FeatureStream build_features(GraphBuilder& graph) {
    const Architecture& stack = *graph.stack;
    const TensorId all = given(graph, stack.features + stack.hidden);
    const auto columns = [&](const char* name, uint32_t first, uint32_t count) {
        return graph.emit(op::Pack{all, all, graph.tensor(name, count), 1, {first, count}, {}});
    };
    TensorId features = columns("features", 0, stack.features);
    if (stack.features_normed) features = graph.norm(ahead_features_norm, features);
    const TensorId joined = graph.linear("ahead in", features, stack.hidden, Role::ahead_in);
    const TensorId stream =
        graph.add("stream in", joined, columns("own stream", stack.features, stack.hidden));
    return {stream, graph.norm(ahead_hidden_norm, stream)};
}

TensorId build_features_block(GraphBuilder& graph, const Layer& layer, TensorId embedding, FeatureStream in) {
    const TensorId both =
        graph.side_by_side("embedding and stream", graph.norm(attention_norm, embedding), in.normed);
    const TensorId stream =
        graph.add("attention residual", graph.stack->normed_residual ? in.normed : in.stream,
                  build_attention(graph, layer.attention, both));
    const TensorId fed = build_feed_forward(
        graph, layer.feed_forward,
        {.x = graph.norm(feed_forward_norm, stream), .stream = stream, .before = in.stream});
    return graph.add("feed-forward residual", stream, fed);
}

}  // namespace scoria
