// The one forward pass: an Architecture becomes a flat list of semantic, unfused ops on named tensors.
// Both executors run this list: the Vulkan one after fusing it (plan), the reference one op by op in
// double precision. Shapes are symbolic in the number of tokens.
#pragma once

#include "architecture.h"

#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace scoria {

/// Index into Graph::tensors. Every tensor is row-major float32 on the device (double in the reference).
struct TensorId {
    uint32_t index = 0;
    auto operator<=>(const TensorId&) const = default;
};

enum class RowKind : uint8_t {
    tokens,   // one row per token of the batch
    outputs,  // one row per token whose logits are wanted
};

struct GraphTensor {
    std::string name;  // "layer 3 q", for reports
    RowKind rows;
    uint32_t cols;
};

namespace op {

/// out[t] = table[token_ids[t]]
struct Embed {
    TensorId out;
    WeightRef table;
};
/// Normalises each row, or each group of `group` columns of it (group == cols: the whole row).
struct Norm {
    TensorId x, out;
    WeightRef weight;
    NormKind kind;
    float epsilon;
    uint32_t group;
};
/// out = x W^T + bias
struct Linear {
    TensorId x, out;
    WeightRef weight;
    std::optional<WeightRef> bias;
};
/// Rotates each head of x by the row's position (Architecture::rope).
struct Rope {
    TensorId x, out;
    uint32_t heads, head_dim;
};
/// Appends k, v to the cache of `layer`, then out[t] = softmax(q[t] . K^T * scale) V over the keys that
/// t may see, per head; kv head = head / (heads / kv_heads).
struct Attention {
    TensorId q, k, v, out;
    uint32_t layer;
    scoria::Attention shape;
};
/// out = act(gate) * up
struct Glu {
    TensorId gate, up, out;
    Activation activation;
};
/// out = a + b
struct Add {
    TensorId a, b, out;
};
/// out = cap * tanh(x / cap)
struct SoftCap {
    TensorId x, out;
    float cap;
};
/// out = the rows of x whose logits are wanted
struct Select {
    TensorId x, out;
};

}  // namespace op

using Op = std::variant<op::Embed, op::Norm, op::Linear, op::Rope, op::Attention, op::Glu, op::Add,
                        op::SoftCap, op::Select>;

struct Graph {
    std::vector<GraphTensor> tensors;
    std::vector<Op> ops;
    std::vector<TensorId> hidden;  // [layers + 1]: residual stream before the first layer and after each
    TensorId last_hidden;          // after the final norm, output rows
    TensorId logits;               // [outputs, vocab]
};

Graph build_graph(const Architecture& architecture);

/// Name of an op's kind and of the tensor it makes: "linear -> layer 3 q".
std::string describe(const Graph& graph, const Op& op);
TensorId output_of(const Op& op);

}  // namespace scoria
