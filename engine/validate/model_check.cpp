// See model_check.h.
#include "model_check.h"

#include "class_rounding.h"
#include "fail.h"
#include "plan.h"
#include "reference/executor.h"

#include <algorithm>
#include <future>
#include <map>

namespace scoria::validate {
namespace {

/// A float32 PyTorch run of the fixtures stays below 3.1e-5 standard deviations, so 1e-9 (fixtures/MODELS.md,
/// "Tolerances"). One row may be 4 times worse than all together, since rows differ in scale, and one element
/// 8 times worse than its row: beyond 8 standard deviations an error is not one of rounding.
constexpr double exact_nmse = 1e-9, exact_row = 4 * 3.16e-5;
constexpr Bounds exact_bounds{exact_nmse, exact_row, 8 * exact_row};

/// A half errs by 2^-11 / sqrt(3) of itself at most, so a product of two by 2 * 2^-22 / 3 = 1.6e-7 of its
/// size, squared. What later layers make of that is the model's own: of a channel that is 200 where others
/// are 1, as SmolLM2 has one, a hundredfold. So the reference measures it, with operands rounded as the class
/// rounds them, tensor by tensor: bound = float32's + room * E, in squares room^2, where E is the largest of
/// |rounded - exact| over the roundings. The device rounds elsewhere and sums in another order, which makes
/// its error another draw of the same distribution. One channel of one token may hold most of it; then error
/// and E are each one normal number, and of a hundred such draws two lie outside: P(|a| > 4 max(|b|, 2
/// |c|)), c rounded towards zero and so twice as large. The mean of many stays well inside. Kernels at hand
/// reach 0.25 to 0.6 of the bound, which is E itself; halves that lack three bits exceed it.
constexpr double room = 4;

struct Measures {
    double nmse = 0, row = 0, element = 0;
};
Measures largest(const Measures& a, const Measures& b) {
    return {std::max(a.nmse, b.nmse), std::max(a.row, b.row), std::max(a.element, b.element)};
}

Bounds bounds_of(const Measures& rounded) {
    return {exact_bounds.nmse + room * room * rounded.nmse, exact_bounds.worst_row + room * rounded.row,
            exact_bounds.worst_element + room * rounded.element};
}

using Tensors = std::map<TensorId, std::vector<float>>;

void run(const Model& model, reference::Rounding rounding, std::span<const TokenId> ids,
         const reference::Executor::Observer& observer) {
    reference::Executor executor(model, std::move(rounding));
    if (!model.architecture.encoder.empty()) executor.encode(ids, observer);
    executor.forward(ids, reference::Outputs::all, observer);
}

}  // namespace

std::string ModelCheck::name_of_first() const {
    if (!first_diverging) return {};
    const CheckResult& first = ops[*first_diverging];
    return cat(first.op, " -> ", first.variant, ", tensor ", *first_diverging + 1, " of ", ops.size(),
               ": NMSE ", first.nmse, " (bound ", first.bounds.nmse, "), ", first.detail);
}

ModelCheck check_model(const Model& model, std::span<const TokenId> ids, const FetchTensor& fetch,
                       Precision precision, KvType kv) {
    std::vector<std::future<Tensors>> runs;
    for (reference::Rounding& rounding : class_roundings(precision, kv))
        runs.push_back(
            std::async(std::launch::async, [&model, ids, rounding = std::move(rounding)]() mutable {
                Tensors tensors;
                run(model, std::move(rounding), ids,
                    [&](const Graph&, const Op& op, std::span<const double> values) {
                        tensors[output_of(op)].assign(values.begin(), values.end());
                    });
                return tensors;
            }));
    std::vector<Tensors> rounded;
    for (std::future<Tensors>& one : runs) rounded.push_back(one.get());
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
        Measures error;
        for (const Tensors& tensors : rounded) {
            const CheckResult one =
                compare_values({}, {}, {}, expected, tensors.at(id), tensor.cols, exact_bounds);
            error = largest(error, {one.nmse, one.worst_row, one.worst_element});
        }
        const Bounds bounds = bounds_of(error);
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
    run(model, {}, ids, observer);
    return check;
}

ModelCheck check_model(Engine& engine, std::span<const TokenId> ids) {
    Tensors kept;  // fetched at once: later kernels reuse the memory
    Session session(engine);
    const uint32_t segment = engine.model().architecture.memory.segment,
                   most = std::min(
                       {session.head_rows(), engine.memory_plan().chunk, segment ? segment : UINT32_MAX});
    if (ids.size() > most)  // of several batches only the last would be kept
        fail(Status::bad_argument, "validate", "expected at most ", most, " tokens, got ", ids.size());
    session.trace(ids, [&](const PlannedKernel& kernel, const TraceFetch& fetch) {
        for (const TensorId& tensor : kernel.results) kept[tensor] = fetch(tensor);
    });
    const auto fetch = [&](TensorId tensor) {
        const auto found = kept.find(tensor);
        return found == kept.end() ? std::vector<float>{} : found->second;
    };
    return check_model(engine.model(), ids, fetch, engine.options().precision, engine.options().kv_type());
}

}  // namespace scoria::validate
