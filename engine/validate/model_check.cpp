// See model_check.h.
#include "model_check.h"

#include "fail.h"
#include "plan.h"
#include "reference/executor.h"

#include <cmath>
#include <map>

namespace scoria::validate {

Bounds model_bounds(Precision precision) {
    // NMSE: a float32 PyTorch run of the fixtures stays below 3.1e-5 standard deviations, so 1e-9
    // (fixtures/MODELS.md, "Tolerances"). Operands rounded to 16 bits err by 2^-11 / sqrt(3) of themselves,
    // 8e-8 squared, in each of some hundred products that feed the last layers: 8e-6, with room for two.
    // 8-bit activations are as coarse as bfloat16, whose advice of 1e-2 holds. One row may be 4 times worse
    // than all together, since rows differ in scale, and one element 8 times worse than its row: beyond 8
    // standard deviations an error is not one of rounding.
    const double nmse = precision == Precision::strict     ? 1e-9
                        : precision == Precision::balanced ? 2e-5
                                                           : 1e-2;
    const double row = 4 * std::sqrt(nmse);
    return {nmse, row, 8 * row};
}

std::string ModelCheck::name_of_first() const {
    if (!first_diverging) return {};
    const CheckResult& first = ops[*first_diverging];
    return cat(first.op, " -> ", first.variant, ", tensor ", *first_diverging + 1, " of ", ops.size(),
               ": NMSE ", first.nmse, " (bound ", first.bounds.nmse, "), ", first.detail);
}

ModelCheck check_model(const Model& model, std::span<const TokenId> ids, const FetchTensor& fetch,
                       const Bounds& bounds) {
    ModelCheck check;
    size_t maps = 0;
    const auto observer = [&](const Graph& graph, const Op& op, std::span<const double> expected) {
        const TensorId id = output_of(op);
        const std::vector<float> actual = fetch(id);
        if (actual.empty()) {
            ++check.fused_away;
            return;
        }
        const GraphTensor& tensor = graph.tensors[id.index];
        const std::string kind = describe(graph, op);
        check.ops.push_back(compare_values(kind.substr(0, kind.find(' ')), tensor.name,
                                           cat(expected.size() / tensor.cols, " x ", tensor.cols), expected,
                                           actual, tensor.cols, bounds));
        if (check.ops.back().passed) return;
        if (!check.first_diverging) check.first_diverging = check.ops.size() - 1;
        // Where later ops go wrong follows from the first; a few pictures tell how it spreads.
        constexpr size_t most_maps = 24;
        if (++maps <= most_maps && expected.size() == actual.size())
            check.ops.back().map =
                std::make_shared<const ErrorMap>(error_map(expected, actual, tensor.cols, bounds));
    };
    reference::Executor executor(model);
    if (!model.architecture.encoder.empty()) executor.encode(ids, observer);
    executor.forward(ids, reference::Outputs::all, observer);
    return check;
}

ModelCheck check_model(Engine& engine, std::span<const TokenId> ids) {
    std::map<TensorId, std::vector<float>> kept;  // fetched at once: later kernels reuse the memory
    Session session(engine);
    const uint32_t segment = engine.model().architecture.memory.segment,
                   most = std::min(session.head_rows(), segment ? segment : UINT32_MAX);
    if (ids.size() > most)  // of several batches only the last would be kept
        fail(Status::bad_argument, "validate", "expected at most ", most, " tokens, got ", ids.size());
    session.trace(ids, [&](const PlannedKernel& kernel, const TraceFetch& fetch) {
        for (const TensorId& tensor : kernel.results) kept[tensor] = fetch(tensor);
    });
    const auto fetch = [&](TensorId tensor) {
        const auto found = kept.find(tensor);
        return found == kept.end() ? std::vector<float>{} : found->second;
    };
    return check_model(engine.model(), ids, fetch, model_bounds(engine.options().precision));
}

}  // namespace scoria::validate
