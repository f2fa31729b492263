// check_model with values that are not a device's: the reference's own, rounded
// to float32 and then spoilt.
#include "validate/class_rounding.h"
#include "validate/model_check.h"

#include "reference/executor.h"
#include "test_env.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <map>

using namespace scoria;
using namespace scoria::validate;

namespace {

const std::vector<TokenId> ids{3, 50, 7, 200, 9};

using Values = std::map<std::string, std::vector<float>>;

Values reference_values(const Model& model, reference::Rounding rounding = {}) {
    Values values;
    reference::Executor(model, std::move(rounding))
        .forward(ids, reference::Outputs::all,
                 [&](const Graph& graph, const Op& op, std::span<const double> output) {
                     auto& tensor = values[graph.tensors[output_of(op).index].name];
                     for (const double value : output) tensor.push_back(static_cast<float>(value));
                 });
    return values;
}

}  // namespace

TEST_CASE("check_model names the first tensor that diverges" * test::needs_fixtures()) {
    const Model model = open_model(test::fixtures() + "/gguf/llama3.gguf");
    const Graph graph = build_graph(model.architecture);
    struct Row {
        const char* what;
        void (*spoil)(Values&);
        const char* first;  // nullptr: passes
        size_t fused_away;
    };
    const Row rows[] = {
        {"nothing wrong", [](Values&) {}, nullptr, 0},
        {"fused away", [](Values& v) { v["layer 0 gate"].clear(), v["layer 0 up"].clear(); }, nullptr, 2},
        {"one element", [](Values& v) { v["layer 1 gate"][70] += 0.1f; }, "layer 1 gate", 0},
        {"two tensors", [](Values& v) { v["logits"][9] = 1e3f, v["layer 0 k rotated"][3] = 9; },
         "layer 0 k rotated", 0},
        {"NaN", [](Values& v) { v["output norm"][5] = std::numeric_limits<float>::quiet_NaN(); },
         "output norm", 0},
        {"wrong size", [](Values& v) { v["selected"].pop_back(); }, "selected", 0},
    };
    for (const Row& row : rows) {
        CAPTURE(row.what);
        Values values = reference_values(model);
        row.spoil(values);
        const auto fetch = [&](TensorId id) { return values.at(graph.tensors[id.index].name); };
        const ModelCheck check = check_model(model, ids, fetch, Precision::strict, KvType::f32);
        CHECK(check.fused_away == row.fused_away);
        CHECK(check.ops.size() + row.fused_away == graph.ops.size());
        CHECK(check.passed() == (row.first == nullptr));
        if (row.first && check.first_diverging) CHECK(check.ops[*check.first_diverging].variant == row.first);
    }
}

TEST_CASE("check_model allows what the class rounds, and no more" * test::needs_fixtures()) {
    const Model model = open_model(test::fixtures() + "/gguf/llama3.gguf");
    const Graph graph = build_graph(model.architecture);
    const auto check = [&](reference::Rounding rounding, Precision precision, KvType kv) {
        Values values = reference_values(model, std::move(rounding));
        return check_model(
            model, ids, [&](TensorId id) { return values.at(graph.tensors[id.index].name); }, precision, kv);
    };
    const auto bits_fewer = [](uint32_t fewer) {
        return [fewer](std::span<double> row) {
            for (double& value : row) {
                const double power = std::ldexp(1.0, 10 - int(fewer) - std::ilogb(value));
                if (value != 0) value = std::nearbyint(value * power) / power;
            }
        };
    };
    for (const Precision precision : {Precision::balanced, Precision::fast})
        for (const KvType kv : {KvType::f16, KvType::q8_0, KvType::q4_0}) {
            CAPTURE(kv_type_names[size_t(kv)]);
            CHECK(class_roundings(precision, kv).size() == 2);
            for (const reference::Rounding& rounding : class_roundings(precision, kv))
                CHECK(check(rounding, precision, kv).passed());
        }
    CHECK(class_roundings(Precision::strict, KvType::f32).empty());
    CHECK(
        check(class_roundings(Precision::strict, KvType::q8_0)[0], Precision::strict, KvType::q8_0).passed());

    // Halves that lost three of their bits; a class that allows fewer; a cache coarser than was said.
    reference::Rounding coarse = class_roundings(Precision::balanced, KvType::f16)[0];
    coarse.weights = coarse.activations = bits_fewer(3);
    CHECK(check(coarse, Precision::balanced, KvType::f16).name_of_first().starts_with("linear -> layer 0 q"));
    for (const reference::Rounding& rounding : class_roundings(Precision::balanced, KvType::f32))
        CHECK(check(rounding, Precision::strict, KvType::f32)
                  .name_of_first()
                  .starts_with("linear -> layer 0 q"));
    for (const reference::Rounding& rounding : class_roundings(Precision::balanced, KvType::q8_0))
        CHECK(check(rounding, Precision::balanced, KvType::f16)
                  .name_of_first()
                  .starts_with("attention -> layer 0"));
}
