// Records the kernels of a plan for one batch of tokens: binds each kernel's tensors to the arena, picks
// its variant and lets the op record it.
#pragma once

#include "device_model.h"
#include "kv_cache.h"
#include "ops/choices.h"
#include "ops/weight_stream.h"
#include "plan.h"

#include <algorithm>
#include <map>

namespace scoria {

/// Words of the step buffer (shaders/step.h) for up to `tokens` tokens, `outputs` outputs, block tables of
/// `blocks` entries and, where there are recurrences, `pieces` pieces.
struct StepLayout {
    uint32_t tokens = 0, outputs = 0, blocks = 0, pieces = 0;
    /// Of so many sequences, a block table and a piece each.
    StepLayout of(uint32_t sequences) const {
        return {tokens, outputs, blocks * sequences, pieces * sequences};
    }
    uint32_t outputs_word() const;
    uint32_t table_word() const { return outputs_word() + outputs; }
    uint32_t pieces_word() const { return table_word() + blocks; }
    uint32_t words() const;
};

/// Bytes that single ops of a batch keep for themselves.
struct Scratch {
    uint64_t linear = 0;    // packed operands, sums of parts, lists of experts
    uint64_t partials = 0;  // split attention's
    void raise(const Scratch& other) {
        linear = std::max(linear, other.linear);
        partials = std::max(partials, other.partials);
    }
};

/// Buffers that a session computes in.
struct Workspace {
    StepLayout layout;
    vk::Buffer step;
    vk::Buffer arena;
    Arena placement;    // by storage of the plan; the logits' storage is not in it
    vk::Buffer logits;  // [outputs, vocab]
    /// Rotary tables by rope where they depend on the sequence's length; else empty: the model's serve.
    std::vector<vk::Buffer> ropes;
    vk::Buffer slots;  // of weights that stand in host memory (weight_stream.h); empty if none does
    vk::Buffer scratch, partials;      // Scratch's; empty if no op needs it
    const Choices* choices = nullptr;  // the engine's
};

/// Of a model's heads, for a cache in one shard.
RopeShape rope_shape(const kernel::RopeCache& k, const Architecture& architecture, KvType type);

/// Of so many tokens.
ExpertShape expert_shape(const Plan& plan, const Graph& graph, const kernel::ExpertLinear& k,
                         uint32_t tokens);

/// Whose tokens a batch has: those of one sequence, by its place in the cache, or of so many.
struct Sequences {
    std::optional<uint32_t> one = 0;
    uint32_t count = 1;
};

/// A batch: `tokens` rows of the workspace, of which `outputs` get logits.
class Batch {
  public:
    Batch(const DeviceModel& model, const KvCache& cache, const Workspace& workspace, uint32_t tokens,
          uint32_t outputs, Sequences sequences = {})
        : model_(model), cache_(cache), workspace_(workspace), tokens_(tokens), outputs_(outputs),
          sequences_(sequences), stream_(workspace.slots.view()) {}

    uint32_t tokens() const { return tokens_; }

    /// From here on linears normalise x themselves where all that read a norm can, and rotate heads and fill
    /// the cache where all that make q, k and v can: what is folded makes no tensor of its own. Not where
    /// variants are pinned: steps have the bits of prompts then.
    void fold_step() { fold(true); }
    /// The same of a chunk of a prompt, but for the model's last norm, whose result Session::share() may be
    /// asked for. A chunk of one token folds nothing: it has the bits of one whose tensors are captured.
    void fold_chunk() {
        if (tokens_ > 1) fold(false);
    }
    /// Records kernel `index` of the plan. In order, and on one queue: weights on the host are on their way
    /// from one kernel to the next.
    void record(vk::Recorder& recorder, size_t index) { record(recorder, {.kernel = index}); }
    /// Predicted cost of kernel `index`: multiply-adds plus bytes of weights and cache read.
    double cost(const vk::Caps& caps, size_t index, uint32_t positions) const;

    /// A kernel, or one that costs too much in parts: of a linear and an attention, rows one after the
    /// other, with the same results bit for bit; of sorted experts tiles of their weights' rows, of others
    /// rows of tokens.
    struct Part {
        size_t kernel = 0;
        uint32_t first_row = 0, rows = 0;  // 0: all
        double cost = 0;
        bool last = true;  // of its kernel
    };
    /// Kernels [first, end) in parts that cost `most` where that can be.
    std::vector<Part> parts(const vk::Caps& caps, size_t first, size_t end, uint32_t positions,
                            double most) const;
    void record(vk::Recorder& recorder, const Part& part);
    /// Records, behind kernel `index`, an attention: what the heads of the batch's last token attend to, in
    /// `map` [heads, positions so far].
    void record_attended(vk::Recorder& recorder, size_t index, const vk::View& map) const;
    /// Where a tensor of the graph stands. Undefined for tensors that were fused away.
    Matrix matrix(TensorId tensor) const;
    std::optional<Matrix> matrix(std::optional<TensorId> tensor) const {
        return tensor ? std::optional(matrix(*tensor)) : std::nullopt;
    }

