// The plan: which patterns fuse, where tensors stand, what lives at the same time.
#include "plan.h"

#include "scheduler.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>

using namespace scoria;

namespace {

Architecture small_llama(uint32_t layers, bool qk_norm = false) {
    Architecture a;
    a.family = "llama";
    a.vocab = 50, a.hidden = 24, a.context = 64;
    a.norm.epsilon = 1e-5f;
    a.tied_embeddings = true;
    Layer layer;
    layer.attention = {.heads = 3, .kv_heads = 1, .head_dim = 8, .scale = 1, .qk_norm = {}};
    if (qk_norm) layer.attention.qk_norm.group = QkNorm::Group::head;
    a.ropes.resize(1);
    layer.feed_forward.size = 40;
    a.layers.assign(layers, layer);
    return a;
}

/// Weights of the shapes the graph asks for, all of one type but the listed ones.
Weights weights_for(const Graph& graph, const std::map<Role, TensorType>& types = {}) {
    Weights weights;
    const auto add = [&](const WeightRef& ref, uint32_t rows, uint32_t cols) {
        const auto type = types.find(ref.role);
        weights[ref] = {"", type == types.end() ? TensorType::f32 : type->second, rows, cols, 0, 0};
    };
    for (const Op& op : graph.ops) {
        if (const auto* l = std::get_if<op::Linear>(&op))
            add(l->weight, graph.tensors[l->out.index].cols, graph.tensors[l->x.index].cols);
        else if (const auto* n = std::get_if<op::Norm>(&op); n && n->weight)
            add(*n->weight, 1, n->weights);
    }
    return weights;
}

Plan plan_of(const Architecture& a, bool fusion, const std::map<Role, TensorType>& types = {}) {
    const Graph graph = build_graph(a);
    return make_plan(graph, a, weights_for(graph, types), fusion);
}

size_t kernels_of_layer(const Plan& plan, int32_t layer) {
    return size_t(std::ranges::count(plan.kernels, layer, &PlannedKernel::layer));
}

size_t folded_of_layer(const Plan& plan, int32_t layer) {
    return size_t(std::ranges::count_if(plan.kernels, [&](const PlannedKernel& planned) {
        const auto* norm = std::get_if<kernel::Norm>(&planned.kernel);
        const auto* heads = std::get_if<kernel::RopeCache>(&planned.kernel);
        return planned.layer == layer &&
               ((norm && !norm->folds_into.empty()) || (heads && !heads->folds_into.empty()));
    }));
}

}  // namespace

TEST_CASE("fusion: kernels per layer") {
    struct Row {
        const char* what;
        bool qk_norm, fusion;
        std::map<Role, TensorType> types;
        size_t kernels, folded;  // folded: norms, and ends of heads, that a step leaves to linears
        std::vector<Role> adapted{};
    };
    const Row rows[] = {
        {"fused", false, true, {}, 8, 3},
        {"fused, head norms", true, true, {}, 8, 2},
        {"v of another type: v apart", false, true, {{Role::v, TensorType::q8_0}}, 9, 3},
        {"k of another type: q, k, v apart", false, true, {{Role::k, TensorType::q8_0}}, 10, 3},
        {"up of another type: gate, up, glu apart", false, true, {{Role::up, TensorType::q8_0}}, 10, 3},
        {"unfused", false, false, {}, 14, 0},
        {"unfused, head norms", true, false, {}, 16, 0},
        // A, and B with its addition.
        {"adapters of q and v", false, true, {}, 12, 2, {Role::q, Role::v}},
        {"adapters of q and v, head norms", true, true, {}, 12, 2, {Role::q, Role::v}},
        // Residuals are added, and gates applied, after the adapters.
        {"an adapter of o", false, true, {}, 11, 3, {Role::o}},
        {"an adapter of up", false, true, {}, 12, 3, {Role::up}},
        {"adapters of q and v, unfused", false, false, {}, 20, 0, {Role::q, Role::v}},
    };
    for (const Row& row : rows) {
        CAPTURE(row.what);
        Architecture model = small_llama(3, row.qk_norm);
        for (const Role role : row.adapted)
            for (int32_t layer = 0; layer < 3; ++layer) model.adapters[{role, layer}] = 4;
        const Plan plan = plan_of(model, row.fusion, row.types);
        for (int32_t layer = 0; layer < 3; ++layer) {
            CHECK(kernels_of_layer(plan, layer) == row.kernels);
            CHECK(folded_of_layer(plan, layer) == row.folded);
        }
    }
}

TEST_CASE("a norm folds only while what it read stands, and into linears alone") {
    Architecture parallel = small_llama(2);  // the attention is added to x before gate and up read the norm
    parallel.placement = NormPlacement::parallel;
    CHECK(folded_of_layer(plan_of(parallel, true), 0) == 1);  // the heads'
    Architecture layer_norm = small_llama(2);
    layer_norm.norm.kind = NormKind::layer;
    CHECK(folded_of_layer(plan_of(layer_norm, true), 0) == 1);

    const Graph graph = build_graph(small_llama(2));
    const Plan plan = make_plan(graph, small_llama(2), weights_for(graph), true);
    for (const PlannedKernel& planned : plan.kernels)
        if (const auto* norm = std::get_if<kernel::Norm>(&planned.kernel))
            for (const size_t reader : norm->folds_into)
                CHECK(plan.storages[plan.placements[norm->x.index].storage].end >= reader);
}

