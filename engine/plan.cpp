// The fusion table. A pattern looks at the ops from one position on; if they are what it knows, it
// emits one kernel and says how many ops it took. Patterns are tried in order; the last ones take a
// single op, so an unmatched sequence runs unfused.
#include "plan.h"

#include "fail.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace scoria {
namespace {

class Planner {
  public:
    Planner(const Graph& graph, const Architecture& architecture, const Weights& weights, bool fusion)
        : graph_(graph), architecture_(architecture), weights_(weights), fusion_(fusion) {
        plan_.placements.resize(graph.tensors.size());
        last_reader_.resize(graph.tensors.size());
        for (size_t i = 0; i < graph.ops.size(); ++i)
            for (const TensorId t : inputs_of(graph.ops[i])) last_reader_[t.index] = i;
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
    size_t kv_linear(size_t i);
    size_t store(size_t i);
    /// The Glu of two linears T (gate, up) that one kernel can compute, or null.
    template <class T> const op::Glu* glu_of(size_t i) const;
    size_t linear_glu(size_t i);
    size_t linear_activate(size_t i);
    size_t linear_add(size_t i);
    size_t embed(size_t i);
    size_t norm(size_t i);
    size_t linear(size_t i);
    size_t map(size_t i);
    size_t route(size_t i);
    size_t expert_glu(size_t i);
    size_t expert_linear(size_t i);
    size_t head_linear(size_t i);
    size_t pack(size_t i);
    size_t add(size_t i);
    /// An op that is its own kernel.
    template <class T> size_t as_is(size_t i);

    size_t emit_rope_attention(size_t i, const op::Norm* q_norm, const op::Norm* k_norm);
    /// Norms that the kernel which rotates can apply: RMS over heads, weights shared by them; else 0 taken.
    size_t head_norms(size_t i, const op::Norm*& q_norm, const op::Norm*& k_norm) const;
    /// Whether the three Linear from i on make the q, k and v of an Attention.
    bool makes_qkv(size_t i) const;
    /// The first op from i on that is not of adapters, which come right behind q, k and v.
    size_t past_adapters(size_t i) const;

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

    GroupId weight_group(std::vector<WeightRef> parts, bool interleaved = false);
    VectorId vector_group(VectorGroup group);
    VectorId vector_of(const WeightRef& ref, uint32_t size) { return vector_group({{{ref, size}}}); }
    std::optional<VectorId> vector_of(const std::optional<WeightRef>& ref, uint32_t size) {
        return ref ? std::optional(vector_of(*ref, size)) : std::nullopt;
    }

    uint32_t cols(TensorId t) const { return graph_.tensors[t.index].cols; }
    /// Gives tensors a storage of their own, side by side.
    void define(std::initializer_list<TensorId> tensors);
    /// Gives `t` the place of `of`: the kernel works in place.
    void alias(TensorId t, TensorId of) { plan_.placements[t.index] = plan_.placements[of.index]; }
    bool placed(TensorId t) const { return plan_.placements[t.index].storage != UINT32_MAX; }
    void touch(TensorId t);
    void emit(Kernel kernel, std::span<const TensorId> reads, std::span<const TensorId> results);
    void emit(Kernel kernel, std::initializer_list<TensorId> reads, std::initializer_list<TensorId> results) {
        emit(std::move(kernel), std::span(reads.begin(), reads.size()),
             std::span(results.begin(), results.size()));
    }
    /// Whether other tensors stand in the same rows: then `t` is worked on in place.
    bool has_neighbours(TensorId t) const {
        return plan_.storages[plan_.placements[t.index].storage].cols != cols(t);
    }
    /// Whether no op after position `after` reads t: then its memory may be overwritten in place.
    bool last_use(TensorId t, size_t after) const { return last_reader_[t.index] <= after; }

    const Graph& graph_;
    const Architecture& architecture_;
    const Weights& weights_;
    const bool fusion_;
    std::vector<size_t> last_reader_;  // op, by tensor
    Plan plan_;
    std::string_view pattern_;
    int32_t layer_ = -1;
};

const Planner::Row Planner::table[] = {
    {"q+k+v", true, &Planner::qkv_linear},
    {"norm+rope+cache", true, &Planner::norm_rope_attention},
    {"rope+cache", false, &Planner::rope_attention},  // the cache is written nowhere else
    {"k+v", false, &Planner::kv_linear},
    {"cache", false, &Planner::store},
    {"gate+up+glu", true, &Planner::linear_glu},
    {"experts' gate+up+glu", true, &Planner::expert_glu},
    {"linear+activation", true, &Planner::linear_activate},
    {"linear+add", true, &Planner::linear_add},
    {"embed", false, &Planner::embed},
    {"norm", false, &Planner::norm},
    {"linear", false, &Planner::linear},
    {"map", false, &Planner::map},
    {"route", false, &Planner::route},
    {"expert linear", false, &Planner::expert_linear},
    {"head linear", false, &Planner::head_linear},
    {"pack", false, &Planner::pack},
    {"glu", false, &Planner::as_is<op::Glu>},
    {"add", false, &Planner::add},
    {"select", false, &Planner::as_is<op::Select>},
    {"expert sum", false, &Planner::as_is<op::ExpertSum>},
    {"gate", false, &Planner::as_is<op::Gate>},
};

Plan Planner::run() {
    for (size_t i = 0; i < graph_.ops.size();) {
        size_t taken = 0;
        layer_ = graph_.layers[i];
        if (i == graph_.encoder_ops) plan_.encoder_kernels = plan_.kernels.size();
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

void Planner::emit(Kernel kernel, std::span<const TensorId> reads, std::span<const TensorId> results) {
    for (const TensorId t : reads) touch(t);
    for (const TensorId t : results) {
        define({t});
        touch(t);
    }
    plan_.kernels.push_back({std::move(kernel), pattern_, layer_, {results.begin(), results.end()}});
}

size_t Planner::past_adapters(size_t i) const {
    const auto of_adapter = [&](const op::Linear* linear) {
        return linear && linear->weight.part != WeightPart::base;
    };
    while (at<op::Add>(i) || of_adapter(at<op::Linear>(i))) ++i;
    return i;
}

/// linear q, linear k, linear v of one input. Their outputs are side by side whether or not they are
/// fused, because rope_attention wants them so.
bool Planner::makes_qkv(size_t i) const {
    const auto *q = at<op::Linear>(i), *k = at<op::Linear>(i + 1), *v = at<op::Linear>(i + 2);
    if (!q || !k || !v || !(q->x == k->x) || !(q->x == v->x)) return false;
    for (size_t j = past_adapters(i + 3); j < graph_.ops.size(); ++j) {
        if (const auto* attention = at<op::Attention>(j)) return attention->k.has_value();
        if (!at<op::Map>(j) && !at<op::Norm>(j) && !at<op::Rope>(j)) return false;
    }
    return false;
}

size_t Planner::qkv_linear(size_t i) {
    if (!makes_qkv(i)) return 0;
    const auto *q = at<op::Linear>(i), *k = at<op::Linear>(i + 1), *v = at<op::Linear>(i + 2);
    if (!same_type({q->weight, k->weight, v->weight})) return 0;
    std::optional<VectorId> bias;
    if (q->bias || k->bias || v->bias)
        bias = vector_group({{{q->bias, cols(q->out)}, {k->bias, cols(k->out)}, {v->bias, cols(v->out)}}});
    define({q->out, k->out, v->out});
    kernel::Linear fused{q->x,
                         q->out,
                         cols(q->out) + cols(k->out) + cols(v->out),
                         weight_group({q->weight, k->weight, v->weight}),
                         bias,
                         {},
                         {}};
    emit(fused, {q->x}, {q->out, k->out, v->out});
    return 3;
}

size_t Planner::head_norms(size_t i, const op::Norm*& q_norm, const op::Norm*& k_norm) const {
    const auto fits = [&](const op::Norm* norm) {
        return norm && norm->kind == NormKind::rms && norm->weight && !norm->bias &&
               norm->weights == norm->group &&
               (norm->weight->role == Role::q_norm || norm->weight->role == Role::k_norm);
    };
    const auto *q = at<op::Norm>(i), *k = at<op::Norm>(i + 1);
    if (!fits(q) || q->weight->role != Role::q_norm) return 0;
    q_norm = q;
    if (!fits(k)) return 1;
    k_norm = k;
    return 2;
}

size_t Planner::norm_rope_attention(size_t i) {
    const op::Norm *q = nullptr, *k = nullptr;
    const size_t norms = head_norms(i, q, k);
    if (!norms) return 0;
    const size_t taken = emit_rope_attention(i + norms, q, k);
    return taken ? norms + taken : 0;
}

size_t Planner::rope_attention(size_t i) { return emit_rope_attention(i, nullptr, nullptr); }

/// [rope q, rope k] [norm q, norm k] attention, of which any may lack but the last.
size_t Planner::emit_rope_attention(size_t i, const op::Norm* q_norm, const op::Norm* k_norm) {
    size_t at_op = i;
    const auto* rope_q = at<op::Rope>(at_op);
    if (rope_q) at_op += at<op::Rope>(at_op + 1) ? 2 : 1;
    const bool norm_before = q_norm != nullptr;
    if (!norm_before) at_op += head_norms(at_op, q_norm, k_norm);
    const auto* attention = at<op::Attention>(at_op);
    if (!attention || (q_norm && q_norm->group != attention->shape.head_dim)) return 0;

    const bool with_kv = attention->k.has_value();
    const TensorId q = norm_before ? q_norm->x : rope_q ? rope_q->x : q_norm ? q_norm->x : attention->q;
    const uint32_t dim = attention->shape.head_dim,
                   cache = with_kv ? attention->layer : uint32_t(attention->shape.kv_layer);
    kernel::RopeCache rope{.q = q,
                           .with_kv = with_kv,
                           .rotated = attention->q,
                           .layer = cache,
                           .q_norm = {},
                           .k_norm = {},
                           .norm_after = !norm_before,
                           .epsilon = 0,
                           .shape = attention->shape};
    if (q_norm) {
        rope.q_norm = vector_of(*q_norm->weight, dim);
        rope.k_norm = k_norm ? vector_of(*k_norm->weight, dim) : rope.q_norm;
        rope.epsilon = q_norm->epsilon;
    }
    alias(attention->q, q);
    if (with_kv || rope_q || q_norm) emit(rope, {q}, {attention->q});
    kernel::Attention kernel{.q = attention->q,
                             .out = attention->out,
                             .layer = cache,
                             .shape = attention->shape,
                             .bias = {},
                             .sinks = {},
                             .distance_values = {},
                             .distances = attention->distances};
    kernel.bias = vector_of(attention->bias, attention->shape.heads * attention->shape.bias_cols());
    kernel.sinks = vector_of(attention->sinks, attention->shape.heads);
    kernel.distance_values =
        vector_of(attention->distance_values, attention->shape.bias_span * attention->shape.head_dim);
    std::vector<TensorId> reads{attention->q};
    if (attention->distances) reads.push_back(*attention->distances);
    if (attention->base) {
        alias(attention->out, *attention->base);
        reads.push_back(*attention->base);
    }
    emit(kernel, reads, std::array{attention->out});
    return at_op + 1 - i;
}

/// linear k, linear v of one input, both for the cache: side by side.
size_t Planner::kv_linear(size_t i) {
    const auto *k = at<op::Linear>(i), *v = at<op::Linear>(i + 1);
    if (!k || !v || !(k->x == v->x) || !at<op::Store>(past_adapters(i + 2))) return 0;
    define({k->out, v->out});
    if (fusion_ && same_type({k->weight, v->weight})) {
        std::optional<VectorId> bias;
        if (k->bias || v->bias) bias = vector_group({{{k->bias, cols(k->out)}, {v->bias, cols(v->out)}}});
        emit(kernel::Linear{k->x,
                            k->out,
                            cols(k->out) + cols(v->out),
                            weight_group({k->weight, v->weight}),
                            bias,
                            {},
                            {}},
             {k->x}, {k->out, v->out});
    } else {
        linear(i);
        linear(i + 1);
    }
    return 2;
}

size_t Planner::store(size_t i) {
    const auto* store = at<op::Store>(i);
    if (!store) return 0;
    alias(store->out, store->k);
    kernel::RopeCache cache{.q = store->k,
                            .with_kv = true,
                            .rotated = store->out,
                            .layer = store->layer,
                            .q_norm = {},
                            .k_norm = {},
                            .norm_after = false,
                            .epsilon = 0,
                            .shape = store->shape};
    cache.shape.heads = 0;
    emit(cache, {store->k, store->v}, {store->out});
    return 1;
}

template <class T> const op::Glu* Planner::glu_of(size_t i) const {
    const auto *gate = at<T>(i), *up = at<T>(i + 1);
    const auto* glu = at<op::Glu>(i + 2);
    const bool plain = gate && up && glu && !gate->bias && !up->bias && !(glu->clamp > 0) && gate->x == up->x;
    const bool matches = plain && glu->gate == gate->out && glu->up == up->out;
    return matches && same_type({gate->weight, up->weight}) ? glu : nullptr;
}

size_t Planner::linear_glu(size_t i) {
    const auto* glu = glu_of<op::Linear>(i);
    if (!glu) return 0;
    const auto *gate = at<op::Linear>(i), *up = at<op::Linear>(i + 1);
    emit(kernel::Linear{gate->x,
                        glu->out,
                        cols(glu->out),
                        weight_group({gate->weight, up->weight}, true),
                        {},
                        {},
                        glu->activation,
                        true},
         {gate->x}, {glu->out});
    return 3;
}

size_t Planner::expert_glu(size_t i) {
    const auto* glu = glu_of<op::ExpertLinear>(i);
    if (!glu) return 0;
    const auto *gate = at<op::ExpertLinear>(i), *up = at<op::ExpertLinear>(i + 1);
    emit(kernel::ExpertLinear{gate->x,
                              gate->routes,
                              glu->out,
                              weight_group({gate->weight, up->weight}, true),
                              {},
                              gate->experts,
                              gate->used,
                              glu->activation},
         {gate->x, gate->routes}, {glu->out});
    return 3;
}

size_t Planner::linear_activate(size_t i) {
    const auto* linear = at<op::Linear>(i);
    const auto* map = at<op::Map>(i + 1);
    if (!linear || !map || map->kind != MapKind::activate || !(map->x == linear->out)) return 0;
    emit(kernel::Linear{linear->x,
                        map->out,
                        cols(map->out),
                        weight_group({linear->weight}),
                        vector_of(linear->bias, cols(linear->out)),
                        {},
                        map->activation},
         {linear->x}, {map->out});
    return 2;
}

size_t Planner::linear_add(size_t i) {
    const auto* linear = at<op::Linear>(i);
    const auto* add = at<op::Add>(i + 1);
    if (!linear || !add || !(add->b == linear->out) || !placed(add->a) || !last_use(add->a, i + 1)) return 0;
    alias(add->out, add->a);
    emit(kernel::Linear{linear->x,
                        add->out,
                        cols(add->out),
                        weight_group({linear->weight}),
                        vector_of(linear->bias, cols(linear->out)),
                        add->a,
                        {},
                        false,
                        add->scale},
         {linear->x, add->a}, {add->out});
    return 2;
}

size_t Planner::embed(size_t i) {
    const auto* op = at<op::Embed>(i);
    if (!op) return 0;
    emit(kernel::Embed{op->out, weight_group({op->table}), op->by, op->scale}, {}, {op->out});
    return 1;
}

size_t Planner::norm(size_t i) {
    const auto* op = at<op::Norm>(i);
    if (!op) return 0;
    if (has_neighbours(op->x)) alias(op->out, op->x);
    emit(kernel::Norm{op->x, op->out, vector_of(op->weight, op->weights), vector_of(op->bias, op->weights),
                      op->kind, op->epsilon, op->group, op->weights != op->group},
         {op->x}, {op->out});
    return 1;
}

size_t Planner::linear(size_t i) {
    const auto* op = at<op::Linear>(i);
    if (!op) return 0;
    if (makes_qkv(i)) define({op->out, at<op::Linear>(i + 1)->out, at<op::Linear>(i + 2)->out});
    emit(kernel::Linear{op->x,
                        op->out,
                        cols(op->out),
                        weight_group({op->weight}),
                        vector_of(op->bias, cols(op->out)),
                        {},
                        {}},
         {op->x}, {op->out});
    return 1;
}

size_t Planner::map(size_t i) {
    const auto* op = at<op::Map>(i);
    if (!op) return 0;
    alias(op->out, op->x);
    emit(*op, {op->x}, {op->out});
    return 1;
}

size_t Planner::route(size_t i) {
    const auto* op = at<op::Route>(i);
    if (!op) return 0;
    emit(kernel::Route{op->scores, op->out, op->routing, vector_of(op->choice_bias, op->routing.experts)},
         {op->scores}, {op->out});
    return 1;
}

size_t Planner::expert_linear(size_t i) {
    const auto* op = at<op::ExpertLinear>(i);
    if (!op) return 0;
    emit(kernel::ExpertLinear{op->x,
                              op->routes,
                              op->out,
                              weight_group({op->weight}),
                              vector_of(op->bias, cols(op->out) / op->used * op->experts),
                              op->experts,
                              op->used,
                              {}},
         {op->x, op->routes}, {op->out});
    return 1;
}

size_t Planner::head_linear(size_t i) {
    const auto* op = at<op::HeadLinear>(i);
    if (!op) return 0;
    emit(kernel::HeadLinear{op->x, op->out, weight_group({op->weight}), op->heads, op->first}, {op->x},
         {op->out});
    return 1;
}

/// Three in a row make q, k and v, which stand side by side.
size_t Planner::pack(size_t i) {
    const auto *op = at<op::Pack>(i), *k = at<op::Pack>(i + 1), *v = at<op::Pack>(i + 2);
    if (op && k && v) define({op->out, k->out, v->out});
    return as_is<op::Pack>(i);
}

/// q, k and v stay side by side when adapters add to them.
size_t Planner::add(size_t i) {
    const auto* op = at<op::Add>(i);
    if (op && has_neighbours(op->a)) alias(op->out, op->a);
    return as_is<op::Add>(i);
}

template <class T> size_t Planner::as_is(size_t i) {
    const auto* op = at<T>(i);
    if (!op) return 0;
    emit(*op, inputs_of(graph_.ops[i]), std::array{op->out});
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
