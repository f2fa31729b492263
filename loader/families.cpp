#include "families.h"

#include "fail.h"
#include "model.h"

#include <cmath>
#include <numbers>
#include <set>

namespace scoria {
namespace {

constexpr uint64_t most_layers = 4096;  // caps that keep every later product far below 2^64
constexpr uint64_t most_size = 1 << 28;

enum class Size : uint8_t { one, vocab, hidden, heads_width, kv_heads_width, head_dim, feed_forward };
enum class Presence : uint8_t { required, optional };

struct RoleRow {
    Role role;
    const char* name;  // of a layer's tensor without "blk.N.", else the whole name
    bool of_layer;
    Size rows, cols;
    Presence presence;
};

constexpr RoleRow decoder_rows[] = {
    {Role::token_embedding, "token_embd.weight", false, Size::vocab, Size::hidden, Presence::required},
    {Role::output_norm, "output_norm.weight", false, Size::one, Size::hidden, Presence::required},
    {Role::output, "output.weight", false, Size::vocab, Size::hidden, Presence::optional},
    {Role::attention_norm, "attn_norm.weight", true, Size::one, Size::hidden, Presence::required},
    {Role::q, "attn_q.weight", true, Size::heads_width, Size::hidden, Presence::required},
    {Role::k, "attn_k.weight", true, Size::kv_heads_width, Size::hidden, Presence::required},
    {Role::v, "attn_v.weight", true, Size::kv_heads_width, Size::hidden, Presence::required},
    {Role::o, "attn_output.weight", true, Size::hidden, Size::heads_width, Presence::required},
    {Role::feed_forward_norm, "ffn_norm.weight", true, Size::one, Size::hidden, Presence::required},
    {Role::gate, "ffn_gate.weight", true, Size::feed_forward, Size::hidden, Presence::required},
    {Role::up, "ffn_up.weight", true, Size::feed_forward, Size::hidden, Presence::required},
    {Role::down, "ffn_down.weight", true, Size::hidden, Size::feed_forward, Presence::required},
};

constexpr RoleRow optional_bias_rows[] = {
    {Role::q_bias, "attn_q.bias", true, Size::one, Size::heads_width, Presence::optional},
    {Role::k_bias, "attn_k.bias", true, Size::one, Size::kv_heads_width, Presence::optional},
    {Role::v_bias, "attn_v.bias", true, Size::one, Size::kv_heads_width, Presence::optional},
    {Role::o_bias, "attn_output.bias", true, Size::one, Size::hidden, Presence::optional},
};

constexpr RoleRow qkv_bias_rows[] = {
    {Role::q_bias, "attn_q.bias", true, Size::one, Size::heads_width, Presence::required},
    {Role::k_bias, "attn_k.bias", true, Size::one, Size::kv_heads_width, Presence::required},
    {Role::v_bias, "attn_v.bias", true, Size::one, Size::kv_heads_width, Presence::required},
};

constexpr RoleRow qk_norm_rows[] = {
    {Role::q_norm, "attn_q_norm.weight", true, Size::one, Size::head_dim, Presence::required},
    {Role::k_norm, "attn_k_norm.weight", true, Size::one, Size::head_dim, Presence::required},
};

struct Family {
    const char* name;  // general.architecture
    RopePairs pairs;
    std::span<const RoleRow> more;  // beside decoder_rows
};

constexpr Family families[] = {
    {"llama", RopePairs::interleaved, optional_bias_rows},  // Mistral and SmolLM2 as well
    {"qwen2", RopePairs::halves, qkv_bias_rows},
    {"qwen3", RopePairs::halves, qk_norm_rows},
};

// Keys that change the result and that no enum stands for yet: refused, since ignoring one is a silent wrong
// answer.
constexpr const char* refused_keys[] = {
    "attention.scale",          "attention.clamp_kqv",
    "attention.max_alibi_bias", "attention.sliding_window_pattern",
    "attn_logit_softcapping",   "logit_scale",
    "embedding_scale",          "residual_scale",
    "rope.scaling.attn_factor", "expert_count",
};

const Family& find_family(const GgufMetadata& metadata) {
    const std::string* name = metadata.text("general.architecture");
    if (name == nullptr) fail(Status::bad_file, "gguf", "general.architecture is missing");
    std::string known;
    for (const Family& family : families) {
        if (*name == family.name) return family;
        known += cat(known.empty() ? "" : ", ", family.name);
    }
    fail(Status::unsupported, "gguf", "general.architecture: expected one of ", known, ", got ", *name);
}

/// The keys of one architecture, checked for range.
class Keys {
  public:
    Keys(const GgufMetadata& metadata, std::string_view architecture)
        : metadata_(metadata), prefix_(cat(architecture, ".")) {}

