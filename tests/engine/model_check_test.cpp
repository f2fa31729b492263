// check_model with values that are not a device's: the reference's own, rounded
// to float32 and then spoilt.
#include "validate/model_check.h"

#include "reference/executor.h"
#include "test_env.h"

#include <doctest/doctest.h>

#include <limits>
#include <map>

using namespace scoria;
using namespace scoria::validate;

namespace {

const std::vector<TokenId> ids{3, 50, 7, 200, 9};

using Values = std::map<std::string, std::vector<float>>;

Values reference_values(const Model& model) {
    Values values;
    reference::Executor(model).forward(ids, reference::Outputs::all,
                                       [&](const Graph& graph, const Op& op, std::span<const double> output) {
                                           auto& tensor = values[graph.tensors[output_of(op).index].name];
                                           for (const double value : output)
                                               tensor.push_back(static_cast<float>(value));
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
        const ModelCheck check = check_model(model, ids, fetch, model_bounds(Precision::strict));
        CHECK(check.fused_away == row.fused_away);
        CHECK(check.ops.size() + row.fused_away == graph.ops.size());
        CHECK(check.passed() == (row.first == nullptr));
        if (row.first && check.first_diverging) CHECK(check.ops[*check.first_diverging].variant == row.first);
    }
}
