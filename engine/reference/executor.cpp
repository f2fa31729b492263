// One overload per op; the tensors of a call are kept until its end, so that any of them can be asked for.
#include "executor.h"

#include "attention.h"
#include "elementwise.h"
#include "embed.h"
#include "fail.h"
#include "linear.h"
#include "rms_norm.h"
#include "rope.h"
#include "weights.h"

#include <algorithm>

namespace scoria::reference {

using Values = std::vector<double>;

struct Executor::Step {
    Executor& executor;
    std::span<const TokenId> ids;
    size_t outputs;
    std::vector<Values> tensors;

    const Values& in(TensorId id) const { return tensors[id.index]; }
    Values& out(TensorId id) {
        const GraphTensor& tensor = executor.graph_.tensors[id.index];
        Values& values = tensors[id.index];
        values.resize((tensor.rows == RowKind::tokens ? ids.size() : outputs) * tensor.cols);
        return values;
    }
    uint32_t cols(TensorId id) const { return executor.graph_.tensors[id.index].cols; }

    const TensorView& view(WeightRef ref, uint32_t rows, uint32_t cols) const {
        const auto found = executor.model_.weights.find(ref);
        const std::string where =
            cat("weight ", role_name(ref.role), ref.layer < 0 ? "" : cat(" of layer ", ref.layer));
        if (found == executor.model_.weights.end())
            fail(Status::bad_file, where, "expected a tensor, got none");
        const TensorView& tensor = found->second;
        if (tensor.rows != rows || tensor.cols != cols)
            fail(Status::bad_file, where, "expected [", rows, ", ", cols, "], got [", tensor.rows, ", ",
                 tensor.cols, "]");
        return tensor;
    }
    Rows matrix(WeightRef ref, uint32_t rows, uint32_t cols) const {
        return rows_of(*executor.model_.tensors, view(ref, rows, cols));
    }
    Values vector(WeightRef ref, uint32_t size) const {
        return values_of(*executor.model_.tensors, view(ref, 1, size));
    }

    void run(const op::Embed& op) {
        embed(ids, matrix(op.table, executor.model_.architecture.vocab, cols(op.out)), out(op.out));
    }
    void run(const op::Norm& op) {
        switch (op.kind) {
        case NormKind::rms:
            return rms_norm(in(op.x), vector(op.weight, op.group), double{op.epsilon}, out(op.out));
        }
    }
    void run(const op::Linear& op) {
        const uint32_t rows = cols(op.out);
        const Values bias = op.bias ? vector(*op.bias, rows) : Values{};
        linear(in(op.x), matrix(op.weight, rows, cols(op.x)), bias, out(op.out));
    }
    void run(const op::Rope& op) {
        rope(in(op.x), op.heads, op.head_dim, executor.model_.architecture.rope, executor.length_,
             out(op.out));
    }
    void run(const op::Attention& op) {
        LayerCache& cache = executor.cache_[op.layer];
        append(cache.keys, in(op.k), cols(op.k));
        append(cache.values, in(op.v), cols(op.v));
        attention(in(op.q), cache.keys, cache.values, executor.length_, op.shape, out(op.out));
    }
    void append(Values& cached, const Values& rows, uint32_t cols) const {
        cached.resize(executor.length_ * cols);  // drops what a call that failed half-way left behind
        cached.insert(cached.end(), rows.begin(), rows.end());
    }
    void run(const op::Glu& op) { glu(in(op.gate), in(op.up), op.activation, out(op.out)); }
    void run(const op::Add& op) { add(in(op.a), in(op.b), out(op.out)); }
    void run(const op::SoftCap& op) { soft_cap(in(op.x), double{op.cap}, out(op.out)); }
    void run(const op::Select& op) {
        const Values& x = in(op.x);
        Values& selected = out(op.out);
        std::copy(x.end() - static_cast<std::ptrdiff_t>(selected.size()), x.end(), selected.begin());
    }
};

Executor::Executor(const Model& model)
    : model_(model), graph_(build_graph(model.architecture)), cache_(model.architecture.layers.size()) {}

Result Executor::forward(std::span<const TokenId> ids, Outputs outputs, const Observer& observer) {
    if (ids.empty()) fail(Status::bad_argument, "forward", "expected at least one token id, got none");
    for (const TokenId id : ids)
        if (id < 0 || static_cast<uint32_t>(id) >= model_.architecture.vocab)
            fail(Status::bad_argument, "forward", "expected token ids below ", model_.architecture.vocab,
                 ", got ", id);

    Step step{*this, ids, outputs == Outputs::all ? ids.size() : 1,
              std::vector<Values>(graph_.tensors.size())};
    for (const Op& op : graph_.ops) {
        std::visit([&](const auto& each) { step.run(each); }, op);
        if (observer) observer(graph_, op, step.in(output_of(op)));
    }
    length_ += ids.size();

    Result result{static_cast<uint32_t>(ids.size()), static_cast<uint32_t>(step.outputs), {}, {}, {}};
    result.logits = std::move(step.tensors[graph_.logits.index]);
    result.last_hidden = std::move(step.tensors[graph_.last_hidden.index]);
    for (const TensorId id : graph_.hidden) result.hidden.push_back(std::move(step.tensors[id.index]));
    return result;
}

std::vector<TokenId> Executor::greedy(std::span<const TokenId> prompt, uint32_t count) {
    std::vector<TokenId> chosen;
    std::span<const TokenId> next = prompt;
    while (chosen.size() < count) {
        const Values logits = forward(next, Outputs::last).logits;
        chosen.push_back(
            static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
        next = std::span(chosen).last(1);
    }
    return chosen;
}

void Executor::reset() {
    cache_.assign(cache_.size(), {});
    length_ = 0;
}

}  // namespace scoria::reference
