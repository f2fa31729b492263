// See synthetic_model.h.
#include "instruments/synthetic_model.h"

#include "fail.h"
#include "validate/weight_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace scoria {
namespace {

/// Llama 3's own, but for those below 1B, which are for tests and for lines through their times: rows of a
/// multiple of 256, as k-quants want them.
struct SyntheticSize {
    const char* name;
    uint32_t hidden, layers, heads, kv_heads, head_dim, feed_forward, vocab;
    bool tied;
};
constexpr SyntheticSize synthetic_table[] = {
    {"0.02B", 256, 4, 4, 2, 64, 768, 8192, true},        {"0.1B", 768, 12, 12, 4, 64, 2048, 8192, true},
    {"0.4B", 1536, 16, 24, 8, 64, 4096, 8192, true},     {"1B", 2048, 16, 32, 8, 64, 8192, 128256, true},
    {"3B", 3072, 28, 24, 8, 128, 8192, 128256, true},    {"8B", 4096, 32, 32, 8, 128, 14336, 128256, false},
    {"70B", 8192, 80, 64, 8, 128, 28672, 128256, false},
};

/// Pseudo-random blocks of one type over and over; each tensor begins elsewhere in them.
class SyntheticTensors : public TensorSource {
  public:
    SyntheticTensors(TensorType type, uint32_t cols)
        : matrix_(validate::random_blocks(type, rows, cols, 1)) {}

    void read(const TensorView& tensor, uint64_t first, std::span<std::byte> out) const override {
        if (tensor.rows == 1) {
            const float one = 1;
            for (uint64_t i = 0; i < out.size(); ++i)
                out[i] = reinterpret_cast<const std::byte*>(&one)[(first + i) % sizeof one];
            return;
        }
        for (uint64_t at = tensor.offset + first; !out.empty();) {
            at %= matrix_.size();
            const size_t count = std::min<size_t>(out.size(), matrix_.size() - at);
            std::memcpy(out.data(), &matrix_[at], count);
            out = out.subspan(count);
            at += count;
        }
    }

  private:
    static constexpr uint32_t rows = 61;  // a prime, so that columns do not repeat together
    std::vector<std::byte> matrix_;       // whole blocks
};

Architecture llama_of(const SyntheticSize& size) {
    Layer layer;
    layer.attention.heads = size.heads;
    layer.attention.kv_heads = size.kv_heads;
    layer.attention.head_dim = size.head_dim;
    layer.attention.scale = float(1 / std::sqrt(double(size.head_dim)));
    layer.feed_forward.size = size.feed_forward;
    Rope rope{.pairs = RopePairs::interleaved, .width = size.head_dim};  // as GGUF files have them
    for (uint32_t i = 0; i < size.head_dim / 2; ++i)
        rope.inverse_frequencies.push_back(std::pow(500000.0, -2.0 * i / size.head_dim));
    Architecture architecture;
    architecture.family = "llama";
    architecture.vocab = size.vocab;
    architecture.hidden = size.hidden;
    architecture.context = 131072;
    architecture.norm.epsilon = 1e-5f;
    architecture.tied_embeddings = size.tied;
    architecture.ropes = {rope};
    architecture.layers.assign(size.layers, layer);
    return architecture;
}

}  // namespace

std::string synthetic_sizes() {
    std::string all;
    for (const SyntheticSize& size : synthetic_table) all += cat(all.empty() ? "" : ", ", size.name);
    return all;
}

Model synthetic_model(const std::string& name, TensorType type) {
    const auto* size = std::ranges::find(synthetic_table, name, &SyntheticSize::name);
    if (size == std::end(synthetic_table))
        fail(Status::bad_argument, "synthetic", "expected a size (", synthetic_sizes(), "), got '", name,
             "'");
    Model model;
    model.name = cat("synthetic ", name, " ", tensor_type_info(type).name);
    model.path = model.name;
    model.architecture = llama_of(*size);
    const auto add = [&](Role role, int32_t layer, uint32_t rows, uint32_t cols) {
        const TensorType own = rows == 1 ? TensorType::f32 : type;
        const uint64_t offset = model.weights.size() * uint64_t{1021} * tensor_type_info(own).block_bytes;
        model.weights[{role, layer}] = {cat(role_name(role), " ", layer), own, rows, cols, 0, offset, -1};
    };
    const uint32_t q = size->heads * size->head_dim, kv = size->kv_heads * size->head_dim;
    add(Role::token_embedding, -1, size->vocab, size->hidden);
    add(Role::output_norm, -1, 1, size->hidden);
    if (!size->tied) add(Role::output, -1, size->vocab, size->hidden);
    for (int32_t layer = 0; layer < int32_t(size->layers); ++layer) {
        add(Role::attention_norm, layer, 1, size->hidden);
        add(Role::q, layer, q, size->hidden);
        add(Role::k, layer, kv, size->hidden);
        add(Role::v, layer, kv, size->hidden);
        add(Role::o, layer, size->hidden, q);
        add(Role::feed_forward_norm, layer, 1, size->hidden);
        add(Role::gate, layer, size->feed_forward, size->hidden);
        add(Role::up, layer, size->feed_forward, size->hidden);
        add(Role::down, layer, size->hidden, size->feed_forward);
    }
    model.tensors = std::make_shared<SyntheticTensors>(type, size->hidden);
    return model;
}

}  // namespace scoria
