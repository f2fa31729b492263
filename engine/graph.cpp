// Builds the graph of one stack of layers, or of two. Attention kinds and feed-forward kinds are one small
// function each, from the (normed) residual stream to the value added to it; a block joins them.
#include "graph.h"

#include "fail.h"

#include <cmath>
#include <set>

namespace scoria {
namespace {

/// Roles of one norm and its bias.
struct NormRoles {
    const char* name;
    Role weight, bias;
};
constexpr NormRoles embedding_norm{"embedding norm", Role::embedding_norm, Role::embedding_norm_bias},
    attention_norm{"attention norm", Role::attention_norm, Role::attention_norm_bias},
    attention_post_norm{"attention post-norm", Role::attention_post_norm, Role::attention_post_norm_bias},
    attention_post_norm_2{"second attention post-norm", Role::attention_post_norm_2,
                          Role::attention_post_norm_2_bias},
    feed_forward_norm{"feed-forward norm", Role::feed_forward_norm, Role::feed_forward_norm_bias},
    feed_forward_post_norm{"feed-forward post-norm", Role::feed_forward_post_norm,
                           Role::feed_forward_post_norm_bias},
    head_norm{"head norm", Role::head_norm, Role::head_norm_bias},
    output_norm{"output norm", Role::output_norm, Role::output_norm_bias},
    cross_norm{"cross norm", Role::cross_norm, Role::cross_norm_bias},
    latent_q_norm{"latent q normed", Role::latent_q_norm, Role::latent_q_norm},
    q_norm{"q normed", Role::q_norm, Role::q_norm_bias}, k_norm{"k normed", Role::k_norm, Role::k_norm_bias},
    mixer_norm{"mixed normed", Role::mixer_norm, Role::mixer_norm},
    mixer_step_norm{"mixer step low normed", Role::mixer_step_norm, Role::mixer_step_norm},
    per_layer_post_norm{"per-layer post-norm", Role::per_layer_post_norm, Role::per_layer_post_norm},
    router_norm{"router norm", Role::router_norm, Role::router_norm},
    expert_norm{"expert norm", Role::expert_norm, Role::expert_norm},
    expert_post_norm{"expert post-norm", Role::expert_post_norm, Role::expert_post_norm},
    shared_post_norm{"shared post-norm", Role::shared_post_norm, Role::shared_post_norm},
    altup_router_norm{"stream router norm", Role::altup_router_norm, Role::altup_router_norm},
    laurel_norm{"laurel norm", Role::laurel_norm, Role::laurel_norm},
    heads_norm{"heads normed", Role::heads_norm, Role::heads_norm},
    inner_norm{"inner normed", Role::inner_norm, Role::inner_norm};

class Builder {
  public:
    explicit Builder(const Architecture& model) : model_(model), stack_(&model) {}

    Graph build() {
        if (!model_.encoder.empty()) encoder();
        head(layers(graph_.hidden));
        for (const auto& [ref, rank] : model_.adapters)
            if (!adapted_.contains(ref))
                fail(Status::unsupported, "lora", "expected an adapter of a linear layer, got one of ",
                     role_name(ref.role), ref.layer < 0 ? "" : cat(" of layer ", ref.layer));
        return std::move(graph_);
    }

  private:
    const Architecture& stack() const { return *stack_; }
    bool in_encoder() const { return stack_ != &model_; }

    /// The residual stream after the last layer of the stack.
    TensorId layers(std::vector<TensorId>& hidden) {
        TensorId stream = embedding();
        first_stream_ = stream;
        if (stack().per_layer) per_layer_ = per_layer_embeddings(stream);
        if (stack().alternating.count) stream = streams_of(stream);
        hidden.push_back(stream);
        for (layer_ = 0; layer_ < static_cast<int32_t>(stack().layers.size()); ++layer_) {
            stream = block(stack().layers[static_cast<size_t>(layer_)], stream);
            hidden.push_back(stream);
        }
        layer_ = -1;
        return stack().two_streams ? side_by_side("both streams", *first_stream_, stream) : stream;
    }

    /// The encoder, and the keys and values of its output that the decoder's layers will see.
    void encoder() {
        stack_ = &model_.encoder.front();
        TensorId x = layers(graph_.encoder_hidden);
        if (stack().output_norm) x = norm(output_norm, x);
        graph_.encoder_last_hidden = x;
        stack_ = &model_;
        for (layer_ = 0; layer_ < static_cast<int32_t>(model_.layers.size()); ++layer_) {
            const Attention& shape = model_.layers[static_cast<size_t>(layer_)].cross;
            const uint32_t cols = shape.kv_heads * shape.head_dim;
            TensorId k =
                bare_linear("cross k", x, cols, Role::cross_k, optional(shape.k_bias, Role::cross_k_bias));
            TensorId v =
                bare_linear("cross v", x, cols, Role::cross_v, optional(shape.v_bias, Role::cross_v_bias));
            k = adapted(k, x, Role::cross_k);
            v = adapted(v, x, Role::cross_v);
            emit(
                op::Store{k, v, tensor("cross k stored", cols), cross_slot(model_, uint32_t(layer_)), shape});
        }
        layer_ = -1;
        graph_.encoder_ops = graph_.ops.size();
    }

