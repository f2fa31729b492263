// What a model is: enums and sizes, one Layer per layer, and the roles of its weights. Everything the
// graph builder reads is on this page; it holds no file names and no family names. A value exists only
// once a fixture fails without it.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace scoria {

enum class NormKind : uint8_t { rms };     // x / sqrt(mean(x^2) + eps) * w  (Zhang & Sennrich 2019)
enum class Activation : uint8_t { silu };  // x * sigmoid(x)

/// Which two elements of a head one rotation turns (Su et al. 2021).
enum class RopePairs : uint8_t {
    interleaved,  // (2i, 2i+1): GGUF files of the llama family, whose q/k rows were permuted by the converter
    halves,       // (i, i + width/2)
};

/// Rotary positions. Every published scaling (linear, Llama-3, YaRN, LongRoPE) is a choice of
/// frequencies and a magnitude, so the loader computes both and nothing later knows which it was.
struct Rope {
    RopePairs pairs = RopePairs::halves;
    uint32_t width = 0;                       // leading elements of each head that rotate; even
    std::vector<double> inverse_frequencies;  // [width/2], radians per position
    double magnitude = 1;                     // multiplies cos and sin
};

struct Attention {
    uint32_t heads = 0, kv_heads = 0, head_dim = 0;
    float scale = 1;      // multiplies q.k
    uint32_t window = 0;  // 0: all earlier keys; else query i sees keys > i - window
    bool q_bias = false, k_bias = false, v_bias = false, o_bias = false;
    bool qk_norm = false;  // RMS norm of each q and k head before rotation, weights [head_dim]
};

struct FeedForward {
    uint32_t size = 0;                         // columns between up and down
    Activation activation = Activation::silu;  // down(act(gate x) * up x)
};

struct Layer {
    Attention attention;
    FeedForward feed_forward;
};

struct Architecture {
    std::string family;                           // for people: "llama", "qwen3"
    uint32_t vocab = 0, hidden = 0, context = 0;  // context: the positions it was trained for
    NormKind norm = NormKind::rms;
    float norm_epsilon = 0;
    bool tied_embeddings = false;  // logits = token_embedding . x
    float logit_soft_cap = 0;      // c of logits = c tanh(logits / c); 0: none
    Rope rope;
    std::vector<Layer> layers;
};

/// What a weight is for. Shapes [rows, cols] with y = W x; vectors are [1, cols].
enum class Role : uint8_t {
    token_embedding,    // [vocab, hidden]
    output_norm,        // [hidden]
    output,             // [vocab, hidden]; absent if tied
    attention_norm,     // [hidden]
    q,                  // [heads * head_dim, hidden]
    k,                  // [kv_heads * head_dim, hidden]
    v,                  // [kv_heads * head_dim, hidden]
    o,                  // [hidden, heads * head_dim]
    q_bias,             // [heads * head_dim]
    k_bias,             // [kv_heads * head_dim]
    v_bias,             // [kv_heads * head_dim]
    o_bias,             // [hidden]
    q_norm,             // [head_dim]
    k_norm,             // [head_dim]
    feed_forward_norm,  // [hidden]
    gate,               // [size, hidden]
    up,                 // [size, hidden]
    down,               // [hidden, size]
};
const char* role_name(Role role);

struct WeightRef {
    Role role;
    int32_t layer = -1;  // -1: not of a layer
    auto operator<=>(const WeightRef&) const = default;
};

/// GGUF's numbering, so that a file's value is the enum's. Values not listed are rejected by name.
enum class TensorType : uint32_t {
    f32 = 0,
    f16 = 1,
    q4_0 = 2,
    q4_1 = 3,
    q5_0 = 6,
    q5_1 = 7,
    q8_0 = 8,
    q2_k = 10,
    q3_k = 11,
    q4_k = 12,
    q5_k = 13,
    q6_k = 14,
    iq2_xxs = 16,
    iq2_xs = 17,
    iq3_xxs = 18,
    iq1_s = 19,
    iq4_nl = 20,
    iq3_s = 21,
    iq2_s = 22,
    iq4_xs = 23,
    iq1_m = 29,
    bf16 = 30,
    tq1_0 = 34,
    tq2_0 = 35,
    mxfp4 = 39,
    nvfp4 = 40,
    q1_0 = 41,
    q2_0 = 42,
};

struct TensorTypeInfo {
    TensorType type;
    const char* name;      // "Q4_1"
    uint32_t block;        // weights per block
    uint32_t block_bytes;  // bytes per block in a file
};
/// Row of the table of supported types, or nullptr.
const TensorTypeInfo* tensor_type_info(uint32_t gguf_type);
const TensorTypeInfo& tensor_type_info(TensorType type);
std::span<const TensorTypeInfo> tensor_types();

/// Where one weight lies in its file. Rows are contiguous; cols is a multiple of the type's block.
struct TensorView {
    std::string name;  // as in the file
    TensorType type = TensorType::f32;
    uint32_t rows = 0, cols = 0;
    uint32_t file = 0;    // index into TensorSource's files
    uint64_t offset = 0;  // bytes from the start of that file
    uint64_t row_bytes() const;
    uint64_t bytes() const { return row_bytes() * rows; }
};

using Weights = std::map<WeightRef, TensorView>;

}  // namespace scoria
