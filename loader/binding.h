// From the tensors of a file to the weights of an Architecture: a family names the tensor of each role and
// how its rows lie there; shapes are those of role_shapes.h.
#pragma once

#include "gather.h"
#include "role_shapes.h"

#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace scoria {

/// How the rows of a role lie in the stored tensor. R and C are the role's rows and columns, E experts, n =
/// R/E.
enum class Layout : uint8_t {
    as_is,                    // [R, C], or [groups, R / groups, C]
    plus_one,                 // the same; the norm multiplies by 1 + the stored weight
    positions,                // [Architecture::rows_before_positions + R, C], the last R rows
    first_beyond,             // [at most R, C], whose first row stands for those past its end
    transposed,               // [C, R] (Conv1D)
    qkv,                      // all of q, then k, then v
    qkv_transposed,           // the same, as columns
    qkv_grouped,              // per key/value head: its q heads, k, v
    qvk_quarters,             // per quarter of the heads: its q, v, k (CodeGen)
    gate_up,                  // all of gate, then up
    per_expert,               // one tensor [n, C] per expert, or head; '@' in the name is its number
    experts_transposed,       // [E, C, n], or [E C, n]
    experts_gate_up,          // [E, 2n, C]: per expert gate, then up
    experts_gate_up_columns,  // [E, C, 2n]: per expert gate in even columns, up in odd ones
    experts_gate_up_rows,     // [E, 2n, C]: likewise, in rows
    experts_gate_up_halves,   // [E, C, 2n]: per expert columns of gate, then of up
    q_rope_last,              // [R, C], the rotating elements of a head after its others (DeepSeek)
    latent_kv_b,              // per head: rows of its keys, then of its values; [.., kv_rank]
    q_gated,                  // per head: its rows of q, then of the attention's gate
    negative_exp,             // as it is; -exp of each
    negated,                  // as it is; - of each
    mixer,          // of struct Recurrence: gate, channels, steps; input gate, gate, channels (convolution);
                    // channels, gate, and low rank of steps, k, q (selective); per head its gate, then its
                    // channels, and k, q, low rank of steps (projected)
    mixer_grouped,  // per group: its q, k, v and gate; of its heads' vectors: betas, steps (Qwen3-Next); q, k
                    // and v alone (lightning)
    channels,  // of q, k and v one after the other, which the tensors of those three roles hold together,
               // wherever they are cut (transformers saves thirds)
    // From here on the weight is computed from the tensor: position_tables.h.
    buckets,              // [buckets, R]: relative-position buckets, to be expanded by distance; of both
                          // directions, half of them each
    distance_projection,  // [heads * head_dim, hidden]: of sinusoids of the distance
    clipped_offsets,      // [2 span - 1, head_dim]: rows by key minus query
};

/// The name of a role's tensor, '#' standing for the layer. Rows of the same role are alternatives.
struct TensorRow {
    Role role;
    const char* name;
    Layout layout = Layout::as_is;
};

/// How a tensor's name begins, and with what instead, '#' standing for the layer.
struct Renamed {
    const char *from, *to;
};
/// By the first that fits, if any does: then true.
bool rename(StoredTensor& tensor, std::span<const Renamed> names, int32_t layer);

/// Of two tensors that stand for one name. Errors: bad_file, naming both as the file does.
[[noreturn]] void refuse_two(const std::string& format, const StoredTensor& one, const StoredTensor& other);

/// The tensors of a file by name; remembers which were taken.
class Catalog {
  public:
    /// `format` opens messages. Errors: bad_file, for two tensors of one name.
    Catalog(std::string format, std::vector<StoredTensor> tensors);
    /// Whether no tensor has it; names are then looked up without it too.
    bool set_prefix(std::string prefix);
    const std::string& format() const { return format_; }
    const StoredTensor* find(const std::string& name) const;
    const StoredTensor* take(const std::string& name);
    std::vector<TensorView> rest() const;

  private:
    std::string format_, prefix_;
    std::map<std::string, StoredTensor> tensors_;
    std::set<std::string> taken_;
};

/// Weights that no file holds, by role: ALiBi's slopes, sinusoidal positions, zero sinks. They are made in
/// their role's turn, when tensors have proven the sizes that come before.
using Synthesised = std::map<WeightRef, std::function<std::vector<float>()>>;
/// The same number `count` times.
inline std::function<std::vector<float>()> repeated(uint32_t count, float value) {
    return [=] { return std::vector<float>(count, value); };
}

struct BoundWeights {
    Weights weights;
    std::vector<GatherRecipe> recipes;
};

struct Laid {
    std::vector<uint64_t> expected;  // shape of the stored tensor
    std::vector<Strip> strips;       // without file and offset
};

/// How a role's matrix [rows, cols] lies in a stored one.
Laid lay_matrix(Role role, uint64_t rows, uint64_t cols, Layout layout, const Layer& layer);

/// "[2, 3]"
std::string shape_text(std::span<const uint64_t> shape);

/// "model.layers.3.mlp.up.weight" of "model.layers.#.mlp.up.weight".
std::string tensor_name(std::string_view pattern, int32_t layer, uint32_t expert = 0);

/// Finds every weight that the architecture has, those of its encoder by rows of their own. `source` reads
/// the tables that are expanded. Errors: bad_file for a tensor that is missing or of another shape (name,
/// expected, got); unsupported for a type that cannot be laid out so.
BoundWeights bind_weights(const Architecture& architecture, std::span<const std::span<const TensorRow>> rows,
                          std::span<const std::span<const TensorRow>> encoder_rows,
                          const Synthesised& synthesised, Catalog& catalog, const GatheredTensors& source);

}  // namespace scoria