TEST_CASE("q, k and v stand side by side, fused or not, adapted or not") {
    for (int kind = 0; kind < 16; ++kind) {
        CAPTURE(kind);
        const bool fusion = kind & 1, qk_norm = kind & 2, adapted = kind & 4, v_is_k = kind & 8;
        Architecture model = small_llama(2, qk_norm);
        if (adapted) model.adapters = {{{Role::q, 0}, 3}, {{Role::k, 0}, 3}};
        if (adapted && !v_is_k) model.adapters[{Role::v, 1}] = 3;
        for (Layer& layer : model.layers) layer.attention.v_norm = layer.attention.v_is_k = v_is_k;
        const Graph graph = build_graph(model);
        const Plan plan = plan_of(model, fusion);
        const auto place_of = [&](Role role) {
            for (const Op& op : graph.ops)
                if (const auto* linear = std::get_if<op::Linear>(&op); linear && linear->weight.role == role)
                    return plan.placements[linear->out.index];
            return Placement{};
        };
        const auto normed = std::ranges::find_if(
            graph.tensors, [](const GraphTensor& tensor) { return tensor.name.ends_with("v normed"); });
        const Placement q = place_of(Role::q), k = place_of(Role::k),
                        v = v_is_k ? plan.placements[size_t(normed - graph.tensors.begin())]
                                   : place_of(Role::v);
        CHECK(q.storage == k.storage);
        CHECK(q.storage == v.storage);
        CHECK(k.first == q.first + 24);
        CHECK(v.first == k.first + 8);
        const auto in_place = [&](TensorId out, TensorId in) {
            const Placement& to = plan.placements[out.index];
            const Placement& from = plan.placements[in.index];
            CHECK((to.storage == from.storage && to.first == from.first));
        };
        for (const PlannedKernel& planned : plan.kernels)
            if (const auto* rope = std::get_if<kernel::RopeCache>(&planned.kernel))
                in_place(rope->rotated, rope->q);
        for (const Op& op : graph.ops)
            if (const auto* add = std::get_if<op::Add>(&op);
                add && graph.tensors[add->out.index].name.ends_with("adapted"))
                in_place(add->out, add->a);
    }
}

TEST_CASE("tied embeddings are one weight group") {
    const Plan plan = plan_of(small_llama(1), true);
    const auto* embed = std::get_if<kernel::Embed>(&plan.kernels.front().kernel);
    const auto* logits = std::get_if<kernel::Linear>(&plan.kernels.back().kernel);
    REQUIRE(embed);
    REQUIRE(logits);
    CHECK(embed->table == logits->weight);
}

TEST_CASE("arena: what lives at the same time does not overlap, and memory is reused") {
    std::mt19937 random(7);
    for (int round = 0; round < 50; ++round) {
        std::vector<Storage> storages(30);
        uint64_t sum = 0;
        for (Storage& s : storages) {
            s = {random() % 4 ? RowKind::tokens : RowKind::outputs, uint32_t(1 + random() % 300),
                 uint32_t(random() % 40), 0};
            s.end = s.begin + uint32_t(random() % 5);
            sum += 4ull * s.cols * (s.rows == RowKind::tokens ? 9 : 2);
        }
        const Arena arena = place(storages, 9, 2, 64);
        const auto last = [&](size_t i) {
            return arena.offsets[i] + 4ull * storages[i].cols * (storages[i].rows == RowKind::tokens ? 9 : 2);
        };
        for (size_t i = 0; i < storages.size(); ++i) {
            CHECK(arena.offsets[i] % 64 == 0);
            CHECK(last(i) <= arena.bytes);
            for (size_t j = 0; j < i; ++j) {
                const bool together =
                    storages[i].begin <= storages[j].end && storages[j].begin <= storages[i].end;
                const bool overlap = arena.offsets[i] < last(j) && arena.offsets[j] < last(i);
                CHECK_FALSE((together && overlap));
            }
        }
        CHECK(arena.bytes < sum);
    }
}

TEST_CASE("pacer: runs stay under the budget, and it learns at once that it was too hopeful") {
    Pacer pacer(0.05, 1e-11);
    pacer.learn(1e6, 0.01);  // 1e-8 s per cost
    const std::vector<double> costs{2e6, 2e6, 2e6, 9e6, 1e6, 1e6};
    CHECK(pacer.cut(costs) == std::vector<size_t>{2, 3, 4, 6});
    CHECK(pacer.most_cost() == doctest::Approx(5e6));
    pacer.learn(1e6, 0.02);
    CHECK(pacer.cut(costs) == std::vector<size_t>{1, 2, 3, 4, 6});
    CHECK(pacer.fitting(std::span(costs).subspan(4)) == 2);
    CHECK(pacer.fitting(std::span(costs).subspan(4), 1e6) == 1);
    CHECK(pacer.cut({}).empty());
    pacer.set_budget(0.31);
    CHECK(pacer.cut(costs) == std::vector<size_t>{4, 6});
    const double before = pacer.most_cost();
    pacer.submission_lost();
    CHECK(pacer.most_cost() == doctest::Approx(before / 4));
}
