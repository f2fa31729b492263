// The fusion table. A pattern looks at the ops from one position on; if they are what it knows, it
// emits one kernel and says how many ops it took. Patterns are tried in order; the last ones take a
// single op, so an unmatched sequence runs unfused.
#include "plan.h"

#include "fail.h"

#include <algorithm>
#include <numeric>

namespace scoria {
namespace {

class Planner {
  public:
    Planner(const Graph& graph, const Architecture& architecture, const Weights& weights, bool fusion)
        : graph_(graph), architecture_(architecture), weights_(weights), fusion_(fusion) {
        plan_.placements.resize(graph.tensors.size());
    }

    Plan run();

  private:
    using Pattern = size_t (Planner::*)(size_t);
    struct Row {
        std::string_view name;
        bool fuses;     // left out without fusion
        Pattern match;  // ops taken at a position, 0 if it does not match
    };
    static const Row table[];

    template <class T> const T* at(size_t i) const {
        return i < graph_.ops.size() ? std::get_if<T>(&graph_.ops[i]) : nullptr;
    }

    size_t qkv_linear(size_t i);
    size_t norm_rope_attention(size_t i);
    size_t rope_attention(size_t i);
    size_t linear_glu(size_t i);
    size_t linear_add(size_t i);
    size_t embed(size_t i);
    size_t norm(size_t i);
    size_t linear(size_t i);
    size_t glu(size_t i);
    size_t add(size_t i);
    size_t soft_cap(size_t i);
    size_t select(size_t i);

    size_t emit_rope_attention(size_t i, const op::Norm* q_norm, const op::Norm* k_norm);
    /// The Attention whose q, k, v come from these three Linear outputs by norms and rotations, or null.
    const op::Attention* attention_after(size_t i) const;

    const TensorView& view(const WeightRef& ref) const {
        const auto found = weights_.find(ref);
        if (found == weights_.end())
            fail(Status::bad_file, "plan", "expected weight ", role_name(ref.role), " of layer ", ref.layer,
                 ", got none");
        return found->second;
    }
    bool same_type(std::initializer_list<WeightRef> refs) const {
        return std::ranges::all_of(
            refs, [&](const WeightRef& r) { return view(r).type == view(*refs.begin()).type; });
    }

    /// The layer of the first weight at or after position i; the ops of a layer end with a weight of it
    /// or with the add that follows.
    int32_t layer_at(size_t i) const;

    GroupId weight_group(std::vector<WeightRef> parts, bool interleaved = false);
    VectorId vector_group(VectorGroup group);
    VectorId vector_of(const WeightRef& ref, uint32_t size) { return vector_group({{{ref, size}}}); }

    uint32_t cols(TensorId t) const { return graph_.tensors[t.index].cols; }
    /// Gives tensors a storage of their own, side by side.
    void define(std::initializer_list<TensorId> tensors);
    /// Gives `t` the place of `of`: the kernel works in place.
    void alias(TensorId t, TensorId of) { plan_.placements[t.index] = plan_.placements[of.index]; }
    bool placed(TensorId t) const { return plan_.placements[t.index].storage != UINT32_MAX; }
    void touch(TensorId t);
    void emit(Kernel kernel, std::initializer_list<TensorId> reads, std::initializer_list<TensorId> results);
    bool last_use(TensorId t, size_t after) const;

