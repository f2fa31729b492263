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

enum class EmbedBy : uint8_t { token, position, token_type };
enum class MapKind : uint8_t {
    scale,     // value * x
    clamp,     // to [-value, value]
    soft_cap,  // value * tanh(x / value)  (Bello et al. 2016)
    activate,  // activation(x)
    xielu,     // value x^2 + x / 2, or second (e^x - 1 - x) + x / 2 below 0
};

namespace op {

/// out[t] = scale * table[token id, position or token type of t]
struct Embed {
    TensorId out;
    WeightRef table;
    EmbedBy by = EmbedBy::token;
    float scale = 1;
    uint32_t divide = 1, period = 0;  // of period > 0: row position / divide mod period
};
/// Normalises each row, or each group of `group` columns of it (group == cols: the whole row); out may have
/// fewer columns than x, whose others are left out. Weight and
/// bias hold `weights` values: `group`, or one per column, of which `second` holds the latter half.
/// NormKind::match: each group becomes as long as the first `group` columns of `like`.
struct Norm {
    TensorId x, out;
    std::optional<WeightRef> weight, bias;
    NormKind kind;
    float epsilon;
    uint32_t group, weights;
    std::optional<TensorId> like{};
    std::optional<WeightRef> second{};
};
/// out = x W^T + bias
struct Linear {
    TensorId x, out;
    WeightRef weight;
    std::optional<WeightRef> bias;
};
/// Each element alone.
struct Map {
    TensorId x, out;
    MapKind kind;
    float value = 0, second = 0;
    Activation activation = Activation::identity;
};
/// Rotates each head of x by the row's position (Architecture::ropes[rope]).
struct Rope {
    TensorId x, out;
    uint32_t heads, head_dim, rope;
    bool queries;  // which may grow with their position
};
/// Appends k, v to the cache slot `layer` (unless it reads another's), then out[t] = softmax(score) V
/// over the keys that t may see, per head; kv head = head / (heads / kv_heads).
struct Attention {
    TensorId q;
    std::optional<TensorId> k, v;
    TensorId out;
    uint32_t layer;
    scoria::Attention shape;
    std::optional<WeightRef> bias, sinks;
    std::optional<TensorId> distances;         // of queries, and of keys: [distance_cols()]
    std::optional<TensorId> chosen;            // Mask::chosen: by op::Choose
    std::optional<TensorId> base;              // global_rows: what all other rows keep
    std::optional<WeightRef> distance_values;  // [span, head_dim]
};
/// Appends k to the cache slot `layer`, then out[t] = the keys that token t sees (struct Indexer,
/// chosen_bits). q: [heads * head_dim], weights: [heads].
struct Choose {
    TensorId q, k, weights, out;
    uint32_t layer;
    scoria::Attention shape;  // index_attention()
};
/// Puts k, v of all tokens into the cache slot `layer`; out is k.
struct Store {
    TensorId k, v, out;
    uint32_t layer;
    scoria::Attention shape;
};
/// out = act(gate) * up, clamped as GluClamp says. Of up, columns from `up_first` on.
struct Glu {
    TensorId gate, up, out;
    Activation activation;
    GluClamp clamp = {};
    uint32_t up_first = 0;
};
/// out = a + scale * b, of each the first columns, as many as out has
struct Add {
    TensorId a, b, out;
    float scale = 1;
};
/// out = the rows of x whose logits are wanted
struct Select {
    TensorId x, out;
};
/// out[t] = the ids of the chosen experts (whole numbers), then their weights, [2 * used].
struct Route {
    TensorId scores, out;
    Routing routing;
    std::optional<WeightRef> choice_bias, weight_scale;
};
/// out[t][s] = W[expert s of t] x[t] + bias, or of x[t][s] where x has a part per chosen expert.
struct ExpertLinear {
    TensorId x, routes, out;
    WeightRef weight;
    std::optional<WeightRef> bias;
    uint32_t experts, used;
};
/// out[t] = sum over s of weight[t][s] * x[t][s]
struct ExpertSum {
    TensorId x, routes, out;
    uint32_t used;
};
/// out[t][h] = W[h] x[t][h], of every head's columns those from `first` on; the heads' matrices stand one
/// after the other.
struct HeadLinear {
    TensorId x, out;
    WeightRef weight;
    uint32_t heads, first;
};
/// A run of columns of every head: `count` from `first` on.
struct HeadColumns {
    uint32_t first = 0, count = 0;
};
/// out[t][h] = columns of a[t][h], then of b[t][h].
struct Pack {
    TensorId a, b, out;
    uint32_t heads;
    HeadColumns from_a, from_b;
};
/// out[t][c] = act(gate[t][first + c / n]) * x[t][c], x having n times as many columns as are `gates`
struct Gate {
    TensorId x, gate, out;
    uint32_t gates;
    uint32_t first = 0;
    Activation activation = Activation::sigmoid;
};
/// Streams of `width` columns, side by side in x and in y. out[t][i] = x[t][i] + sum over the n of y of
/// (offset + factor * factors[t][n i + j]) y[t][j], of streams i before `first` x[t][i]; out may have fewer
/// than x, the first ones.
struct Mix {
    TensorId x, y;
    std::optional<TensorId> factors;
    TensorId out;
    uint32_t width;
    float offset = 0, factor = 1;
    uint32_t first = 0;
};

/// out[t] = the bucket of every head of x[t] in every round, [heads * rounds], whole numbers: over the
/// factors n of the number of buckets, the sum of argmax of [r | -r] times the factors before it, r being n /
/// 2 columns of the head rotated (Andoni et al. 2015).
struct Hash {
    TensorId x, out;
    WeightRef rotations;
    scoria::Attention shape;
};
/// Sorts each column of whole numbers, equal ones by row: out[i] = the rows that come i-th, [cols], then the
/// places of row i, [cols].
struct Sort {
    TensorId x, out;
    uint32_t below;  // all numbers are
};
/// Attention as struct Chunks says, of a whole sequence; sorted: of the buckets.
struct ChunkAttention {
    TensorId q, k, v;
    std::optional<TensorId> sorted;
    TensorId out;
    scoria::Attention shape;
};

/// out[t][c] = act(bias[c] + sum over j of taps[c][j] x[t - taps + 1 + j][c]), x before the sequence's first
/// being 0, and remembers the last taps - 1 rows of x in the cache slot `layer`. The columns of several x
/// follow one another, as do those of their taps.
struct Convolve {
    std::vector<TensorId> x;
    TensorId out;
    std::vector<WeightRef> taps;
    std::optional<WeightRef> bias;
    Activation activation;
    uint32_t layer;
    scoria::Recurrence shape;
};
/// out[t] = x[t] + shift (x[t - 1] - x[t]) for each row of `shift`, one after the other, x before the
/// sequence's first being 0; remembers the last row of x in the cache slot `layer`, of the feed-forward
/// behind the states.
struct Shift {
    TensorId x, out;
    WeightRef shift;
    bool feed_forward;
    uint32_t layer;
    scoria::Recurrence shape;
};
/// out = columns of x, from `first` on.
struct Columns {
    TensorId x, out;
    uint32_t first;
};
/// The states of all heads, in the cache slot `layer`, from token to token (RecurrenceKind): out [heads *
/// value_dim]. q and k of all groups are `key_dim` columns each, from q_first and k_first of `qk` on; v from
/// v_first of `v` on; q times q_scale, k times k_scale. By key `step` is d
/// itself, unless it is to be bounded.
struct Scan {
    TensorId qk, v;
    std::optional<TensorId> step;  // but of lightning
    std::optional<TensorId> beta;  // delta
    TensorId out;
    WeightRef decay;
    std::optional<WeightRef> step_bias;  // where steps are activated
    std::optional<WeightRef> skip;       // but of delta
    uint32_t q_first, k_first, v_first;
    float q_scale, k_scale;
    uint32_t layer;
    scoria::Recurrence shape;
};

/// RecurrenceKind::wkv, states as of Scan: out [S^T r | (sum of bonus r k') v], [heads * value_dim] each.
struct Wkv {
    TensorId rk;  // r, then k
    TensorId v, w, rate, out;
    WeightRef erase, rate_scale, bonus;
    uint32_t layer;
    scoria::Recurrence shape;
};

}  // namespace op