    TensorId tensor(const std::string& name, uint32_t cols, RowKind rows = RowKind::tokens) {
        const TensorId id{static_cast<uint32_t>(graph_.tensors.size())};
        std::string full = layer_ < 0 ? name : cat("layer ", layer_, " ", name);
        graph_.tensors.push_back({in_encoder() ? "encoder " + full : std::move(full), rows, cols});
        return id;
    }
    /// A tensor shaped as `like`.
    TensorId tensor_like(const std::string& name, TensorId like) {
        return tensor(name, at(like).cols, at(like).rows);
    }
    template <class T> TensorId emit(const T& op) {
        graph_.ops.push_back(op);
        graph_.layers.push_back(layer_);
        return op.out;
    }
    /// The weight of `role` in the layer being built; outside the layers, the model's own.
    WeightRef weight(Role role) const { return {role, layer_, in_encoder()}; }
    std::optional<WeightRef> optional(bool present, Role role) const {
        return present ? std::optional(weight(role)) : std::nullopt;
    }
    const GraphTensor& at(TensorId id) const { return graph_.tensors[id.index]; }

    TensorId norm(const Norm& kind, const NormRoles& roles, TensorId x, uint32_t group, uint32_t weights) {
        return emit(op::Norm{x, tensor_like(roles.name, x), optional(kind.weight, roles.weight),
                             optional(kind.bias, roles.bias), kind.kind, kind.epsilon, group, weights});
    }
    TensorId norm(const NormRoles& roles, TensorId x) {
        return norm(stack().norm, roles, x, at(x).cols, at(x).cols);
    }
    TensorId bare_linear(const std::string& name, TensorId x, uint32_t cols, Role role,
                         std::optional<WeightRef> added = std::nullopt) {
        return emit(op::Linear{x, tensor(name, cols, at(x).rows), weight(role), added});
    }
    TensorId linear(const std::string& name, TensorId x, uint32_t cols, Role role,
                    std::optional<WeightRef> added = std::nullopt) {
        return adapted(bare_linear(name, x, cols, role, added), x, role);
    }
    /// y of x plus what the adapters of the weight add to it, if it has any.
    TensorId adapted(TensorId y, TensorId x, Role role) {
        const auto found = model_.adapters.find(weight(role));
        if (found == model_.adapters.end()) return y;
        adapted_.insert(found->first);
        WeightRef a = found->first, b = a;
        a.part = WeightPart::a, b.part = WeightPart::b;
        const auto part = [&](const char* name, TensorId in, uint32_t cols, const WeightRef& ref) {
            const TensorId out = tensor(cat(role_name(role), name), cols, at(in).rows);
            return emit(op::Linear{in, out, ref, std::nullopt});
        };
        const TensorId update = part(" adapter B", part(" adapter A", x, found->second, a), at(y).cols, b);
        return add(cat(role_name(role), " adapted"), y, update);
    }
    TensorId map(const std::string& name, TensorId x, MapKind kind, float value,
                 Activation activation = Activation::identity) {
        return emit(op::Map{x, tensor_like(name, x), kind, value, 0, activation});
    }
    TensorId scaled(const char* name, TensorId x, float factor) {
        return factor == 1 ? x : map(name, x, MapKind::scale, factor);
    }
    TensorId rope(const std::string& name, TensorId x, const Attention& shape, uint32_t heads, bool queries) {
        if (shape.rope < 0) return x;
        return emit(op::Rope{x, tensor_like(name, x), heads, shape.head_dim, uint32_t(shape.rope), queries});
    }
    TensorId add(const std::string& name, TensorId a, TensorId b, float scale = 1) {
        return emit(op::Add{a, b, tensor_like(name, a), scale});
    }

    TensorId embedding() {
        const uint32_t cols = stack().embedding ? stack().embedding : stack().hidden;
        const WeightRef table{Role::token_embedding, -1, in_encoder() && stack().vocab != 0};
        TensorId x =
            emit(op::Embed{tensor("embedding", cols), table, EmbedBy::token, stack().embedding_scale});
        if (stack().embedding) x = linear("embedding in", x, stack().hidden, Role::embedding_in);
        if (stack().positions) {
            const TensorId positions = emit(
                op::Embed{tensor_like("positions", x), weight(Role::position_embedding), EmbedBy::position});
            x = add("embedding with positions", x, positions);
        }
        if (const Architecture::Axial& axial = stack().axial; axial.rows) x = axial_positions(axial, x);
        if (stack().token_types) {
            const TensorId types = emit(op::Embed{tensor_like("token types", x),
                                                  weight(Role::token_type_embedding), EmbedBy::token_type});
            x = add("embedding with token types", x, types);
        }
        return stack().embedding_norm ? norm(embedding_norm, x) : x;
    }

    /// Of all layers (Architecture::per_layer). Under its norm the projection need not be divided by
    /// sqrt(hidden): the epsilon is multiplied by hidden instead.
    TensorId per_layer_embeddings(TensorId x) {
        const uint32_t cols = stack().per_layer, all = cols * uint32_t(stack().layers.size());
        const float half = std::sqrt(0.5f);
        const TensorId table =
            emit(op::Embed{tensor("per-layer embedding", all), weight(Role::per_layer_embedding),
                           EmbedBy::token, half * std::sqrt(float(cols))});
        const TensorId y = linear("per-layer projection", x, all, Role::per_layer_projection);
        const Norm& kind = stack().norm;
        const TensorId normed =
            emit(op::Norm{y, tensor_like("per-layer normed", y), weight(Role::per_layer_norm), std::nullopt,
                          kind.kind, kind.epsilon * float(stack().hidden), cols, cols});
        return add("per-layer embeddings", table, normed, half);
    }

