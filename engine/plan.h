// From the graph to kernels: fuses ops by a table of patterns, groups the weights that one kernel reads
// together, and places every tensor in one arena by lifetime. Pure functions, testable without a GPU;
// barriers are derived later, by the recorder, from the byte ranges that result.
#pragma once

#include "graph.h"

#include <span>
#include <string_view>

namespace scoria {

/// Weights that one kernel reads as one matrix of equal type and columns: rows one after the other, or
/// interleaved (row i of part p becomes row i * parts + p). Uploaded so, see weights.h.
struct WeightGroup {
    std::vector<WeightRef> parts;
    bool interleaved = false;
    TensorType type = TensorType::f32;
    uint32_t rows = 0, cols = 0;
    bool operator==(const WeightGroup&) const = default;
};

/// Vectors that one kernel reads as one float32 vector: concatenated; an absent part counts `zeros` zeros.
struct VectorGroup {
    struct Part {
        std::optional<WeightRef> weight;
        uint32_t size = 0;
        bool operator==(const Part&) const = default;
    };
    std::vector<Part> parts;
    uint64_t floats() const {
        uint64_t sum = 0;
        for (const Part& part : parts) sum += part.size;
        return sum;
    }
    bool operator==(const VectorGroup&) const = default;
};

using GroupId = uint32_t;   // index into Plan::weight_groups
using VectorId = uint32_t;  // index into Plan::vector_groups

/// Kernel calls. Tensor ids are the graph's.
namespace kernel {

struct Embed {
    TensorId out;
    GroupId table;
    EmbedBy by;
    float scale;
    uint32_t divide = 1, period = 0;
};
struct Norm {
    TensorId x, out;
    std::optional<VectorId> weight, bias;
    NormKind kind;
    float epsilon;
    uint32_t group;
    bool own_weights;
    std::optional<TensorId> like{};
    /// Kernels that read it, all of them Linear, if each could normalise x itself: none then needs `out`.
    std::vector<size_t> folds_into{};
};
/// out = scale * act(x W^T (+ bias)) (+ residual), or act(gate) * up of interleaved rows. `out` may span the
/// adjacent columns of several graph tensors (q, k, v): it is the first of them and `cols` their sum.
struct Linear {
    TensorId x, out;
    uint32_t cols;
    GroupId weight;
    std::optional<VectorId> bias;
    std::optional<TensorId> residual;
    std::optional<Activation> activation;  // none: identity
    bool glu = false;
    float scale = 1;
    std::optional<size_t> norm{};   // the kernel that makes x, if that folds into this one
    std::optional<size_t> heads{};  // the RopeCache behind it, if that does
};
/// Per head: optional norm, optional rotation; q in place, k and v (unless it has none) into the cache. q, k
/// and v are adjacent columns. No heads: k and v alone.
struct RopeCache {
    TensorId q;  // inputs: q, and k and v beside it if with_kv
    bool with_kv;
    TensorId rotated;  // q after it, same place as q
    uint32_t layer;    // whose cache is written
    std::optional<VectorId> q_norm, k_norm;
    bool norm_after;
    float epsilon;
    scoria::Attention shape;
    /// The kernels that make q, k and v, all of them Linear, if each could do this to its heads itself: where
    /// there are no norms.
    std::vector<size_t> folds_into{};
};
struct Attention {
    TensorId q, out;
    uint32_t layer;  // whose cache is read
    scoria::Attention shape;
    std::optional<VectorId> bias, sinks, distance_values;
    std::optional<TensorId> distances, chosen;
};
/// One expert's matrix after the other; `out` [tokens, used * cols], gate and up interleaved as in Linear.
struct ExpertLinear {
    TensorId x, out;
    std::optional<TensorId> routes;  // none: of heads, of which all are used
    GroupId weight;
    std::optional<VectorId> bias;
    uint32_t experts, used;
    std::optional<Activation> glu;
    uint32_t first = 0;  // column of x, of each head
};
/// out = sum of the experts' x by their weights, or residual + scale times that
struct ExpertSum {
    TensorId x, routes, out;
    uint32_t used;
    std::optional<TensorId> residual;
    float scale = 1;
};
struct Route {
    TensorId scores, out;
    Routing routing;
    std::optional<VectorId> choice_bias, weight_scale;
};
struct Convolve {
    TensorId x, out;  // x: as in Linear, of channels
    VectorId taps;
    std::optional<VectorId> bias;
    Activation activation;
    uint32_t layer;
    scoria::Recurrence shape;
};
struct Shift {
    op::Shift op;
    VectorId shift;
};
/// `parameters`: decay and, of activated steps, their bias and what skips, of every head (zeros where nothing
/// does).
struct Scan {
    op::Scan op;
    VectorId parameters;
};
/// `parameters`: erase, rate_scale, bonus.
struct Wkv {
    op::Wkv op;
    VectorId parameters;
};
/// Of what a RopeCache has rotated and put into the cache.
struct Choose {
    TensorId q, weights, out;
    uint32_t layer;  // whose slot is read
    scoria::Attention shape;
};
struct Hash {
    TensorId x, out;
    VectorId rotations;
    scoria::Attention shape;
};
// These are the graph's.
using op::Add, op::ChunkAttention, op::Sort, op::Pack, op::Gate, op::Glu, op::Map, op::Mix, op::Select;

}  // namespace kernel

using Kernel = std::variant<kernel::Embed, kernel::Norm, kernel::Linear, kernel::RopeCache, kernel::Attention,
                            kernel::Glu, kernel::Add, kernel::Map, kernel::Select, kernel::Route,
                            kernel::ExpertLinear, kernel::ExpertSum, kernel::Pack, kernel::Gate, kernel::Mix,
                            kernel::Hash, kernel::Sort, kernel::ChunkAttention, kernel::Convolve,
                            kernel::Shift, kernel::Scan, kernel::Wkv, kernel::Choose>;

struct PlannedKernel {
    Kernel kernel;
    std::string_view fusion;        // name of the pattern that made it
    int32_t layer = -1;             // -1: not of a layer
    std::vector<TensorId> results;  // graph tensors whose value stands in memory after it
};

/// Where a graph tensor lives: columns [first, first + its cols) of a storage.
struct Placement {
    uint32_t storage = UINT32_MAX;  // UINT32_MAX: fused away, never in memory
    uint32_t first = 0;
};

/// Memory of one or several graph tensors: [rows of its kind, cols] floats, live over kernels [begin, end].
struct Storage {
    RowKind rows;
    uint32_t cols;
    uint32_t begin = 0, end = 0;
};

struct Plan {
    std::vector<PlannedKernel> kernels;
    size_t encoder_kernels = 0;  // of these, how many first ones are the encoder's
    std::vector<WeightGroup> weight_groups;
    std::vector<VectorGroup> vector_groups;
    std::vector<Placement> placements;  // by graph tensor
    std::vector<Storage> storages;
};

/// Errors: unsupported, when an op has no kernel for what it is asked (named).
Plan make_plan(const Graph& graph, const Architecture& architecture, const Weights& weights, bool fusion);

struct Arena {
    std::vector<uint64_t> offsets;  // bytes, by storage
    uint64_t bytes = 0;
};

/// Offsets such that storages that live at the same time do not overlap: largest first, lowest gap that
/// fits. `alignment` in bytes; logits-like storages count `outputs` rows, all others `tokens`.
Arena place(std::span<const Storage> storages, uint32_t tokens, uint32_t outputs, uint64_t alignment);

}  // namespace scoria