    std::string name(std::string_view key) const { return cat(prefix_, key); }
    bool has(std::string_view key) const { return metadata_.has(name(key)); }
    const std::string* text(std::string_view key) const { return metadata_.text(name(key)); }

    /// A size from 1 to `most`; without a fallback the key is required.
    uint32_t size(std::string_view key, uint64_t most, std::optional<uint64_t> fallback = {}) const {
        const std::optional<uint64_t> value = metadata_.integer(name(key));
        if (!value && !fallback) fail(Status::bad_file, "gguf", name(key), " is missing");
        const uint64_t chosen = value ? *value : *fallback;
        if (chosen < 1 || chosen > most) {
            fail(Status::bad_file, "gguf", name(key), ": expected 1 to ", most, ", got ", chosen);
        }
        return static_cast<uint32_t>(chosen);
    }

    /// A finite number above 0; `fallback`, whatever it is, where the file has none.
    double positive(std::string_view key, std::optional<double> fallback = {}) const {
        const std::optional<double> value = metadata_.number(name(key));
        if (!value && fallback) return *fallback;
        if (!value) fail(Status::bad_file, "gguf", name(key), " is missing");
        if (!std::isfinite(*value) || *value <= 0) {
            fail(Status::bad_file, "gguf", name(key), ": expected a finite number above 0, got ", *value);
        }
        return *value;
    }

    void refuse_unknown() const {
        for (const char* key : refused_keys) {
            const std::string full = name(key);
            if (!metadata_.has(full)) continue;
            if (std::string_view(key) == "expert_count" && metadata_.integer(full) == 0u) continue;
            fail(Status::unsupported, "gguf", full, ": this build cannot honour it");
        }
        if (!metadata_.boolean(name("attention.causal")).value_or(true)) {
            fail(Status::unsupported, "gguf", name("attention.causal"), ": expected true");
        }
    }

  private:
    const GgufMetadata& metadata_;
    std::string prefix_;
};

Attention read_attention(const Keys& keys, uint32_t hidden) {
    Attention attention;
    attention.heads = keys.size("attention.head_count", 1 << 16);
    attention.kv_heads = keys.size("attention.head_count_kv", 1 << 16, attention.heads);
    if (attention.heads % attention.kv_heads != 0) {
        fail(Status::bad_file, "gguf", keys.name("attention.head_count_kv"), ": expected a divisor of ",
             attention.heads, " heads, got ", attention.kv_heads);
    }
    if (!keys.has("attention.key_length") && hidden % attention.heads != 0) {
        fail(Status::bad_file, "gguf", keys.name("attention.head_count"), ": expected a divisor of ", hidden,
             ", got ", attention.heads);
    }
    attention.head_dim = keys.size("attention.key_length", 1 << 12, hidden / attention.heads);
    const uint32_t value_dim = keys.size("attention.value_length", 1 << 12, attention.head_dim);
    if (value_dim != attention.head_dim) {
        fail(Status::unsupported, "gguf", keys.name("attention.value_length"), ": expected ",
             attention.head_dim, ", got ", value_dim);
    }
    attention.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(attention.head_dim)));
    if (keys.has("attention.sliding_window"))
        attention.window = keys.size("attention.sliding_window", most_size);
    return attention;
}

/// Factors of linear position scaling (Chen et al. 2023): every frequency is divided by it.
double linear_factor(const Keys& keys) {
    const std::string* type = keys.text("rope.scaling.type");
    if (type == nullptr) return keys.positive("rope.scale_linear", 1.0);  // the key of older files
    if (*type == "none") return 1;
    if (*type == "linear") return keys.positive("rope.scaling.factor");
    fail(Status::unsupported, "gguf", keys.name("rope.scaling.type"), ": expected none or linear, got ",
         *type);
}