using Op = std::variant<op::Embed, op::Norm, op::Linear, op::Map, op::Rope, op::Attention, op::Glu, op::Add,
                        op::Select, op::Route, op::ExpertLinear, op::ExpertSum, op::HeadLinear, op::Pack,
                        op::Gate, op::Mix, op::Store, op::Hash, op::Sort, op::ChunkAttention, op::Convolve,
                        op::Shift, op::Columns, op::Scan, op::Wkv, op::Choose>;

struct Graph {
    std::vector<GraphTensor> tensors;
    std::vector<Op> ops;
    std::vector<int32_t> layers;   // of each op; -1: of none
    std::vector<TensorId> hidden;  // [layers + 1]: residual stream before the first layer and after each,
                                   // Architecture::stream_width() columns
    TensorId last_hidden;          // after the final norm, output rows
    TensorId logits;               // [outputs, vocab]
    /// Of a model ahead: [tokens, what it takes], then, of Ahead::features, the stream that it ends with,
    /// both 0 where it has the other. No op makes it.
    std::optional<TensorId> given;
    std::vector<TensorId> shown;  // of Architecture::shows, of all tokens
    // Of encoder-decoders; the encoder's ops come first and are run once per source.
    size_t encoder_ops = 0;
    std::vector<TensorId> encoder_hidden;
    TensorId encoder_last_hidden;
};

/// Errors: unsupported, for an adapter of a weight that is no linear layer.
Graph build_graph(const Architecture& architecture);

/// Name of an op's kind and of the tensor it makes: "linear -> layer 3 q".
std::string describe(const Graph& graph, const Op& op);
TensorId output_of(const Op& op);
std::vector<TensorId> inputs_of(const Op& op);

}  // namespace scoria