    /// What per-layer embeddings add behind a layer, made of x.
    TensorId per_layer_update(const Layer& layer, TensorId x) {
        const uint32_t cols = stack().per_layer;
        const TensorId gate = linear("per-layer gate", x, cols, Role::per_layer_gate);
        op::Glu glu{gate, *per_layer_, tensor_like("per-layer gated", gate), layer.feed_forward.activation};
        glu.up_first = cols * uint32_t(layer_);
        return norm(per_layer_post_norm,
                    linear("per-layer out", emit(glu), stack().hidden, Role::per_layer_out));
    }

    /// What a layer ends with.
    TensorId end_of(const Layer& layer, TensorId stream) {
        if (stack().per_layer) stream = add("per-layer residual", stream, per_layer_update(layer, stream));
        return scaled("scaled", stream, layer.scale);
    }

    /// A stream of the rows of x, which may be several.
    TensorId one_stream(const char* name, TensorId x) { return tensor(name, stack().hidden, at(x).rows); }
    TensorId first_norm(const NormRoles& roles, TensorId x) {
        const Norm& kind = stack().norm;
        return emit(op::Norm{x, one_stream(roles.name, x), optional(kind.weight, roles.weight), std::nullopt,
                             kind.kind, kind.epsilon, stack().hidden, stack().hidden});
    }
    /// Each stream of x as long as the first of y.
    TensorId as_long(const char* name, TensorId x, TensorId y) {
        constexpr float least = 1e-5f;  // of the published code
        return emit(op::Norm{x, tensor_like(name, x), std::nullopt, std::nullopt, NormKind::match, least,
                             stack().hidden, stack().hidden, y});
    }
    /// hidden times what altup_predict or altup_correct makes of the router's tanh.
    TensorId stream_factors(const char* name, TensorId x, uint32_t count, Role role) {
        const TensorId routed = bare_linear("stream router", first_norm(altup_router_norm, x),
                                            stack().alternating.count, Role::altup_router);
        return bare_linear(name, map("stream modalities", routed, MapKind::soft_cap, float(stack().hidden)),
                           count, role);
    }
    TensorId streams_of(TensorId x) {
        const uint32_t others = stack().alternating.count - 1;
        const TensorId y = linear("other streams", x, others * stack().hidden, Role::altup_in);
        return side_by_side("streams", x, as_long("other streams matched", y, x));
    }
    TensorId merged(TensorId streams) {
        const uint32_t count = stack().alternating.count, hidden = stack().hidden;
        const uint32_t cols = (count - 1) * hidden;
        const RowKind rows = at(streams).rows;
        const TensorId others =
            emit(op::Pack{streams, streams, tensor("other streams", cols, rows), 1, {hidden, cols}, {}});
        const TensorId out = emit(op::HeadLinear{others, tensor("other streams out", cols, rows),
                                                 weight(Role::altup_out), count - 1, 0});
        const TensorId matched = as_long("other streams out matched", out, streams);
        const TensorId sum =
            emit(op::Mix{streams, matched, std::nullopt, one_stream("streams summed", streams), hidden, 1});
        return map("streams merged", sum, MapKind::scale, 1 / float(count));
    }

    TensorId alternating_block(const Layer& layer, TensorId streams) {
        const Alternating& shape = stack().alternating;
        const uint32_t hidden = stack().hidden;
        const auto mix = [&](const char* name, TensorId x, TensorId y, std::optional<TensorId> factors,
                             float offset, uint32_t first = 0) {
            return emit(
                op::Mix{x, y, factors, tensor_like(name, x), hidden, offset, 1 / float(hidden), first});
        };
        const TensorId predicted = mix(
            "streams predicted", streams, streams,
            stream_factors("prediction factors", streams, shape.count * shape.count, Role::altup_predict), 0);
        const TensorId x = first_norm(attention_norm, predicted);
        const TensorId left = linear("laurel left", x, shape.laurel, Role::laurel_left);
        const TensorId laurel =
            add("laurel", x, norm(laurel_norm, linear("laurel right", left, hidden, Role::laurel_right)));
        const TensorId attended = norm(attention_post_norm, attention(layer.attention, x));
        TensorId stream = emit(op::Add{predicted, attended, tensor_like("attention residual", attended)});
        stream =
            map("with laurel, scaled", add("with laurel", stream, laurel), MapKind::scale, std::sqrt(0.5f));
        const TensorId fed = feed_forward(layer.feed_forward, norm(feed_forward_norm, stream), stream);
        stream = add("feed-forward residual", stream, norm(feed_forward_post_norm, fed));
        const TensorId innovation = emit(op::Add{stream, predicted, tensor_like("innovation", stream), -1});
        const TensorId corrected =
            mix("streams corrected", predicted, innovation,
                stream_factors("correction factors", stream, shape.count, Role::altup_correct), 1);
        const TensorId first = emit(op::Norm{corrected, one_stream("stream scaled", corrected),
                                             optional(shape.scaled, Role::altup_scale), std::nullopt,
                                             NormKind::scale, 0, hidden, hidden});
        return mix("streams out", corrected, per_layer_update(layer, first), std::nullopt, 1, 1);
    }