/// Frequencies base^(-2i/width) (Su et al. 2021, section 3.2.2), divided by a linear factor and, where the
/// file has "rope_freqs.weight" [width/2] (Llama 3.1 and later), by its elements.
Rope read_rope(const Keys& keys, RopePairs pairs, uint32_t head_dim, const GgufTensor* divisors,
               const TensorSource& tensors) {
    Rope rope{.pairs = pairs,
              .width = keys.size("rope.dimension_count", head_dim, head_dim),
              .inverse_frequencies = {},
              .magnitude = 1,
              .long_inverse_frequencies = {}};
    if (rope.width % 2 != 0) {
        fail(Status::bad_file, "gguf", keys.name("rope.dimension_count"), ": expected an even number, got ",
             rope.width);
    }
    const double base = keys.positive("rope.freq_base", 10000.0);
    const double factor = linear_factor(keys);
    for (uint32_t i = 0; i < rope.width / 2; ++i) {
        rope.inverse_frequencies.push_back(std::pow(base, -2.0 * i / rope.width) / factor);
    }
    if (divisors == nullptr) return rope;

    const TensorView view = tensor_view(*divisors);
    if (view.type != TensorType::f32 || view.rows != 1 || view.cols != rope.width / 2) {
        fail(Status::bad_file, "gguf", "tensor ", view.name, ": expected F32 [", rope.width / 2, "], got ",
             tensor_type_info(view.type).name, " [", view.rows, ", ", view.cols, "]");
    }
    std::vector<float> values(view.cols);
    tensors.read(view, 0, std::as_writable_bytes(std::span(values)));
    for (uint32_t i = 0; i < view.cols; ++i) {
        if (!std::isfinite(values[i]) || values[i] <= 0) {
            fail(Status::bad_file, "gguf", "tensor ", view.name, ": expected finite numbers above 0, got ",
                 values[i], " at ", i);
        }
        rope.inverse_frequencies[i] /= static_cast<double>(values[i]);
    }
    return rope;
}

/// Hands out tensors by name and remembers which were asked for.
class Shelf {
  public:
    explicit Shelf(const Gguf& gguf) {
        for (const GgufTensor& tensor : gguf.tensors) by_name_[tensor.name] = &tensor;
    }
    const GgufTensor* take(const std::string& name) {
        const auto found = by_name_.find(name);
        if (found == by_name_.end()) return nullptr;
        const GgufTensor* tensor = found->second;
        by_name_.erase(found);
        return tensor;
    }
    std::vector<TensorView> rest() const {
        std::vector<TensorView> views;
        for (const auto& [name, tensor] : by_name_) views.push_back(tensor_view(*tensor));
        return views;
    }

  private:
    std::map<std::string, const GgufTensor*> by_name_;
};

uint32_t size_of(Size size, const Architecture& architecture, const Layer& layer) {
    switch (size) {
    case Size::one:
        return 1;
    case Size::vocab:
        return architecture.vocab;
    case Size::hidden:
        return architecture.hidden;
    case Size::heads_width:
        return layer.attention.heads * layer.attention.head_dim;  // at most 2^28 by the caps
    case Size::kv_heads_width:
        return layer.attention.kv_heads * layer.attention.head_dim;
    case Size::head_dim:
        return layer.attention.head_dim;
    case Size::feed_forward:
        return layer.feed_forward.size;
    }
    return 0;
}

std::string shape_text(uint32_t rows, uint32_t cols, bool vector) {
    return vector ? cat("[", cols, "]") : cat("[", rows, ", ", cols, "]");
}

