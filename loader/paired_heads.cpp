#include "paired_heads.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

namespace scoria {
namespace {

/// A model's tensors, of which some have their heads in the order of pairs.
class PairedTensors final : public TensorSource {
  public:
    explicit PairedTensors(std::shared_ptr<const TensorSource> base) : base_(std::move(base)) {}
    /// The view that reads `tensor` so, of whose heads of `head_dim` rows `width` rotate.
    TensorView add(const TensorView& tensor, uint32_t head_dim, uint32_t width) {
        all_.push_back({tensor, head_dim, width});
        TensorView view = tensor;
        view.file = file;
        view.recipe = int32_t(all_.size() - 1);
        return view;
    }
    void read(const TensorView& tensor, uint64_t first, std::span<std::byte> out) const override;

  private:
    static constexpr uint32_t file = UINT32_MAX - 1;  // no other source's
    struct Paired {
        TensorView stored;
        uint32_t head_dim, width;
    };
    std::shared_ptr<const TensorSource> base_;
    std::vector<Paired> all_;
};

void PairedTensors::read(const TensorView& tensor, uint64_t first, std::span<std::byte> out) const {
    if (tensor.file != file) return base_->read(tensor, first, out);
    const auto& [stored, head_dim, width] = all_.at(size_t(tensor.recipe));
    const bool is_vector = stored.rows == 1;
    const uint64_t row_bytes = is_vector ? stored.row_bytes() / stored.cols : stored.row_bytes();
    const uint64_t head_bytes = head_dim * row_bytes, end = first + out.size();
    // Whole heads: a positioned read per row would take longer than what is read too much.
    const uint64_t from = first / head_bytes * head_bytes;
    std::vector<std::byte> heads((end - from + head_bytes - 1) / head_bytes * head_bytes);
    base_->read(stored, from, heads);
    for (uint64_t at = first; at < end;) {
        const uint64_t row = at / row_bytes, in_head = row % head_dim, in_row = at % row_bytes;
        const uint64_t stored_row = row - in_head + row_of_halves(in_head, width);
        const uint64_t bytes = std::min(row_bytes - in_row, end - at);
        std::memcpy(&out[at - first], &heads[stored_row * row_bytes + in_row - from], bytes);
        at += bytes;
    }
}

bool rotates_halves(const Architecture& architecture, const Attention& attention) {
    return attention.rope >= 0 && architecture.ropes[size_t(attention.rope)].pairs == RopePairs::halves;
}

/// Whether its rows are those of queries or keys.
bool is_of_heads(const WeightRef& ref) {
    constexpr std::array roles{Role::q, Role::k, Role::q_bias, Role::k_bias};
    return !ref.encoder && ref.part != WeightPart::a && std::ranges::find(roles, ref.role) != roles.end();
}

bool has_plain_heads(const Architecture& architecture, const Attention& attention) {
    const int32_t of_keys = attention.kv_layer;
    return attention.qk_norm.group == QkNorm::Group::none && attention.latent.kv_rank == 0 &&
           !attention.global_tokens &&
           (of_keys < 0 || architecture.layers[size_t(of_keys)].attention.rope == attention.rope);
}

}  // namespace

std::shared_ptr<const Model> with_paired_heads(std::shared_ptr<const Model> model) {
    const Architecture& architecture = model->architecture;
    const auto turns = [&](const Layer& layer) { return rotates_halves(architecture, layer.attention); };
    const auto may_turn = [&](const Layer& layer) {
        return !turns(layer) || has_plain_heads(architecture, layer.attention);
    };
    if (std::ranges::none_of(architecture.layers, turns) ||
        !std::ranges::all_of(architecture.layers, may_turn))
        return model;

    const auto paired = std::make_shared<Model>(*model);
    const auto tensors = std::make_shared<PairedTensors>(model->tensors);
    for (auto& [ref, view] : paired->weights) {
        if (!is_of_heads(ref)) continue;
        const Layer& layer = architecture.layers[size_t(ref.layer)];
        if (turns(layer))
            view = tensors->add(view, layer.attention.head_dim,
                                architecture.ropes[size_t(layer.attention.rope)].width);
    }
    for (Rope& rope : paired->architecture.ropes) rope.pairs = RopePairs::interleaved;
    paired->tensors = tensors;
    return paired;
}

}  // namespace scoria