  private:
    void record(OpContext& context, const kernel::Embed& k) const;
    void record(OpContext& context, const kernel::Norm& k) const;
    void record(OpContext& context, const kernel::Linear& k);
    void record(OpContext& context, const kernel::RopeCache& k) const;
    void record(OpContext& context, const kernel::Attention& k) const;
    void record(OpContext& context, const kernel::Glu& k) const;
    void record(OpContext& context, const kernel::Add& k) const;
    void record(OpContext& context, const kernel::Map& k) const;
    void record(OpContext& context, const kernel::Select& k) const;
    void record(OpContext& context, const kernel::Route& k) const;
    void record(OpContext& context, const kernel::ExpertLinear& k) const;
    void record(OpContext& context, const kernel::ExpertSum& k) const;
    void record(OpContext& context, const kernel::Pack& k) const;
    void record(OpContext& context, const kernel::Mix& k) const;
    void record(OpContext& context, const kernel::Gate& k) const;
    void record(OpContext& context, const kernel::Hash& k) const;
    void record(OpContext& context, const kernel::Sort& k) const;
    void record(OpContext& context, const kernel::ChunkAttention& k) const;
    void record(OpContext& context, const kernel::Choose& k) const;
    void record(OpContext& context, const kernel::Convolve& k) const;
    void record(OpContext& context, const kernel::Shift& k) const;
    void record(OpContext& context, const kernel::Scan& k) const;
    void record(OpContext& context, const kernel::Wkv& k) const;
    Pieces pieces() const { return {sequences_.count, workspace_.layout.pieces_word()}; }
    const Choices& choices() const { return *workspace_.choices; }
    void fold(bool last_norm) {
        folding_ = !choices().pinned;
        folds_last_norm_ = last_norm;
    }
    /// Of rows [first, first + count) of the batch; 0: all.
    AttentionArgs args_of(const kernel::Attention& k, uint32_t first, uint32_t count) const;
    AttentionShape shape_of(const kernel::Attention& k) const;
    LinearShape shape_of(const kernel::Linear& k) const;
    /// What choices() say of it, asked once for each shape: they weigh many variants.
    const LinearVariant& variant_of(const vk::Caps& caps, const kernel::Linear& k) const;
    const LinearVariant& variant_of(const vk::Caps& caps, const kernel::ExpertLinear& k) const;
    const AttentionVariant& variant_of(const vk::Caps& caps, const kernel::Attention& k) const;
    bool folds(const vk::Caps& caps, const kernel::Norm& k) const;
    bool folds(const vk::Caps& caps, const kernel::RopeCache& k) const;
    RopeCacheArgs args_of(const kernel::RopeCache& k) const;
    /// Rows of a kernel's result, cut at multiples of `least` only; without any it is not cut.
    struct Tiles {
        uint32_t rows = 0, least = 1;
    };
    Tiles tiles_of(const vk::Caps& caps, size_t index) const;
    /// Those of the part being recorded.
    Matrix rows(const Matrix& whole) const {
        return part_.rows ? whole.row_range(part_.first_row, part_.rows) : whole;
    }
    vk::View scratch() const { return workspace_.scratch ? workspace_.scratch.view() : vk::View(); }
    std::optional<vk::View> vector(std::optional<VectorId> id) const {
        return id ? std::optional(model_.vector(*id)) : std::nullopt;
    }
    /// The shard that the next linear behind kernel `index` brings over the bus, or null.
    const DeviceWeight::Shard* next_over_bus(size_t index) const;

    mutable std::map<LinearShape, LinearVariant> linear_variants_;
    mutable std::map<ExpertShape, LinearVariant> expert_variants_;
    mutable std::map<CachedAttention, AttentionVariant> attention_variants_;
    const DeviceModel& model_;
    const KvCache& cache_;
    const Workspace& workspace_;
    uint32_t tokens_, outputs_;
    Sequences sequences_;
    WeightStream stream_;
    Part part_;  // being recorded
    bool folding_ = false, folds_last_norm_ = false;
};

}  // namespace scoria
