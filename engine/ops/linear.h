// out = scale act(x W^T (+ bias)) (+ residual), or act(gate) * up where the rows of W interleave gate and up.
#pragma once

#include "op.h"
#include "rope.h"
#include "shaders.h"
#include "weight_stream.h"

#include <optional>
#include <string>

namespace scoria {

struct RmsNorm {
    vk::View weight;  // [cols] float32
    float epsilon;
};

/// Rows that are heads of q | k | v: what record_rope_cache() would do to them next is done on the way, of
/// variants that ends_heads(). Queries stand in `out` then, keys and values in the cache alone.
struct LinearHeads {
    const RopeCacheArgs& rope;
    uint32_t first_row;    // of q | k | v
    uint32_t first_token;  // of the batch
};

/// A mixture's: the weight is [experts * rows, cols], and each token uses `used` of the experts.
struct LinearExperts {
    std::optional<Matrix> routes;  // as of RouteArgs; none: slot s goes to expert s
    uint32_t experts, used;
    uint32_t slot_stride;  // words of x between what they multiply of a token; 0 if it is the same
    /// Of the tiles of an expert's rows those that are made, of sorted variants; 0: all.
    uint32_t first_tile = 0, tiles = 0;
};

struct LinearArgs {
    Matrix x, out;  // [tokens, cols], [tokens, rows] (GLU: [tokens, rows / 2])
    const DeviceWeight& weight;
    const vk::View* bias = nullptr;    // [rows] float32
    const Matrix* residual = nullptr;  // shape of out, added last; may be out itself
    /// x is RMS-normalised first (Zhang and Sennrich 2019): of variants that folds_norm() and without a
    /// residual.
    std::optional<RmsNorm> norm{};
    std::optional<LinearHeads> heads{};  // without a residual
    /// Of expert_linear_variants(). out: [tokens, used * rows], bias: [experts * rows]; no residual, no norm.
    std::optional<LinearExperts> experts{};
    bool glu = false;  // shards start at even rows then
    bool activate = false;
    /// Better the model's one also where it is not applied: all its linears share pipelines then.
    Activation activation = Activation::silu;
    float scale = 1;
    vk::View scratch{};  // of linear_scratch_bytes(), or of expert_scratch_bytes()
    /// For a weight on the host; `after`, if not null, is fetched next when this one is through.
    WeightStream* stream = nullptr;
    const DeviceWeight::Shard* after = nullptr;
};

struct LinearShape {
    uint32_t tokens, rows, cols;
    TensorType type;
    Precision precision = Precision::strict;
    auto operator<=>(const LinearShape&) const = default;
};

/// Of a mixture's experts, of which each token uses `used`.
struct ExpertShape {
    uint32_t tokens, experts, used;
    uint32_t rows, cols;  // of one expert
    TensorType type;
    bool per_slot = false;  // a token has a row of x for each that it uses
    bool heads = false;     // no routes: a token uses all, one after the other
    Precision precision = Precision::strict;
    auto operator<=>(const ExpertShape&) const = default;
};

inline const char* op_name(const ExpertShape& shape) { return shape.heads ? "head_linear" : "expert_linear"; }

/// Of linear_compact.comp, for CPU drivers.
constexpr bool is_compact(Shader shader) {
    return shader == Shader::linear_vec_sg_compact || shader == Shader::linear_vec_sg_grid ||
           shader == Shader::linear_vec_sg_texels;
}
/// Of linear_group.comp.
constexpr bool is_linear_group(Shader shader) {
    return shader == Shader::linear_group || shader == Shader::linear_group_int ||
           shader == Shader::linear_group_wide;
}

struct LinearVariant {
    Shader shader;
    uint32_t workgroup;     // invocations
    uint32_t tokens, rows;  // computed by one workgroup
    // linear_vec and linear_group alone: lanes of a logical subgroup (linear_coop and linear_coop2 too),
    // tokens (linear_tile_int and linear_tile_half too) and row pairs of a lane, subgroups sharing the
    // columns (linear_coop and linear_coop2 too)
    uint32_t subgroup = 0, lane_tokens = 0, lane_pairs = 0, parts = 0;
    // linear_coop and linear_coop2 alone: of the workgroup's tile, what one subgroup computes, or, with
    // `whole`, the workgroup as one
    uint32_t part_rows = 0, part_tokens = 0;
    bool whole = false;
    // of kernels that make tiles: parts of the columns, by a workgroup each, which a second dispatch joins
    uint32_t splits = 1;
    // of experts alone: tokens are sorted by expert first, and a workgroup has those of one
    // (expert_sort.comp)
    bool sorted = false;
    std::string name;  // for reports
    /// What x is packed to before the kernel reads it.
    enum class Operands : uint8_t { floats, halves, bytes };
    Operands operands() const;
    bool grouped() const { return is_linear_group(shader); }
    /// Of linear_coop and linear_coop2: each part has the tile as one subgroup's.
    bool deep() const { return part_rows != 0 && parts > 1; }
    /// Steps between 0 and the largest of 32 columns of x where it makes whole numbers of these as it goes
    /// (byte_operands.glsl); else 0.
    uint32_t x_levels() const;
    /// Of what an expert's rows must be whole ones: rows of a lane, of a group, or of the layout's groups.
    uint32_t expert_rows() const;
    /// Whether it takes LinearArgs::norm of so many tokens: of one, or where x becomes halves first.
    bool folds_norm(uint32_t batch) const {
        return operands() == Operands::halves ||
               (lane_pairs != 0 && operands() == Operands::floats && batch == 1 && lane_tokens == 1);
    }
};

/// The variants valid on a device for a shape and its precision class, default first. Pure.
std::vector<LinearVariant> linear_variants(const vk::Caps& caps, const LinearShape& shape);
/// The same, and sizes of linear_vec beyond: what is worth timing where that can be done
/// (instruments/tune.h).
std::vector<LinearVariant> linear_candidates(const vk::Caps& caps, const LinearShape& shape);

/// How LinearArgs::experts are multiplied, default first: direct, by tiles of tokens that are sorted, or by
/// Shader::linear_expert, which is record_expert_linear()'s alone.
std::vector<LinearVariant> expert_linear_variants(const vk::Caps& caps, const ExpertShape& shape);
/// The same, and sizes beyond, as linear_candidates().
std::vector<LinearVariant> expert_candidates(const vk::Caps& caps, const ExpertShape& shape);

/// Whether the variant takes LinearArgs::heads that rotate so: by pairs of neighbouring dims, without norms,
/// for a cache that holds exact numbers in one shard.
bool ends_heads(const LinearVariant& variant, const RopeShape& rope);

/// What LinearArgs::scratch must hold, packed x first: 0 if the variant needs none.
uint64_t linear_scratch_bytes(const LinearVariant& variant, uint32_t tokens, uint32_t rows, uint32_t cols);
/// The same of a mixture's experts, packed x and lists.
uint64_t expert_scratch_bytes(const LinearVariant& variant, const ExpertShape& shape);

/// Records one dispatch per shard, after one that packs x where operands are not floats and one that sorts
/// tokens by expert where the variant wants that, and before one that joins the parts where the columns are
/// split.
void record_linear(OpContext& context, const LinearArgs& args, const LinearVariant& variant);

}  // namespace scoria
