// The class behind make_plan; for plan.cpp and plan_attention.cpp only.
#pragma once

#include "fail.h"
#include "plan.h"

#include <algorithm>

namespace scoria {

/// Turns ops into kernels, pattern by pattern.
class Planner {
  public:
    Planner(const Graph& graph, const Architecture& architecture, const Weights& weights, bool fusion)
        : graph_(graph), architecture_(architecture), weights_(weights), fusion_(fusion) {
        plan_.placements.resize(graph.tensors.size());
        last_reader_.resize(graph.tensors.size());
        readers_.resize(graph.tensors.size());
        for (size_t i = 0; i < graph.ops.size(); ++i)
            for (const TensorId t : inputs_of(graph.ops[i])) last_reader_[t.index] = i, ++readers_[t.index];
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

    /// One kernel for linears of one input and type whose results stand side by side.
    void one_below_another(std::span<const op::Linear* const> parts);
    size_t qkv_linear(size_t i);
    size_t norm_rope_attention(size_t i);
    size_t rope_attention(size_t i);
    size_t index_linear(size_t i);
    size_t choose(size_t i);
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
    size_t hash(size_t i);
    size_t mixer_linears(size_t i);
    size_t convolve(size_t i);
    size_t shift(size_t i);
    size_t columns(size_t i);
    size_t scan(size_t i);
    size_t wkv(size_t i);
    size_t add(size_t i);
    bool adds_in_place(const op::Add& add, TensorId x, size_t i) const;
    size_t expert_sum(size_t i);
    size_t expert_sum_add(size_t i);
    /// An op that is its own kernel.
    template <class T> size_t as_is(size_t i);

    size_t emit_rope_attention(size_t i, const op::Norm* q_norm, const op::Norm* k_norm);
    /// Norms that the kernel which rotates can apply: RMS over heads, weights shared by them; else 0 taken.
    size_t head_norms(size_t i, const op::Norm*& q_norm, const op::Norm*& k_norm) const;
    /// The v of the Attention whose q, k and v the Linear from i on make, if they do; v may be a norm of k.
    std::optional<TensorId> v_of(size_t i) const;
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
    void define(std::span<const TensorId> tensors);
    void define(std::initializer_list<TensorId> tensors) {
        define(std::span(tensors.begin(), tensors.size()));
    }
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
    /// Marks the norms, and the rotations of heads, that linears may take over.
    void fold_norms();
    void fold_heads();
    /// Whether no op after position `after` reads t: then its memory may be overwritten in place.
    bool last_use(TensorId t, size_t after) const { return last_reader_[t.index] <= after; }

    const Graph& graph_;
    const Architecture& architecture_;
    const Weights& weights_;
    const bool fusion_;
    std::vector<size_t> last_reader_;  // op, by tensor
    std::vector<size_t> readers_;      // how many ops, by tensor
    Plan plan_;
    std::string_view pattern_;
    int32_t layer_ = -1;
};

}  // namespace scoria
