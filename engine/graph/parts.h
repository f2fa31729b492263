// The parts of a graph, each a file of this folder: functions from tensors to what the part makes of them,
// for the layer and the stack that `graph` is at.
#pragma once

#include "builder.h"

namespace scoria {

// Norms that stand in several parts.
inline constexpr NormRoles output_norm{"output norm", Role::output_norm, Role::output_norm_bias},
    attention_norm{"attention norm", Role::attention_norm, Role::attention_norm_bias},
    attention_post_norm{"attention post-norm", Role::attention_post_norm, Role::attention_post_norm_bias},
    feed_forward_norm{"feed-forward norm", Role::feed_forward_norm, Role::feed_forward_norm_bias},
    feed_forward_post_norm{"feed-forward post-norm", Role::feed_forward_post_norm,
                           Role::feed_forward_post_norm_bias};

// embedding.cpp
/// Of tokens, with their positions and types.
TensorId build_embedding(GraphBuilder& graph);

// ahead.cpp
/// Where a layer of Ahead::embedding_first or hidden_first begins.
TensorId build_predicting(GraphBuilder& graph, TensorId embedding);
/// The stream that a layer of Ahead::features begins with, and its norm.
struct FeatureStream {
    TensorId stream, normed;
};
FeatureStream build_features(GraphBuilder& graph);
/// Behind that layer.
TensorId build_features_block(GraphBuilder& graph, const Layer& layer, TensorId embedding, FeatureStream in);

// block.cpp
/// The residual stream behind a layer, of the one before it; per_layer: what build_per_layer_embeddings made,
/// if anything.
TensorId build_block(GraphBuilder& graph, const Layer& layer, TensorId before,
                     std::optional<TensorId> per_layer);
struct TwoStreams {
    TensorId first, second;
};
/// Of Architecture::two_streams.
TwoStreams build_reversible_block(GraphBuilder& graph, const Layer& layer, TwoStreams streams);

// attention.cpp, latent_attention.cpp, chunk_attention.cpp: from the (normed) stream to what is added to it
/// Of every kind, the next two among them.
TensorId build_attention(GraphBuilder& graph, const Attention& shape, TensorId x);
TensorId build_latent_attention(GraphBuilder& graph, const Attention& shape, TensorId x);
TensorId build_chunk_attention(GraphBuilder& graph, const Attention& shape, TensorId x);
/// What the heads of x found, times what Attention::output_gate says.
TensorId build_gated_heads(GraphBuilder& graph, const Attention& shape, TensorId x, TensorId heads);
/// To the encoder's output, whose keys and values build_cross_keys left in the cache.
TensorId build_cross_attention(GraphBuilder& graph, const Attention& cross, TensorId x);
void build_cross_keys(GraphBuilder& graph, const Attention& cross, TensorId encoded);

// recurrence.cpp
/// What struct Recurrence says, in place of attention or beside it.
TensorId build_recurrence(GraphBuilder& graph, const Recurrence& shape, TensorId x);

// feed_forward.cpp
struct FeedForwardInput {
    TensorId x;       // the stream, normed or not
    TensorId stream;  // without that norm
    TensorId before;  // the stream before the layer
};
TensorId build_feed_forward(GraphBuilder& graph, const FeedForward& shape, const FeedForwardInput& in);
/// act(gate) * up, or act(up) where there is no gate.
TensorId build_activated(GraphBuilder& graph, std::string_view whose, const FeedForward& shape,
                         std::optional<TensorId> gate, TensorId up, const GluClamp& clamp);

// experts.cpp
/// Mixture of experts (Shazeer et al. 2017): the chosen ones, and one that all tokens pass if there is.
TensorId build_experts(GraphBuilder& graph, const FeedForward& shape, const FeedForwardInput& in);

// per_layer.cpp: Architecture::per_layer
/// Of all layers, side by side; x: the embedding.
TensorId build_per_layer_embeddings(GraphBuilder& graph, TensorId x);
/// What they add behind a layer, made of x.
TensorId build_per_layer_update(GraphBuilder& graph, const Layer& layer, TensorId x, TensorId per_layer);

// alternating.cpp: struct Alternating
/// The streams that begin as the embedding x.
TensorId build_streams(GraphBuilder& graph, TensorId x);
TensorId build_alternating_block(GraphBuilder& graph, const Layer& layer, TensorId streams,
                                 TensorId per_layer);
TensorId build_merged_streams(GraphBuilder& graph, TensorId streams);

// head.cpp
/// From the stream behind the last layer to the logits, for output rows.
void build_head(GraphBuilder& graph, TensorId stream);

}  // namespace scoria
