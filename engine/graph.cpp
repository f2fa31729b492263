// Builds the graph of one stack of layers, or of two. Attention kinds, feed-forward kinds and whatever else a
// stack is made of are functions of the folder graph, from tensors to a tensor; parts.h lists them.
#include "graph.h"

#include "fail.h"
#include "graph/parts.h"

namespace scoria {
namespace {

/// The residual stream after the last layer of the stack; `hidden` gets the one before each layer and it.
TensorId build_layers(GraphBuilder& graph, std::vector<TensorId>& hidden) {
    const Architecture& stack = *graph.stack;
    TensorId stream = build_embedding(graph), first = stream;
    std::optional<FeatureStream> features;
    if (stack.ahead == Ahead::features) {
        features = build_features(graph);
        stream = features->stream;
    } else if (stack.guesses_ahead()) {
        stream = build_predicting(graph, stream);
    }
    std::optional<TensorId> per_layer;
    if (stack.per_layer) per_layer = build_per_layer_embeddings(graph, stream);
    if (stack.alternating.count) stream = build_streams(graph, stream);
    hidden.push_back(stream);
    for (const Layer& layer : stack.layers) {
        ++graph.layer;
        if (stack.two_streams) {
            const TwoStreams both = build_reversible_block(graph, layer, {first, stream});
            first = both.first, stream = both.second;
        } else if (features) {
            stream = build_features_block(graph, layer, first, *features);
        } else {
            stream = build_block(graph, layer, stream, per_layer);
        }
        const size_t run = size_t(graph.layer) + 1;
        if (stack.norms_loops && run % stack.own_layers() == 0 && run != stack.layers.size())
            stream = graph.emit(op::Norm{stream, graph.tensor_like("loop normed", stream),
                                         WeightRef{Role::output_norm}, std::nullopt, stack.norm.kind,
                                         stack.norm.epsilon, stack.hidden, stack.hidden});
        hidden.push_back(stream);
    }
    graph.layer = -1;
    return stack.two_streams ? graph.side_by_side("both streams", first, stream) : stream;
}

/// The encoder, and the keys and values of its output that the decoder's layers will see.
void build_encoder(GraphBuilder& graph) {
    graph.stack = &graph.model.encoder.front();
    TensorId x = build_layers(graph, graph.made.encoder_hidden);
    if (graph.stack->output_norm) x = graph.norm(output_norm, x);
    graph.made.encoder_last_hidden = x;
    graph.stack = &graph.model;
    for (const Layer& layer : graph.model.layers) {
        ++graph.layer;
        build_cross_keys(graph, layer.cross, x);
    }
    graph.layer = -1;
    graph.made.encoder_ops = graph.made.ops.size();
}

}  // namespace

Graph build_graph(const Architecture& architecture) {
    GraphBuilder graph{architecture};
    if (!architecture.encoder.empty()) build_encoder(graph);
    build_head(graph, build_layers(graph, graph.made.hidden));
    for (const auto& [ref, rank] : architecture.adapters)
        if (!graph.adapters.contains(ref))
            fail(Status::unsupported, "lora", "expected an adapter of a linear layer, got one of ",
                 role_name(ref.role), ref.layer < 0 ? "" : cat(" of layer ", ref.layer));
    return std::move(graph.made);
}

}  // namespace scoria
