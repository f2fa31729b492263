// The fusion table. A pattern looks at the ops from one position on; if they are what it knows, it
// emits one kernel and says how many ops it took. Patterns are tried in order; the last ones take a
// single op, so an unmatched sequence runs unfused.
#include "planner.h"

#include <array>

namespace scoria {

constinit const Planner::Row Planner::table[] = {
    {"q+k(+v)", true, &Planner::qkv_linear},
    {"norm+rope+cache", true, &Planner::norm_rope_attention},
    {"rope+cache", false, &Planner::rope_attention},  // the cache is written nowhere else
    {"index q", false, &Planner::index_linear},
    {"rope+index cache", false, &Planner::choose},
    {"k+v", false, &Planner::kv_linear},
    {"cache", false, &Planner::store},
    {"gate+up+glu", true, &Planner::linear_glu},
    {"recurrence's linears", false, &Planner::mixer_linears},  // channels stand nowhere else
    {"experts' gate+up+glu", true, &Planner::expert_glu},
    {"linear+activation", true, &Planner::linear_activate},
    {"linear+add", true, &Planner::linear_add},
    {"expert sum+add", true, &Planner::expert_sum_add},
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
    {"expert sum", false, &Planner::expert_sum},
    {"gate", false, &Planner::as_is<op::Gate>},
    {"mix", false, &Planner::as_is<op::Mix>},
    {"hash", false, &Planner::hash},
    {"sort", false, &Planner::as_is<op::Sort>},
    {"chunk attention", false, &Planner::as_is<op::ChunkAttention>},
    {"convolve", false, &Planner::convolve},
    {"shift", false, &Planner::shift},
    {"columns", false, &Planner::columns},
    {"scan", false, &Planner::scan},
    {"wkv", false, &Planner::wkv},
};

Plan Planner::run() {
    std::vector<bool> made(graph_.tensors.size());
    for (const Op& op : graph_.ops) made[output_of(op).index] = true;
    for (const Op& op : graph_.ops)  // of a part of the layers: the residual stream that it begins with
        for (const TensorId t : inputs_of(op))
            if (!made[t.index] && !placed(t)) define({t});
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
    if (fusion_) fold_norms(), fold_heads();
    return std::move(plan_);
}

void Planner::fold_norms() {
    for (size_t i = 0; i < plan_.kernels.size(); ++i) {
        auto* norm = std::get_if<kernel::Norm>(&plan_.kernels[i].kernel);
        const bool whole_rows = norm && norm->kind == NormKind::rms && norm->weight && !norm->bias &&
                                !norm->own_weights && norm->group == cols(norm->x) &&
                                norm->group == cols(norm->out);
        if (!whole_rows || has_neighbours(norm->out)) continue;
        std::vector<size_t> linears;
        size_t read = 0;
        for (size_t j = i + 1; j < plan_.kernels.size(); ++j) {
            const auto* linear = std::get_if<kernel::Linear>(&plan_.kernels[j].kernel);
            if (!linear || !(linear->x == norm->out) || linear->residual) continue;
            linears.push_back(j);
            // One op for each matrix of the group.
            read += plan_.weight_groups[linear->weight].parts.size();
        }
        if (linears.empty() || read != readers_[norm->out.index]) continue;
        // x must stand until then.
        const uint32_t storage = plan_.placements[norm->x.index].storage;
        bool overwritten = false;
        for (size_t j = i; j < linears.back(); ++j)
            for (const TensorId t : plan_.kernels[j].results)
                overwritten = overwritten || plan_.placements[t.index].storage == storage;
        if (overwritten) continue;
        Storage& x = plan_.storages[storage];
        x.end = std::max(x.end, uint32_t(linears.back()));
        for (const size_t j : linears) std::get<kernel::Linear>(plan_.kernels[j].kernel).norm = i;
        norm->folds_into = std::move(linears);
    }
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

void Planner::define(std::span<const TensorId> tensors) {
    if (placed(tensors.front())) return;
    Storage storage{graph_.tensors[tensors.front().index].rows, 0, uint32_t(plan_.kernels.size()), 0};
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

template <class T> const op::Glu* Planner::glu_of(size_t i) const {
    const auto *gate = at<T>(i), *up = at<T>(i + 1);
    const auto* glu = at<op::Glu>(i + 2);
    const bool plain =
        gate && up && glu && !gate->bias && !up->bias && glu->clamp.limit == 0 && gate->x == up->x;
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
    emit(kernel::ExpertLinear{.x = gate->x,
                              .out = glu->out,
                              .routes = gate->routes,
                              .weight = weight_group({gate->weight, up->weight}, true),
                              .experts = gate->experts,
                              .used = gate->used,
                              .glu = glu->activation},
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

/// Whether op i adds `x` to what nobody reads after it.
bool Planner::adds_in_place(const op::Add& add, TensorId x, size_t i) const {
    return add.b == x && placed(add.a) && last_use(add.a, i) && cols(add.a) == cols(add.out);
}

size_t Planner::linear_add(size_t i) {
    const auto* linear = at<op::Linear>(i);
    const auto* add = at<op::Add>(i + 1);
    if (!linear || !add || !adds_in_place(*add, linear->out, i + 1)) return 0;
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
    emit(kernel::Embed{op->out, weight_group({op->table}), op->by, op->scale, op->divide, op->period}, {},
         {op->out});
    return 1;
}

size_t Planner::norm(size_t i) {
    const auto* op = at<op::Norm>(i);
    if (!op) return 0;
    if (has_neighbours(op->x) && !placed(op->out)) alias(op->out, op->x);
    const auto weight = op->second
                            ? vector_group({{{*op->weight, op->weights / 2}, {*op->second, op->weights / 2}}})
                            : vector_of(op->weight, op->weights);
    emit(kernel::Norm{op->x, op->out, weight, vector_of(op->bias, op->weights), op->kind, op->epsilon,
                      op->group, op->weights != op->group, op->like},
         inputs_of(graph_.ops[i]), std::array{op->out});
    return 1;
}

size_t Planner::linear(size_t i) {
    const auto* op = at<op::Linear>(i);
    if (!op) return 0;
    if (const auto v = v_of(i)) define({op->out, at<op::Linear>(i + 1)->out, *v});
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
    emit(kernel::Route{op->scores, op->out, op->routing, vector_of(op->choice_bias, op->routing.experts),
                       vector_of(op->weight_scale, op->routing.experts)},
         {op->scores}, {op->out});
    return 1;
}

size_t Planner::expert_linear(size_t i) {
    const auto* op = at<op::ExpertLinear>(i);
    if (!op) return 0;
    emit(kernel::ExpertLinear{.x = op->x,
                              .out = op->out,
                              .routes = op->routes,
                              .weight = weight_group({op->weight}),
                              .bias = vector_of(op->bias, cols(op->out) / op->used * op->experts),
                              .experts = op->experts,
                              .used = op->used},
         {op->x, op->routes}, {op->out});
    return 1;
}

size_t Planner::expert_sum(size_t i) {
    const auto* op = at<op::ExpertSum>(i);
    if (!op) return 0;
    emit(kernel::ExpertSum{op->x, op->routes, op->out, op->used, {}}, {op->x, op->routes}, {op->out});
    return 1;
}

size_t Planner::expert_sum_add(size_t i) {
    const auto* sum = at<op::ExpertSum>(i);
    const auto* add = at<op::Add>(i + 1);
    if (!sum || !add || !adds_in_place(*add, sum->out, i + 1)) return 0;
    alias(add->out, add->a);
    emit(kernel::ExpertSum{sum->x, sum->routes, add->out, sum->used, add->a, add->scale},
         {sum->x, sum->routes, add->a}, {add->out});
    return 2;
}

size_t Planner::head_linear(size_t i) {
    const auto* op = at<op::HeadLinear>(i);
    if (!op) return 0;
    emit(kernel::ExpertLinear{.x = op->x,
                              .out = op->out,
                              .weight = weight_group({op->weight}),
                              .experts = op->heads,
                              .used = op->heads,
                              .first = op->first},
         {op->x}, {op->out});
    return 1;
}

/// Two in a row make q and k, which stand side by side.
size_t Planner::pack(size_t i) {
    const auto *op = at<op::Pack>(i), *k = at<op::Pack>(i + 1);
    if (op && k) define({op->out, k->out});
    return as_is<op::Pack>(i);
}

size_t Planner::hash(size_t i) {
    const auto* op = at<op::Hash>(i);
    if (!op) return 0;
    const Chunks& chunks = op->shape.chunks;
    const uint32_t size = op->shape.heads * op->shape.head_dim * chunks.rounds * chunks.rotated();
    emit(kernel::Hash{op->x, op->out, vector_of(op->rotations, size), op->shape}, {op->x}, {op->out});
    return 1;
}

/// What a recurrence projects its input to, side by side; one matrix below another as far as types agree.
size_t Planner::mixer_linears(size_t i) {
    std::vector<const op::Linear*> parts;
    std::vector<TensorId> results;
    for (const op::Linear* each = at<op::Linear>(i); each; each = at<op::Linear>(i + parts.size())) {
        const bool is_part = each->weight.role >= Role::mixer_in_gate &&
                             each->weight.role <= Role::mixer_step && each->weight.part == WeightPart::base &&
                             !each->bias;
        if (!is_part || (!parts.empty() && !(each->x == parts[0]->x))) break;
        parts.push_back(each);
        results.push_back(each->out);
    }
    if (parts.size() < 2) return 0;
    define(results);
    for (size_t first = 0, end = 1; first < parts.size(); first = end++) {
        while (fusion_ && end < parts.size() && same_type({parts[first]->weight, parts[end]->weight})) ++end;
        one_below_another(std::span(parts).subspan(first, end - first));
    }
    return parts.size();
}

size_t Planner::convolve(size_t i) {
    const auto* op = at<op::Convolve>(i);
    if (!op) return 0;
    VectorGroup taps;
    for (size_t part = 0; part < op->x.size(); ++part)
        taps.parts.push_back({op->taps[part], cols(op->x[part]) * op->shape.taps});
    emit(kernel::Convolve{op->x.front(), op->out, vector_group(std::move(taps)),
                          vector_of(op->bias, op->shape.channels()), op->activation, op->layer, op->shape},
         op->x, std::array{op->out});
    return 1;
}

size_t Planner::scan(size_t i) {
    const auto* op = at<op::Scan>(i);
    if (!op) return 0;
    const uint32_t steps = op->shape.steps();
    VectorGroup parameters{{{op->decay, op->shape.decays()}}};
    if (op->shape.activates_steps())
        parameters.parts.insert(parameters.parts.end(), {{op->step_bias, steps}, {op->skip, steps}});
    emit(kernel::Scan{*op, vector_group(std::move(parameters))}, inputs_of(graph_.ops[i]),
         std::array{op->out});
    return 1;
}

size_t Planner::shift(size_t i) {
    const auto* op = at<op::Shift>(i);
    if (!op) return 0;
    emit(kernel::Shift{*op, vector_of(op->shift, cols(op->out))}, {op->x}, {op->out});
    return 1;
}

/// They are where they are.
size_t Planner::columns(size_t i) {
    const auto* op = at<op::Columns>(i);
    if (!op) return 0;
    const Placement& x = plan_.placements[op->x.index];
    plan_.placements[op->out.index] = {x.storage, x.first + op->first};
    return 1;
}

size_t Planner::wkv(size_t i) {
    const auto* op = at<op::Wkv>(i);
    if (!op) return 0;
    const uint32_t keys = op->shape.keys();
    const VectorGroup parameters{{{op->erase, keys}, {op->rate_scale, keys}, {op->bonus, keys}}};
    emit(kernel::Wkv{*op, vector_group(parameters)}, inputs_of(graph_.ops[i]), std::array{op->out});
    return 1;
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

Plan make_plan(const Graph& graph, const Architecture& architecture, const Weights& weights, bool fusion) {
    return Planner(graph, architecture, weights, fusion).run();
}

}  // namespace scoria