    TensorId side_by_side(const std::string& name, TensorId a, TensorId b) {
        return emit(
            op::Pack{a, b, tensor(name, at(a).cols + at(b).cols), 1, {0, at(a).cols}, {0, at(b).cols}});
    }

    TensorId axial_positions(const Architecture::Axial& axial, TensorId x) {
        const auto axis = [&](const char* name, uint32_t cols, Role role, uint32_t divide, uint32_t period) {
            return emit(op::Embed{tensor(name, cols), weight(role), EmbedBy::position, 1, divide, period});
        };
        const TensorId rows = axis("axial rows", axial.width, Role::axial_rows, axial.cols, axial.rows);
        const TensorId cols =
            axis("axial cols", stack().hidden - axial.width, Role::axial_cols, 1, axial.cols);
        return add("embedding with positions", x, side_by_side("positions", rows, cols));
    }

    /// Returns the second stream; the first is first_stream_.
    TensorId reversible_block(const Layer& layer, TensorId second) {
        first_stream_ = add("attention residual", *first_stream_,
                            attention(layer.attention, norm(attention_norm, second)));
        return add("feed-forward residual", second,
                   feed_forward(layer.feed_forward, norm(feed_forward_norm, *first_stream_), *first_stream_));
    }

    TensorId block(const Layer& layer, TensorId stream) {
        layer_input_ = stream;
        if (stack().two_streams) return reversible_block(layer, stream);
        if (stack().alternating.count) return alternating_block(layer, stream);
        const NormPlacement placement = stack().placement;
        const float scale = stack().residual_scale;
        if (placement == NormPlacement::parallel || placement == NormPlacement::parallel_2) {
            const TensorId x = norm(attention_norm, stream);
            const TensorId y = placement == NormPlacement::parallel ? x : norm(feed_forward_norm, stream);
            stream = add("attention residual", stream, attention(layer.attention, x), scale);
            return add("feed-forward residual", stream, feed_forward(layer.feed_forward, y, stream),
                       scale * layer.feed_forward_out);
        }
        const bool pre = placement == NormPlacement::pre || placement == NormPlacement::sandwich ||
                         placement == NormPlacement::normed;
        const bool post = placement == NormPlacement::sandwich || placement == NormPlacement::output;
        const auto normed = [&](const NormRoles& roles) {
            const TensorId y = norm(roles, stream);
            if (placement == NormPlacement::normed) stream = y;
            return y;
        };
        const TensorId before = stream;
        if (layer.mixes()) {
            const TensorId in = pre && layer.attention_norm ? normed(attention_norm) : stream;
            const auto add_mixed = [&](const char* name, TensorId mixed, float factor) {
                if (post) mixed = norm(attention_post_norm, mixed);
                stream = add(name, stream, mixed, scale * factor);
            };
            if (layer.recurs())
                add_mixed(layer.attention.heads ? "recurrence residual" : "attention residual",
                          recurrence(layer.recurrence, in), layer.recurrence_out);
            if (layer.attention.heads)
                add_mixed("attention residual", attention(layer.attention, in), layer.attention_out);
        }
        const bool twice = placement == NormPlacement::post_2,
                   after = twice || placement == NormPlacement::post;
        if (after) stream = norm(attention_post_norm, stream);
        if (twice) stream = norm(attention_post_norm_2, add("attention residual again", before, stream));
        if (layer.cross.heads) {
            const TensorId x = cross_attention(layer.cross, pre ? norm(cross_norm, stream) : stream);
            stream = add("cross residual", stream, x, scale);
            if (!pre) stream = norm(cross_norm, stream);
        }
        if (!layer.feeds()) return end_of(layer, stream);
        TensorId x = pre ? normed(feed_forward_norm) : stream;
        x = feed_forward(layer.feed_forward, x, stream);
        if (post) x = norm(feed_forward_post_norm, x);
        stream = add("feed-forward residual", stream, x, scale * layer.feed_forward_out);
        if (after) stream = norm(feed_forward_post_norm, stream);
        return end_of(layer, stream);
    }

    TensorId qk_normed(const QkNorm& kind, const NormRoles& roles, TensorId x, uint32_t head_dim) {
        const uint32_t cols = at(x).cols;
        const uint32_t group = kind.group == QkNorm::Group::head ? head_dim : cols;
        return norm(kind.norm, roles, x, group, kind.own_weights ? cols : group);
    }