void take_role(const RoleRow& row, int32_t index, const Layer& layer, Shelf& shelf, ReadModel& model) {
    const std::string name = row.of_layer ? cat("blk.", index, ".", row.name) : std::string(row.name);
    const GgufTensor* tensor = shelf.take(name);
    if (tensor == nullptr) {
        if (row.presence == Presence::optional) return;
        fail(Status::bad_file, "gguf", "tensor ", name, " is missing");
    }
    const TensorView view = tensor_view(*tensor);
    const uint32_t rows = size_of(row.rows, model.architecture, layer);
    const uint32_t cols = size_of(row.cols, model.architecture, layer);
    if (view.rows != rows || view.cols != cols) {
        const bool vector = row.rows == Size::one;
        fail(Status::bad_file, "gguf", "tensor ", name, ": expected ", shape_text(rows, cols, vector),
             ", got ", shape_text(view.rows, view.cols, vector && view.rows == 1));
    }
    model.weights[{row.role, index}] = view;
}

/// Vocabulary by the embedding's rows, which a token list must match.
uint32_t read_vocab(const Gguf& gguf) {
    const GgufTensor* embedding = nullptr;
    for (const GgufTensor& tensor : gguf.tensors) {
        if (tensor.name == "token_embd.weight") embedding = &tensor;
    }
    if (embedding == nullptr) fail(Status::bad_file, "gguf", "tensor token_embd.weight is missing");
    const uint32_t vocab = tensor_view(*embedding).rows;
    if (vocab > most_size)
        fail(Status::bad_file, "gguf", "tensor token_embd.weight: expected at most ", most_size,
             " rows, got ", vocab);
    const std::vector<std::string>* tokens = gguf.metadata.texts("tokenizer.ggml.tokens");
    if (tokens != nullptr && tokens->size() != vocab) {
        fail(Status::bad_file, "gguf", "tokenizer.ggml.tokens: expected ", vocab, " tokens, got ",
             tokens->size());
    }
    return vocab;
}

}  // namespace

ReadModel read_architecture(const Gguf& gguf, const TensorSource& tensors) {
    const Family& family = find_family(gguf.metadata);
    const Keys keys(gguf.metadata, family.name);
    keys.refuse_unknown();
    Shelf shelf(gguf);

    ReadModel model;
    Architecture& architecture = model.architecture;
    architecture.family = family.name;
    architecture.vocab = read_vocab(gguf);
    architecture.hidden = keys.size("embedding_length", most_size);
    architecture.context = keys.size("context_length", most_size);
    architecture.norm.epsilon = static_cast<float>(keys.positive("attention.layer_norm_rms_epsilon"));
    if (architecture.norm.epsilon <= 0) {
        fail(Status::bad_file, "gguf", keys.name("attention.layer_norm_rms_epsilon"), ": it is 0 as a float");
    }
    architecture.logit_soft_cap = static_cast<float>(keys.positive("final_logit_softcapping", 0.0));
    Layer layer;
    layer.attention = read_attention(keys, architecture.hidden);
    layer.feed_forward.size = keys.size("feed_forward_length", most_size);
    architecture.ropes = {
        read_rope(keys, family.pairs, layer.attention.head_dim, shelf.take("rope_freqs.weight"), tensors)};
    architecture.layers.assign(keys.size("block_count", most_layers), layer);

    for (const std::span<const RoleRow> rows : {std::span<const RoleRow>(decoder_rows), family.more}) {
        for (const RoleRow& row : rows) {
            if (!row.of_layer) take_role(row, -1, layer, shelf, model);
            for (size_t i = 0; row.of_layer && i < architecture.layers.size(); ++i) {
                take_role(row, static_cast<int32_t>(i), architecture.layers[i], shelf, model);
            }
        }
    }
    architecture.tied_embeddings = !model.weights.contains({Role::output, -1});
    for (size_t i = 0; i < architecture.layers.size(); ++i) {
        const auto has = [&](Role role) { return model.weights.contains({role, static_cast<int32_t>(i)}); };
        Attention& attention = architecture.layers[i].attention;
        attention.q_bias = has(Role::q_bias);
        attention.k_bias = has(Role::k_bias);
        attention.v_bias = has(Role::v_bias);
        attention.o_bias = has(Role::o_bias);
        if (has(Role::q_norm)) attention.qk_norm = {QkNorm::Group::head, architecture.norm, false, false};
    }
    model.unused = shelf.rest();
    return model;
}

}  // namespace scoria
