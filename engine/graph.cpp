// Builds the graph of pre-norm decoders. Attention kinds and feed-forward kinds are one small function
// each, from the normed residual stream to the value added to it; a block joins them.
#include "graph.h"

#include "fail.h"

namespace scoria {
namespace {

class Builder {
  public:
    explicit Builder(const Architecture& architecture) : architecture_(architecture) {}

    Graph build() {
        TensorId stream = tensor("embedding", architecture_.hidden);
        graph_.ops.push_back(op::Embed{stream, {Role::token_embedding}});
        graph_.hidden.push_back(stream);
        for (layer_ = 0; layer_ < static_cast<int32_t>(architecture_.layers.size()); ++layer_) {
            stream = block(architecture_.layers[static_cast<size_t>(layer_)], stream);
            graph_.hidden.push_back(stream);
        }
        layer_ = -1;
        head(stream);
        return std::move(graph_);
    }

  private:
    TensorId tensor(const std::string& name, uint32_t cols, RowKind rows = RowKind::tokens) {
        const TensorId id{static_cast<uint32_t>(graph_.tensors.size())};
        graph_.tensors.push_back({layer_ < 0 ? name : cat("layer ", layer_, " ", name), rows, cols});
        return id;
    }
    /// The weight of `role` in the layer being built; outside the layers, the model's own.
    WeightRef weight(Role role) const { return {role, layer_}; }
    std::optional<WeightRef> bias(bool present, Role role) const {
        return present ? std::optional(weight(role)) : std::nullopt;
    }
    const GraphTensor& at(TensorId id) const { return graph_.tensors[id.index]; }

    TensorId norm(const std::string& name, TensorId x, Role role, uint32_t group) {
        const TensorId out = tensor(name, at(x).cols, at(x).rows);
        graph_.ops.push_back(
            op::Norm{x, out, weight(role), architecture_.norm, architecture_.norm_epsilon, group});
        return out;
    }
    TensorId linear(const std::string& name, TensorId x, uint32_t cols, Role role,
                    std::optional<WeightRef> added = std::nullopt) {
        const TensorId out = tensor(name, cols, at(x).rows);
        graph_.ops.push_back(op::Linear{x, out, weight(role), added});
        return out;
    }
    TensorId rope(const std::string& name, TensorId x, uint32_t heads, uint32_t head_dim) {
        const TensorId out = tensor(name, at(x).cols);
        graph_.ops.push_back(op::Rope{x, out, heads, head_dim});
        return out;
    }
    TensorId add(const std::string& name, TensorId a, TensorId b) {
        const TensorId out = tensor(name, at(a).cols);
        graph_.ops.push_back(op::Add{a, b, out});
        return out;
    }

    TensorId block(const Layer& layer, TensorId stream) {
        const uint32_t hidden = architecture_.hidden;
        const TensorId x = norm("attention norm", stream, Role::attention_norm, hidden);
        stream = add("attention residual", stream, grouped_query_attention(layer.attention, x));
        const TensorId y = norm("feed-forward norm", stream, Role::feed_forward_norm, hidden);
        return add("feed-forward residual", stream, gated_feed_forward(layer.feed_forward, y));
    }

    TensorId grouped_query_attention(const Attention& shape, TensorId x) {
        const uint32_t q_cols = shape.heads * shape.head_dim, kv_cols = shape.kv_heads * shape.head_dim;
        TensorId q = linear("q", x, q_cols, Role::q, bias(shape.q_bias, Role::q_bias));
        TensorId k = linear("k", x, kv_cols, Role::k, bias(shape.k_bias, Role::k_bias));
        const TensorId v = linear("v", x, kv_cols, Role::v, bias(shape.v_bias, Role::v_bias));
        if (shape.qk_norm) {
            q = norm("q normed", q, Role::q_norm, shape.head_dim);
            k = norm("k normed", k, Role::k_norm, shape.head_dim);
        }
        q = rope("q rotated", q, shape.heads, shape.head_dim);
        k = rope("k rotated", k, shape.kv_heads, shape.head_dim);
        const TensorId heads = tensor("attention heads", q_cols);
        graph_.ops.push_back(op::Attention{q, k, v, heads, static_cast<uint32_t>(layer_), shape});
        return linear("attention out", heads, architecture_.hidden, Role::o,
                      bias(shape.o_bias, Role::o_bias));
    }

    TensorId gated_feed_forward(const FeedForward& shape, TensorId x) {
        const TensorId gate = linear("gate", x, shape.size, Role::gate);
        const TensorId up = linear("up", x, shape.size, Role::up);
        const TensorId gated = tensor("gated", shape.size);
        graph_.ops.push_back(op::Glu{gate, up, gated, shape.activation});
        return linear("feed-forward out", gated, architecture_.hidden, Role::down);
    }

    void head(TensorId stream) {
        const TensorId selected = tensor("selected", architecture_.hidden, RowKind::outputs);
        graph_.ops.push_back(op::Select{stream, selected});
        graph_.last_hidden = norm("output norm", selected, Role::output_norm, architecture_.hidden);
        graph_.logits = linear("logits", graph_.last_hidden, architecture_.vocab,
                               architecture_.tied_embeddings ? Role::token_embedding : Role::output);
        if (architecture_.logit_soft_cap == 0) return;
        const TensorId capped = tensor("logits capped", architecture_.vocab, RowKind::outputs);
        graph_.ops.push_back(op::SoftCap{graph_.logits, capped, architecture_.logit_soft_cap});
        graph_.logits = capped;
    }

    const Architecture& architecture_;
    Graph graph_;
    int32_t layer_ = -1;
};

const char* kind_name(const op::Embed&) { return "embed"; }
const char* kind_name(const op::Norm&) { return "norm"; }
const char* kind_name(const op::Linear&) { return "linear"; }
const char* kind_name(const op::Rope&) { return "rope"; }
const char* kind_name(const op::Attention&) { return "attention"; }
const char* kind_name(const op::Glu&) { return "glu"; }
const char* kind_name(const op::Add&) { return "add"; }
const char* kind_name(const op::SoftCap&) { return "soft cap"; }
const char* kind_name(const op::Select&) { return "select"; }

}  // namespace

Graph build_graph(const Architecture& architecture) { return Builder(architecture).build(); }

TensorId output_of(const Op& op) {
    return std::visit([](const auto& each) { return each.out; }, op);
}

std::string describe(const Graph& graph, const Op& op) {
    const char* kind = std::visit([](const auto& each) { return kind_name(each); }, op);
    return cat(kind, " -> ", graph.tensors[output_of(op).index].name);
}

}  // namespace scoria