    /// q, k and v may each be followed by adapters, a norm, a clamp and a rotation; plan_attention.cpp knows
    /// this order.
    TensorId attention(const Attention& shape, TensorId x) {
        if (shape.latent.kv_rank) return latent_attention(shape, x);
        if (shape.chunks.length) return chunk_attention(shape, x);
        const uint32_t q_cols = shape.heads * shape.head_dim, kv_cols = shape.kv_heads * shape.head_dim;
        const bool own_kv = shape.kv_layer < 0;
        std::optional<TensorId> distances;
        if (shape.bias == PositionBias::by_query) {
            const TensorId query = linear("q of distances", x, q_cols, Role::q,
                                          optional(shape.distance_q_bias, Role::distance_q_bias));
            distances = emit(op::HeadLinear{query, tensor("distances", shape.heads * shape.bias_span),
                                            weight(Role::distance_k), shape.heads, 0});
        }
        TensorId q = bare_linear("q", x, q_cols, Role::q, optional(shape.q_bias, Role::q_bias));
        std::optional<TensorId> k, v;
        if (own_kv) k = bare_linear("k", x, kv_cols, Role::k, optional(shape.k_bias, Role::k_bias));
        if (own_kv && !shape.v_is_k)
            v = bare_linear("v", x, kv_cols, Role::v, optional(shape.v_bias, Role::v_bias));
        q = adapted(q, x, Role::q);
        if (own_kv) k = adapted(*k, x, Role::k);
        if (own_kv) v = shape.v_is_k ? k : adapted(*v, x, Role::v);
        if (own_kv && shape.v_norm)
            v = emit(op::Norm{*v, tensor("v normed", kv_cols), std::nullopt, std::nullopt, NormKind::rms,
                              shape.qk_norm.norm.epsilon, shape.head_dim, shape.head_dim});
        const auto normed = [&](bool here) {
            if (shape.qk_norm.group == QkNorm::Group::none || !here) return;
            q = qk_normed(shape.qk_norm, q_norm, q, shape.head_dim);
            if (own_kv) k = qk_normed(shape.qk_norm, k_norm, *k, shape.head_dim);
        };
        normed(!shape.qk_norm.after_rope);
        if (shape.clip > 0) {
            q = map("q clamped", q, MapKind::clamp, shape.clip);
            if (own_kv) k = map("k clamped", *k, MapKind::clamp, shape.clip);
            if (own_kv) v = map("v clamped", *v, MapKind::clamp, shape.clip);
        }
        q = rope("q rotated", q, shape, shape.heads, true);
        if (own_kv) k = rope("k rotated", *k, shape, shape.kv_heads, false);
        normed(shape.qk_norm.after_rope);
        op::Attention attention{q, k, v, tensor("attention heads", q_cols), slot(), shape};
        if (shape.bias != PositionBias::none && !distances)
            attention.bias = WeightRef{Role::position_bias, 0, in_encoder()};
        attention.sinks = optional(shape.sinks, Role::sinks);
        attention.distances = distances;
        attention.distance_values = optional(shape.distance_values, Role::distance_v);
        TensorId heads = emit(attention);
        if (shape.global_tokens) heads = global_attention(shape, x, heads);
        if (const uint32_t columns = shape.gate_columns()) {
            const TensorId gate = linear("attention gate", x, columns, Role::attention_gate),
                           gated = tensor("attention gated", q_cols);
            heads = columns == q_cols ? emit(op::Glu{gate, heads, gated, shape.gate_activation})
                                      : emit(op::Gate{heads, gate, gated, columns, 0, shape.gate_activation});
        }
        if (shape.heads_norm) heads = norm(heads_norm, heads);
        return linear("attention out", heads, stack().hidden, Role::o, optional(shape.o_bias, Role::o_bias));
    }

    TensorId convolve(const Recurrence& shape, TensorId x, Activation activation) {
        return emit(op::Convolve{x, tensor("convolved", shape.channels()), weight(Role::mixer_taps),
                                 optional(shape.taps_bias, Role::mixer_taps_bias), activation, slot(),
                                 shape});
    }

    /// What struct Recurrence says, in place of attention.
    TensorId recurrence(const Recurrence& shape, TensorId x) {
        const auto out = [&](TensorId mixed) {
            return linear("mixer out", mixed, stack().hidden, Role::mixer_out);
        };
        if (shape.kind == RecurrenceKind::convolution) {
            const TensorId in_gate = linear("mixer input gate", x, shape.channels(), Role::mixer_in_gate);
            const TensorId in = linear("mixer in", x, shape.channels(), Role::mixer_in);
            const TensorId gated =
                emit(op::Glu{in_gate, in, tensor("mixer in gated", shape.channels()), Activation::identity});
            const TensorId gate = linear("mixer gate", x, shape.width, Role::mixer_gate);
            const TensorId convolved = convolve(shape, gated, Activation::identity);
            return out(emit(op::Glu{gate, convolved, tensor("mixed", shape.width), Activation::identity}));
        }
        if (shape.kind == RecurrenceKind::selective) return out(selective(shape, x));
        const bool delta = shape.kind == RecurrenceKind::delta;
        const TensorId in = linear("mixer in", x, shape.channels(), Role::mixer_in);
        const TensorId gate = scaled(
            "mixer gate scaled", linear("mixer gate", x, shape.width, Role::mixer_gate), shape.gate_scale);
        const TensorId step = scaled(
            "mixer step scaled", linear("mixer step", x, shape.heads, Role::mixer_step), shape.step_scale);
        std::optional<TensorId> beta;
        if (delta) beta = linear("mixer beta", x, shape.heads, Role::mixer_beta);
        const TensorId convolved = convolve(shape, in, Activation::silu);
        op::Scan scan{convolved,
                      convolved,
                      step,
                      beta,
                      {},
                      weight(Role::mixer_decay),
                      weight(Role::mixer_step_bias),
                      optional(!delta, Role::mixer_skip),
                      shape.q_channel(),
                      shape.k_channel(),
                      shape.v_channel(),
                      1,
                      1,
                      slot(),
                      shape};
        if (delta) {
            // x / sqrt(sum of x^2 + e) is an RMS norm by e / key_dim, over sqrt(key_dim).
            constexpr float length_epsilon = 1e-6f;  // of the published code
            const float dim = float(shape.key_dim);
            scan.qk = emit(op::Norm{convolved, tensor("q and k normed", 2 * shape.keys()), std::nullopt,
                                    std::nullopt, NormKind::rms, length_epsilon / dim, shape.key_dim,
                                    shape.key_dim});
            scan.k_scale = 1 / std::sqrt(dim);
            scan.q_scale = 1 / dim;
        }
        scan.out = tensor("scanned", shape.width);
        const TensorId scanned = emit(scan);
        const auto gated = [&](TensorId y) {
            return emit(op::Glu{gate, y, tensor("mixed", shape.width), Activation::silu});
        };
        const auto normed = [&](TensorId y, uint32_t group, uint32_t weights) {
            return norm({NormKind::rms, shape.epsilon}, mixer_norm, y, group, weights);
        };
        if (delta) return out(gated(normed(scanned, shape.value_dim, shape.value_dim)));
        const auto of_groups = [&](TensorId y) {
            return shape.normed ? normed(y, shape.width / shape.groups, shape.width) : y;
        };
        return out(shape.norm_first ? gated(of_groups(scanned)) : of_groups(gated(scanned)));
    }