    const Graph& graph_;
    const Architecture& architecture_;
    const Weights& weights_;
    const bool fusion_;
    Plan plan_;
    std::string_view pattern_;
    int32_t layer_ = -1;
};

const Planner::Row Planner::table[] = {
    {"q+k+v", true, &Planner::qkv_linear},
    {"norm+rope+cache", true, &Planner::norm_rope_attention},
    {"rope+cache", false, &Planner::rope_attention},  // the cache is written nowhere else
    {"gate+up+glu", true, &Planner::linear_glu},
    {"linear+add", true, &Planner::linear_add},
    {"embed", false, &Planner::embed},
    {"norm", false, &Planner::norm},
    {"linear", false, &Planner::linear},
    {"glu", false, &Planner::glu},
    {"add", false, &Planner::add},
    {"soft cap", false, &Planner::soft_cap},
    {"select", false, &Planner::select},
};

Plan Planner::run() {
    for (size_t i = 0; i < graph_.ops.size();) {
        size_t taken = 0;
        layer_ = layer_at(i);
        for (const Row& row : table) {
            if (row.fuses && !fusion_) continue;
            pattern_ = row.name;
            taken = (this->*row.match)(i);
            if (taken) break;
        }
        if (!taken) fail(Status::unsupported, "plan", "no kernel for ", describe(graph_, graph_.ops[i]));
        i += taken;
    }
    return std::move(plan_);
}

int32_t Planner::layer_at(size_t i) const {
    if (at<op::Add>(i)) return layer_;
    for (; i < graph_.ops.size(); ++i) {
        if (const auto* norm = at<op::Norm>(i)) return norm->weight.layer;
        if (const auto* linear = at<op::Linear>(i)) return linear->weight.layer;
        if (at<op::Embed>(i)) return -1;
    }
    return -1;
}

GroupId Planner::weight_group(std::vector<WeightRef> parts, bool interleaved) {
    WeightGroup group{std::move(parts), interleaved, {}, 0, 0};
    const TensorView& first = view(group.parts.front());
    group.type = first.type;
    group.cols = first.cols;
    for (const WeightRef& part : group.parts) group.rows += view(part).rows;
    const auto found = std::ranges::find(plan_.weight_groups, group);
    if (found == plan_.weight_groups.end()) {
        plan_.weight_groups.push_back(std::move(group));
        return GroupId(plan_.weight_groups.size() - 1);
    }
    return GroupId(found - plan_.weight_groups.begin());
}

VectorId Planner::vector_group(VectorGroup group) {
    const auto found = std::ranges::find(plan_.vector_groups, group);
    if (found == plan_.vector_groups.end()) {
        plan_.vector_groups.push_back(std::move(group));
        return VectorId(plan_.vector_groups.size() - 1);
    }
    return VectorId(found - plan_.vector_groups.begin());
}

void Planner::define(std::initializer_list<TensorId> tensors) {
    if (placed(*tensors.begin())) return;
    Storage storage{graph_.tensors[tensors.begin()->index].rows, 0, uint32_t(plan_.kernels.size()), 0};
    for (const TensorId t : tensors) {
        plan_.placements[t.index] = {uint32_t(plan_.storages.size()), storage.cols};
        storage.cols += cols(t);
    }
    storage.end = storage.begin;
    plan_.storages.push_back(storage);
}

void Planner::touch(TensorId t) {
    Storage& storage = plan_.storages[plan_.placements[t.index].storage];
    storage.end = std::max(storage.end, uint32_t(plan_.kernels.size()));
}

void Planner::emit(Kernel kernel, std::initializer_list<TensorId> reads,
                   std::initializer_list<TensorId> results) {
    for (const TensorId t : reads) touch(t);
    for (const TensorId t : results) {
        define({t});
        touch(t);
    }
    plan_.kernels.push_back({std::move(kernel), pattern_, layer_, results});
}

/// Whether no op after position `after` reads t: then its memory may be overwritten in place.
bool Planner::last_use(TensorId t, size_t after) const {
    const auto reads = [t](const Op& op) {
        return std::visit(
            [t](const auto& o) {
                using T = std::decay_t<decltype(o)>;
                if constexpr (std::is_same_v<T, op::Embed>)
                    return false;
                else if constexpr (std::is_same_v<T, op::Attention>)
                    return o.q == t || o.k == t || o.v == t;
                else if constexpr (std::is_same_v<T, op::Glu>)
                    return o.gate == t || o.up == t;
                else if constexpr (std::is_same_v<T, op::Add>)
                    return o.a == t || o.b == t;
                else
                    return o.x == t;
            },
            op);
    };
    return std::none_of(graph_.ops.begin() + std::ptrdiff_t(after) + 1, graph_.ops.end(), reads);
}

/// linear q, linear k, linear v of one input. Their outputs are side by side whether or not they are
/// fused, because rope_attention wants them so.
const op::Attention* Planner::attention_after(size_t i) const {
    for (size_t j = i; j < std::min(i + 8, graph_.ops.size()); ++j)
        if (const auto* attention = at<op::Attention>(j)) return attention;
    return nullptr;
}

size_t Planner::qkv_linear(size_t i) {
    const auto *q = at<op::Linear>(i), *k = at<op::Linear>(i + 1), *v = at<op::Linear>(i + 2);
    if (!q || !k || !v || !(q->x == k->x) || !(q->x == v->x) || !attention_after(i)) return 0;
    if (!same_type({q->weight, k->weight, v->weight})) return 0;
    std::optional<VectorId> bias;
    if (q->bias || k->bias || v->bias)
        bias = vector_group({{{q->bias, cols(q->out)}, {k->bias, cols(k->out)}, {v->bias, cols(v->out)}}});
    define({q->out, k->out, v->out});
    const kernel::Linear fused{q->x,
                               q->out,
                               cols(q->out) + cols(k->out) + cols(v->out),
                               weight_group({q->weight, k->weight, v->weight}),
                               bias,
                               {},
                               {}};
    emit(fused, {q->x}, {q->out, k->out, v->out});
    return 3;
}

size_t Planner::norm_rope_attention(size_t i) {
    const auto *q = at<op::Norm>(i), *k = at<op::Norm>(i + 1);
    if (!q || !k || !at<op::Rope>(i + 2) || !at<op::Rope>(i + 3) || !at<op::Attention>(i + 4)) return 0;
    return 2 + emit_rope_attention(i + 2, q, k);
}

size_t Planner::rope_attention(size_t i) { return emit_rope_attention(i, nullptr, nullptr); }

size_t Planner::emit_rope_attention(size_t i, const op::Norm* q_norm, const op::Norm* k_norm) {
    const auto *rope_q = at<op::Rope>(i), *rope_k = at<op::Rope>(i + 1);
    const auto* attention = at<op::Attention>(i + 2);
    if (!rope_q || !rope_k || !attention) return 0;
    const TensorId q = q_norm ? q_norm->x : rope_q->x, k = k_norm ? k_norm->x : rope_k->x, v = attention->v;
    kernel::RopeCache rope{q, k, v, rope_q->out, attention->layer, {}, {}, 0, attention->shape};
    if (q_norm) {
        rope.q_norm = vector_of(q_norm->weight, attention->shape.head_dim);
        rope.k_norm = vector_of(k_norm->weight, attention->shape.head_dim);
        rope.epsilon = q_norm->epsilon;
    }
    alias(rope_q->out, q);
    emit(rope, {q, k, v}, {rope_q->out});
    emit(kernel::Attention{rope_q->out, attention->out, attention->layer, attention->shape}, {rope_q->out},
         {attention->out});
    return 3;
}

size_t Planner::linear_glu(size_t i) {
    const auto *gate = at<op::Linear>(i), *up = at<op::Linear>(i + 1);
    const auto* glu = at<op::Glu>(i + 2);
    if (!gate || !up || !glu || gate->bias || up->bias || !(gate->x == up->x)) return 0;
    if (!(glu->gate == gate->out) || !(glu->up == up->out) || !same_type({gate->weight, up->weight}))
        return 0;
    const kernel::Linear fused{
        gate->x, glu->out, cols(glu->out), weight_group({gate->weight, up->weight}, true),
        {},      {},       glu->activation};
    emit(fused, {gate->x}, {glu->out});
    return 3;
}

size_t Planner::linear_add(size_t i) {
    const auto* linear = at<op::Linear>(i);
    const auto* add = at<op::Add>(i + 1);
    if (!linear || !add || !(add->b == linear->out) || !placed(add->a) || !last_use(add->a, i + 1)) return 0;
    std::optional<VectorId> bias;
    if (linear->bias) bias = vector_of(*linear->bias, cols(linear->out));
    alias(add->out, add->a);
    emit(
        kernel::Linear{linear->x, add->out, cols(add->out), weight_group({linear->weight}), bias, add->a, {}},
        {linear->x, add->a}, {add->out});
    return 2;
}

size_t Planner::embed(size_t i) {
    const auto* op = at<op::Embed>(i);
    if (!op) return 0;
    emit(kernel::Embed{op->out, weight_group({op->table})}, {}, {op->out});
    return 1;
}

size_t Planner::norm(size_t i) {
    const auto* op = at<op::Norm>(i);
    if (!op) return 0;
    // What stands beside others (q, k, v) is normed in place and stays there.
    if (plan_.storages[plan_.placements[op->x.index].storage].cols != cols(op->x)) alias(op->out, op->x);
    emit(kernel::Norm{op->x, op->out, vector_of(op->weight, op->group), op->epsilon, op->group}, {op->x},
         {op->out});
    return 1;
}

size_t Planner::linear(size_t i) {
    const auto* op = at<op::Linear>(i);
    if (!op) return 0;
    const auto *k = at<op::Linear>(i + 1), *v = at<op::Linear>(i + 2);
    if (k && v && op->x == k->x && op->x == v->x && attention_after(i)) define({op->out, k->out, v->out});
    std::optional<VectorId> bias;
    if (op->bias) bias = vector_of(*op->bias, cols(op->out));
    emit(kernel::Linear{op->x, op->out, cols(op->out), weight_group({op->weight}), bias, {}, {}}, {op->x},
         {op->out});
    return 1;
}

size_t Planner::glu(size_t i) {
    const auto* op = at<op::Glu>(i);
    if (!op) return 0;
    emit(kernel::Glu{op->gate, op->up, op->out, op->activation}, {op->gate, op->up}, {op->out});
    return 1;
}

size_t Planner::add(size_t i) {
    const auto* op = at<op::Add>(i);
    if (!op) return 0;
    emit(kernel::Add{op->a, op->b, op->out}, {op->a, op->b}, {op->out});
    return 1;
}

size_t Planner::soft_cap(size_t i) {
    const auto* op = at<op::SoftCap>(i);
    if (!op) return 0;
    alias(op->out, op->x);
    emit(kernel::SoftCap{op->x, op->out, op->cap}, {op->x}, {op->out});
    return 1;
}

size_t Planner::select(size_t i) {
    const auto* op = at<op::Select>(i);
    if (!op) return 0;
    emit(kernel::Select{op->x, op->out}, {op->x}, {op->out});
    return 1;
}

}  // namespace

Plan make_plan(const Graph& graph, const Architecture& architecture, const Weights& weights, bool fusion) {
    return Planner(graph, architecture, weights, fusion).run();
}

Arena place(std::span<const Storage> storages, uint32_t tokens, uint32_t outputs, uint64_t alignment) {
    const auto bytes = [&](const Storage& s) {
        const uint64_t size = 4ull * s.cols * (s.rows == RowKind::outputs ? outputs : tokens);
        return (size + alignment - 1) / alignment * alignment;
    };
    std::vector<uint32_t> order(storages.size());
    std::iota(order.begin(), order.end(), 0u);
    std::ranges::stable_sort(order,
                             [&](uint32_t a, uint32_t b) { return bytes(storages[a]) > bytes(storages[b]); });

    Arena arena;
    arena.offsets.resize(storages.size());
    std::vector<uint32_t> placed;
    for (const uint32_t index : order) {
        const Storage& storage = storages[index];
        std::vector<std::pair<uint64_t, uint64_t>> taken;  // [first, last) of storages alive at the same time
        for (const uint32_t other : placed)
            if (storages[other].begin <= storage.end && storage.begin <= storages[other].end)
                taken.emplace_back(arena.offsets[other], arena.offsets[other] + bytes(storages[other]));
        std::ranges::sort(taken);
        uint64_t offset = 0;
        for (const auto& [first, last] : taken) {
            if (offset + bytes(storage) <= first) break;
            offset = std::max(offset, last);
        }
        arena.offsets[index] = offset;
        arena.bytes = std::max(arena.bytes, offset + bytes(storage));
        placed.push_back(index);
    }
    return arena;
}

}  // namespace scoria
