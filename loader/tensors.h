// The weights of a model: what each is for (its role), its type, and where it lies in a file.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <span>
#include <string>

namespace scoria {

/// What a weight is for. Shapes [rows, cols] with y = W x; vectors are [1, cols]. Experts stand one after the
/// other along the rows.
enum class Role : uint8_t {
    token_embedding,       // [vocab, hidden or embedding]
    position_embedding,    // [positions, embedded]
    token_type_embedding,  // [token types, embedded]
    embedding_in,          // [hidden, embedding]
    embedding_in_bias,     // [hidden]
    embedding_norm,        // [hidden]
    embedding_norm_bias,   // [hidden]
    embedding_out,         // [embedding, hidden]
    output_norm,           // [hidden]
    output_norm_bias,      // [hidden]
    head,                  // [embedded, hidden]
    head_bias,             // [hidden]
    head_norm,             // [hidden]
    head_norm_bias,        // [hidden]
    output,                // [vocab, hidden or embedding]; absent if tied
    output_bias,           // [vocab]
    attention_norm,        // [hidden]
    attention_norm_bias,   // [hidden]
    q,                     // [heads * head_dim, hidden]
    k,                     // [kv_heads * head_dim, hidden]
    v,                     // [kv_heads * v_head_dim, hidden]
    o,                     // [hidden, heads * v_head_dim]
    q_bias,                // [heads * head_dim]
    k_bias,                // [kv_heads * head_dim]
    v_bias,                // [kv_heads * v_head_dim]
    o_bias,                // [hidden]
    q_norm,         // [head_dim], or [heads * head_dim] with weights of their own or over the projection
    k_norm,         // likewise
    q_norm_bias,    // as q_norm
    k_norm_bias,    // as k_norm
    position_bias,  // [heads] slopes, or [heads, span]; of layer 0, shared by all
    sinks,          // [heads]
    attention_post_norm,          // [hidden]
    attention_post_norm_bias,     // [hidden]
    attention_post_norm_2,        // [hidden]
    attention_post_norm_2_bias,   // [hidden]
    feed_forward_norm,            // [hidden]
    feed_forward_norm_bias,       // [hidden]
    gate,                         // [size, hidden]
    gate_bias,                    // [size]
    up,                           // [size, hidden]
    up_bias,                      // [size]
    down,                         // [hidden, size]
    down_bias,                    // [hidden]
    feed_forward_post_norm,       // [hidden]
    feed_forward_post_norm_bias,  // [hidden]
    router,                       // [experts, hidden]
    router_bias,                  // [experts]
    router_choice_bias,           // [experts]
    expert_gate,                  // [experts * size, hidden]
    expert_gate_bias,             // [experts * size]
    expert_up,                    // [experts * size, hidden]
    expert_up_bias,               // [experts * size]
    expert_down,                  // [experts * hidden, size]
    expert_down_bias,             // [experts * hidden]
    shared_gate,                  // [shared_size, hidden]
    shared_up,                    // [shared_size, hidden]
    shared_down,                  // [hidden, shared_size]
    shared_gate_bias,             // [shared_size]
    shared_up_bias,               // [shared_size]
    shared_down_bias,             // [hidden]
    shared_expert_gate,           // [1, hidden]
    latent_q,                     // [q_rank, hidden]; then q is [heads * head_dim, q_rank]
    latent_q_bias,                // [q_rank]
    latent_q_norm,                // [q_rank]
    latent_kv,                    // [kv_rank + rope_dim, hidden]
    latent_kv_bias,               // [kv_rank + rope_dim]
    latent_kv_norm,               // [kv_rank]
    latent_k,                     // [heads * kv_rank, head_dim - rope_dim]
    latent_v,                     // [heads * value_dim, kv_rank]; then o is [hidden, heads * value_dim]
    index_q,                      // [indexer heads * head_dim, q_rank]; struct Indexer
    index_k,                      // [indexer head_dim, hidden]
    index_norm,                   // [indexer head_dim]
    index_norm_bias,              // [indexer head_dim]
    index_weights,                // [indexer heads, hidden]
    cross_norm,                   // [hidden]; before cross-attention, or after it (post)
    cross_norm_bias,              // [hidden]
    cross_q,                      // as q, k, v, o
    cross_k,
    cross_v,
    cross_o,
    cross_q_bias,
    cross_k_bias,
    cross_v_bias,
    cross_o_bias,
    distance_q_bias,  // [heads * head_dim]
    distance_k,       // [heads * span, head_dim], or those of d, then of e (PositionBias::by_pair)
    distance_v,       // [span, head_dim]
    global_q,         // as q, k, v, for global tokens
    global_k,
    global_v,
    global_q_bias,
    global_k_bias,
    global_v_bias,
    axial_rows,            // [axial.rows, axial.width]
    axial_cols,            // [axial.cols, hidden - axial.width]
    hash_rotations,        // [heads, head_dim, rounds, Chunks::rotated()] as one vector, of all layers
    attention_gate,        // [heads * head_dim, hidden] or [heads, hidden]
    mixer_in_gate,         // [channels, hidden]; of struct Recurrence, as are those below
    mixer_gate,            // [width, hidden], or [width, gate_rank]
    mixer_in,              // [channels, hidden]
    mixer_q,               // [keys, hidden]; of Recurrence::separate, in place of mixer_in
    mixer_k,               // likewise
    mixer_v,               // [width, hidden]
    mixer_gate_low,        // [gate_rank, hidden]
    mixer_beta,            // [heads, hidden]
    mixer_step_low,        // [step_rank, hidden], or [step_rank, width] (selective)
    mixer_kq,              // [2 * key_dim, width]: k, then q
    mixer_step,            // [steps, hidden], or [steps, step_rank]
    mixer_step_bias,       // [steps]
    mixer_decay,           // [heads], or [width, key_dim] (selective), below 0
    mixer_skip,            // [heads], or [width]
    mixer_step_norm,       // [step_rank]
    mixer_k_norm,          // [key_dim]
    mixer_q_norm,          // likewise
    mixer_taps,            // [channels, taps], the last one of the token itself
    mixer_q_taps,          // [keys, taps]; of Recurrence::separate, in place of mixer_taps
    mixer_k_taps,          // likewise
    mixer_v_taps,          // [width, taps]
    mixer_shift,           // [shifts, hidden], of r, w, k, v, rate, gate (wkv, as are those below)
    feed_forward_shift,    // [hidden]
    mixer_rate_low,        // [rate_rank, hidden]
    mixer_rate,            // [keys, rate_rank]
    mixer_rate_bias,       // [keys]
    mixer_rate_scale,      // [keys]
    mixer_value_low,       // [value_rank, hidden]
    mixer_value,           // [width, value_rank]
    mixer_value_bias,      // [width]
    mixer_erase,           // [keys]
    mixer_bonus,           // [keys]
    mixer_norm_bias,       // [width]
    mixer_taps_bias,       // [channels]
    mixer_norm,            // [value_dim], or [width] (but of delta)
    mixer_out,             // [hidden, width]
    per_layer_embedding,   // [vocab, layers * per_layer]
    per_layer_projection,  // [layers * per_layer, hidden]
    per_layer_norm,        // [per_layer]
    per_layer_gate,        // [per_layer, hidden]
    per_layer_out,         // [hidden, per_layer]
    per_layer_post_norm,   // [hidden]
    router_norm,           // [hidden]
    router_weight_scale,   // [experts]
    expert_norm,           // [hidden]
    expert_post_norm,      // [hidden]
    shared_post_norm,      // [hidden]
    altup_in,              // [(count - 1) * hidden, hidden]; of struct Alternating, as are those below
    altup_out,             // likewise
    altup_router,          // [count, hidden]
    altup_router_norm,     // [hidden]
    altup_predict,         // [count * count, count]
    altup_correct,         // [count, count]
    altup_scale,           // [hidden]
    laurel_left,           // [laurel, hidden]
    laurel_right,          // [hidden, laurel]
    laurel_norm,           // [hidden]
    heads_norm,            // [heads * head_dim]
    inner_norm,            // [size]
    ahead_embedding_norm,  // [hidden]
    ahead_hidden_norm,     // [hidden]
    ahead_in,              // [hidden, 2 hidden or features]
    ahead_features_norm,   // [features]
};
const char* role_name(Role role);
constexpr bool are_taps(Role role) { return role >= Role::mixer_taps && role <= Role::feed_forward_shift; }

/// Of a weight W that adapters change (lora.h): y = W x + B (A x).
enum class WeightPart : uint8_t {
    base,  // W
    a,     // [rank, columns of W]
    b,     // [rows of W, rank]
};

struct WeightRef {
    Role role;
    int32_t layer = -1;    // -1: not of a layer
    bool encoder = false;  // of Architecture::encoder
    WeightPart part = WeightPart::base;
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
    f8_e4m3 = 256,  // GGUF has no number for this one and those that follow
    nvfp4_s = 257,
};

struct TensorTypeInfo {
    TensorType type;
    const char* name;      // "Q4_1"
    uint32_t block;        // weights per block
    uint32_t block_bytes;  // bytes per block in a file
};
/// Row of the table of types that a GGUF may have, or nullptr.
const TensorTypeInfo* tensor_type_info(uint32_t gguf_type);
const TensorTypeInfo& tensor_type_info(TensorType type);
std::span<const TensorTypeInfo> gguf_types();
std::span<const TensorTypeInfo> tensor_types();  // all that kernels read

/// One weight: where it lies in its file, or how it is made of that. Rows are contiguous; cols is a multiple
/// of the type's block.
struct TensorView {
    std::string name;  // as in the file
    TensorType type = TensorType::f32;
    uint32_t rows = 0, cols = 0;
    uint32_t file = 0;    // index into TensorSource's files
    uint64_t offset = 0;  // bytes from the start of that file
    int32_t recipe =
        -1;  // index into the source's recipes (gather.h) that make it; -1: it is the file's bytes
    uint64_t row_bytes() const;
    uint64_t bytes() const { return row_bytes() * rows; }
};

using Weights = std::map<WeightRef, TensorView>;

}  // namespace scoria