    TensorId selective(const Recurrence& shape, TensorId x) {
        const TensorId in = linear("mixer in", x, shape.width, Role::mixer_in);
        const TensorId gate = linear("mixer gate", x, shape.width, Role::mixer_gate);
        const TensorId v = convolve(shape, in, Activation::silu);
        TensorId low = linear("mixer step low", v, shape.step_rank, Role::mixer_step_low);
        TensorId kq = linear("mixer k and q", v, 2 * shape.key_dim, Role::mixer_kq);
        if (shape.part_norms != Recurrence::PartNorms::none) {
            const bool weights = shape.part_norms == Recurrence::PartNorms::weighted;
            const Norm rms{NormKind::rms, shape.epsilon, weights};
            low = norm(rms, mixer_step_norm, low, shape.step_rank, shape.step_rank);
            op::Norm both{kq,
                          tensor_like("mixer k and q normed", kq),
                          optional(weights, Role::mixer_k_norm),
                          std::nullopt,
                          rms.kind,
                          rms.epsilon,
                          shape.key_dim,
                          weights ? 2 * shape.key_dim : shape.key_dim};
            both.second = optional(weights, Role::mixer_q_norm);
            kq = emit(both);
        }
        const TensorId step = linear("mixer step", low, shape.width, Role::mixer_step);
        const TensorId scanned =
            emit(op::Scan{kq, v, step, std::nullopt, tensor("scanned", shape.width),
                          weight(Role::mixer_decay), weight(Role::mixer_step_bias), weight(Role::mixer_skip),
                          shape.key_dim, 0, 0, 1, 1, slot(), shape});
        return emit(op::Glu{gate, scanned, tensor("mixed", shape.width), Activation::silu});
    }

    /// Keys are projected, or the queries normed (Kitaev et al. 2020, "Shared-QK").
    TensorId chunk_attention(const Attention& shape, TensorId x) {
        const Chunks& chunks = shape.chunks;
        const uint32_t cols = shape.heads * shape.head_dim;
        const TensorId q = linear("q", x, cols, Role::q);
        std::optional<TensorId> sorted;
        TensorId k = q;
        if (chunks.rounds) {
            const uint32_t lists = shape.heads * chunks.rounds;
            k = emit(op::Norm{q, tensor("keys", cols), std::nullopt, std::nullopt, NormKind::rms, 1e-6f,
                              shape.head_dim, shape.head_dim});
            const TensorId buckets =
                emit(op::Hash{q, tensor("buckets", lists), {Role::hash_rotations, -1, in_encoder()}, shape});
            sorted = emit(op::Sort{buckets, tensor("sorted", 2 * lists),
                                   chunks.for_length(model_.context).bucket_count()});
        } else {
            k = linear("k", x, cols, Role::k);
        }
        const TensorId v = linear("v", x, cols, Role::v);
        const TensorId heads =
            emit(op::ChunkAttention{q, k, v, sorted, tensor("attention heads", cols), shape});
        return linear("attention out", heads, stack().hidden, Role::o);
    }

    /// The rows of global tokens, which see all keys by projections of their own (Longformer); `local` has
    /// the others. Its keys and values are no longer needed.
    TensorId global_attention(const Attention& local_shape, TensorId x, TensorId local) {
        Attention shape = local_shape;
        shape.mask = Mask::global_rows;
        shape.window = 0;
        const uint32_t q_cols = shape.heads * shape.head_dim, kv_cols = shape.kv_heads * shape.head_dim;
        TensorId q =
            bare_linear("global q", x, q_cols, Role::global_q, optional(shape.q_bias, Role::global_q_bias));
        TensorId k =
            bare_linear("global k", x, kv_cols, Role::global_k, optional(shape.k_bias, Role::global_k_bias));
        TensorId v =
            bare_linear("global v", x, kv_cols, Role::global_v, optional(shape.v_bias, Role::global_v_bias));
        q = adapted(q, x, Role::global_q);
        k = adapted(k, x, Role::global_k);
        v = adapted(v, x, Role::global_v);
        op::Attention attention{q, k, v, tensor("attention heads with global", q_cols), slot(), shape};
        attention.base = local;
        return emit(attention);
    }

    /// Where the layer's keys and values are cached.
    uint32_t slot() const {
        return in_encoder() || model_.bidirectional() ? encoder_slot(model_) : uint32_t(layer_);
    }

    /// Attention to the encoder's output, whose keys and values stand in the cache.
    TensorId cross_attention(const Attention& cross, TensorId x) {
        Attention shape = cross;
        shape.kv_layer = static_cast<int32_t>(cross_slot(model_, uint32_t(layer_)));
        const uint32_t cols = shape.heads * shape.head_dim;
        const TensorId q =
            linear("cross q", x, cols, Role::cross_q, optional(shape.q_bias, Role::cross_q_bias));
        const TensorId heads = emit(op::Attention{q, std::nullopt, std::nullopt, tensor("cross heads", cols),
                                                  uint32_t(shape.kv_layer), shape});
        return linear("cross out", heads, stack().hidden, Role::cross_o,
                      optional(shape.o_bias, Role::cross_o_bias));
    }

    /// Attention over what is cached in common for all heads (struct Latent), which is one key/value head.
    TensorId latent_attention(const Attention& shape, TensorId x) {
        const Latent& latent = shape.latent;
        const Attention common = kernel_attention(shape);
        const Norm rms{NormKind::rms, latent.epsilon};
        TensorId q = x;
        if (latent.q_rank) {
            q = linear("latent q", x, latent.q_rank, Role::latent_q,
                       optional(latent.bias, Role::latent_q_bias));
            q = norm(rms, latent_q_norm, q, latent.q_rank, latent.q_rank);
        }
        q = linear("q", q, shape.heads * shape.head_dim, Role::q);
        const TensorId absorbed = emit(op::HeadLinear{q, tensor("q absorbed", shape.heads * latent.kv_rank),
                                                      weight(Role::latent_k), shape.heads, latent.rope_dim});
        const TensorId kv = linear("latent kv", x, latent.kv_rank + latent.rope_dim, Role::latent_kv,
                                   optional(latent.bias, Role::latent_kv_bias));
        const TensorId c =
            emit(op::Norm{kv, tensor("latent kv normed", latent.kv_rank), weight(Role::latent_kv_norm),
                          std::nullopt, rms.kind, rms.epsilon, latent.kv_rank, latent.kv_rank});
        const auto pack = [&](const char* name, TensorId a, TensorId b, uint32_t heads, uint32_t first) {
            return emit(op::Pack{a,
                                 b,
                                 tensor(name, heads * common.head_dim),
                                 heads,
                                 {first, latent.rope_dim},
                                 {0, latent.kv_rank}});
        };
        q = pack("q packed", q, absorbed, shape.heads, 0);
        TensorId k = pack("k packed", kv, c, 1, latent.kv_rank);
        q = rope("q rotated", q, common, shape.heads, true);
        k = rope("k rotated", k, common, 1, false);
        const TensorId heads = emit(
            op::Attention{q, k, k, tensor("attention heads", shape.heads * common.head_dim), slot(), common});
        const TensorId values = emit(op::HeadLinear{heads, tensor("values", shape.heads * latent.value_dim),
                                                    weight(Role::latent_v), shape.heads, latent.rope_dim});
        return linear("attention out", values, stack().hidden, Role::o, optional(shape.o_bias, Role::o_bias));
    }

    /// act(gate) * up, or act(up) where there is no gate.
    TensorId activated(const std::string& whose, const FeedForward& shape, std::optional<TensorId> gate,
                       TensorId up, float clamp = 0, float slope = 1) {
        if (!gate && shape.activation == Activation::xielu)
            return emit(op::Map{up, tensor_like(whose + "activated", up), MapKind::xielu, shape.xielu.rise(),
                                shape.xielu.fall()});
        if (!gate) return map(whose + "activated", up, MapKind::activate, 0, shape.activation);
        return emit(op::Glu{*gate, up, tensor_like(whose + "gated", up), shape.activation, clamp, slope});
    }

    /// x: of the stream, normed or not.
    TensorId feed_forward(const FeedForward& shape, TensorId x, TensorId stream) {
        if (shape.routing.experts) return routed_feed_forward(shape, x, stream);
        std::optional<TensorId> gate;
        if (shape.gated)
            gate =
                scaled("gate scaled",
                       linear("gate", x, shape.size, Role::gate, optional(shape.gate_bias, Role::gate_bias)),
                       shape.gate_scale);
        const TensorId up = linear("up", x, shape.size, Role::up, optional(shape.up_bias, Role::up_bias));
        if (gate && shape.cuts_gate())
            gate = emit(op::Norm{*gate, tensor_like("gate cut", *gate), std::nullopt, std::nullopt,
                                 NormKind::cut, shape.gate_cut, shape.size, shape.size});
        TensorId inner = activated("", shape, gate, up);
        if (shape.inner_norm) inner = norm(inner_norm, inner);
        return linear("feed-forward out", inner, stack().hidden, Role::down,
                      optional(shape.down_bias, Role::down_bias));
    }

    /// Mixture of experts (Shazeer et al. 2017): the chosen ones, and one that all tokens pass if there is.
    TensorId routed_feed_forward(const FeedForward& shape, TensorId x, TensorId stream) {
        const Routing& routing = shape.routing;
        const TensorId of_all = x;
        if (routing.apart) x = norm(router_norm, stream);
        TensorId scores = linear("router", routing.early ? *layer_input_ : x, routing.experts, Role::router,
                                 optional(routing.router_bias, Role::router_bias));
        if (routing.apart) {
            scores = map("router scaled", scores, MapKind::scale, 1 / std::sqrt(float(stack().hidden)));
            x = norm(expert_norm, stream);
        }
        const TensorId routes = emit(op::Route{scores, tensor("routes", 2 * routing.used), routing,
                                               optional(routing.choice_bias, Role::router_choice_bias),
                                               optional(routing.weight_scale, Role::router_weight_scale)});
        const auto experts = [&](const char* name, TensorId in, uint32_t cols, Role role, Role bias) {
            return emit(op::ExpertLinear{in, routes, tensor(name, routing.used * cols), weight(role),
                                         optional(routing.bias, bias), routing.experts, routing.used});
        };
        std::optional<TensorId> gate;
        if (shape.gated)
            gate = experts("expert gate", x, routing.size, Role::expert_gate, Role::expert_gate_bias);
        const TensorId up = experts("expert up", x, routing.size, Role::expert_up, Role::expert_up_bias);
        if (routing.scales_input)  // up is scaled with the sum
            gate = emit(op::Gate{*gate, routes, tensor_like("expert gate scaled", *gate), routing.used,
                                 routing.used, Activation::identity});
        const TensorId inner = activated("expert ", shape, gate, up, routing.clamp, routing.gate_slope);
        const TensorId down =
            experts("expert out", inner, stack().hidden, Role::expert_down, Role::expert_down_bias);
        TensorId sum = emit(op::ExpertSum{down, routes, tensor("experts", stack().hidden), routing.used});
        if (routing.apart) sum = norm(expert_post_norm, sum);
        if (routing.shared_size == 0) return sum;
        TensorId shared = shared_expert(shape, of_all);
        if (routing.apart) shared = norm(shared_post_norm, shared);
        return add("experts and shared", sum, shared);
    }

    TensorId shared_expert(const FeedForward& shape, TensorId x) {
        const Routing& routing = shape.routing;
        const auto shared = [&](const char* name, TensorId in, uint32_t cols, Role role, Role bias) {
            return linear(name, in, cols, role, optional(routing.shared_bias, bias));
        };
        std::optional<TensorId> gate;
        if (shape.gated)
            gate = shared("shared gate", x, routing.shared_size, Role::shared_gate, Role::shared_gate_bias);
        const TensorId up =
            shared("shared up", x, routing.shared_size, Role::shared_up, Role::shared_up_bias);
        const TensorId inner = activated("shared ", shape, gate, up);
        const TensorId down =
            shared("shared out", inner, stack().hidden, Role::shared_down, Role::shared_down_bias);
        if (!routing.shared_gate) return down;
        const TensorId share = linear("shared expert gate", x, 1, Role::shared_expert_gate);
        return emit(op::Gate{down, share, tensor_like("shared gated out", down), 1});
    }

    void head(TensorId stream) {
        TensorId x = emit(op::Select{stream, tensor("selected", at(stream).cols, RowKind::outputs)});
        if (stack().alternating.count) x = merged(x);
        if (stack().output_norm) x = norm(output_norm, x);
        graph_.last_hidden = graph_.logits = x;
        if (!stack().has_head) return;
        if (stack().head_transform) {
            x = linear("head", x, stack().hidden, Role::head, optional(stack().head_bias, Role::head_bias));
            x = map("head activated", x, MapKind::activate, 0, stack().head_activation);
            x = norm(head_norm, x);
        }
        if (stack().embedding) x = linear("embedding out", x, stack().embedding, Role::embedding_out);
        x = adapted(bare_linear("logits", x, stack().logits(),
                                stack().tied_embeddings ? Role::token_embedding : Role::output,
                                optional(stack().output_bias, Role::output_bias)),
                    x, Role::output);
        x = scaled("logits scaled", x, stack().logit_scale);
        if (stack().logit_soft_cap != 0)
            x = map("logits capped", x, MapKind::soft_cap, stack().logit_soft_cap);
        graph_.logits = x;
    }

    const Architecture& model_;
    const Architecture* stack_;  // what is being built: the model, or its encoder
    Graph graph_;
    int32_t layer_ = -1;
    std::optional<TensorId> first_stream_;  // of two (Architecture::two_streams)
    std::optional<TensorId> layer_input_;   // the stream before the layer
    std::optional<TensorId> per_layer_;     // of all layers (Architecture::per_layer)
    std::set<WeightRef> adapted_;           // of Architecture::adapters
};

}  // namespace

Graph build_graph(const Architecture& architecture) { return Builder(architecture).build(); }

}  // namespace scoria
