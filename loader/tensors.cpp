// Tables of tensor types and roles.
#include "tensors.h"

#include <algorithm>
#include <iterator>

namespace scoria {
namespace {

constexpr TensorTypeInfo types[] = {
    {TensorType::f32, "F32", 1, 4},
    {TensorType::f16, "F16", 1, 2},
    {TensorType::bf16, "BF16", 1, 2},
    {TensorType::q4_0, "Q4_0", 32, 18},         // f16 scale, 16 bytes of nibbles
    {TensorType::q4_1, "Q4_1", 32, 20},         // f16 scale and minimum, 16 bytes of nibbles
    {TensorType::q5_0, "Q5_0", 32, 22},         // f16 scale, 4 bytes of fifth bits, 16 bytes of nibbles
    {TensorType::q5_1, "Q5_1", 32, 24},         // f16 scale and minimum, fifth bits, nibbles
    {TensorType::q8_0, "Q8_0", 32, 34},         // f16 scale, 32 signed bytes
    {TensorType::q2_k, "Q2_K", 256, 84},        // 16 scales and minima of 4 bits, codes, f16 scales of these
    {TensorType::q3_k, "Q3_K", 256, 110},       // third bits, codes, 16 scales of 6 bits, f16 scale
    {TensorType::q4_k, "Q4_K", 256, 144},       // f16 scales of 8 scales and minima of 6 bits, nibbles
    {TensorType::q5_k, "Q5_K", 256, 176},       // the same, fifth bits, nibbles
    {TensorType::q6_k, "Q6_K", 256, 210},       // nibbles, two high bits, 16 scales of 8 bits, f16 scale
    {TensorType::iq2_xxs, "IQ2_XXS", 256, 66},  // IQ: f16 scale, indices into a grid of points, signs, scales
    {TensorType::iq2_xs, "IQ2_XS", 256, 74},
    {TensorType::iq2_s, "IQ2_S", 256, 82},
    {TensorType::iq3_xxs, "IQ3_XXS", 256, 98},
    {TensorType::iq3_s, "IQ3_S", 256, 110},
    {TensorType::iq1_s, "IQ1_S", 256, 50},
    {TensorType::iq1_m, "IQ1_M", 256, 56},
    {TensorType::iq4_nl, "IQ4_NL", 32, 18},    // f16 scale, nibbles that index 16 values
    {TensorType::iq4_xs, "IQ4_XS", 256, 136},  // f16 scale, 8 scales of 6 bits, such nibbles
    {TensorType::tq1_0, "TQ1_0", 256, 54},     // base-3 digits, f16 scale
    {TensorType::tq2_0, "TQ2_0", 256, 66},     // two-bit codes, f16 scale
    {TensorType::mxfp4, "MXFP4", 32, 17},      // 8-bit exponent, E2M1 nibbles
    {TensorType::nvfp4, "NVFP4", 64, 36},      // 4 E4M3 scales, E2M1 nibbles
    {TensorType::q1_0, "Q1_0", 128, 18},       // f16 scale, signs
    {TensorType::q2_0, "Q2_0", 64, 18},        // f16 scale, two-bit codes
    {TensorType::f8_e4m3, "F8_E4M3", 32, 34},  // f16 scale times 256, 32 such floats, none of them NaN
    {TensorType::nvfp4_s, "NVFP4_S", 64, 40},  // float factor of what a block of NVFP4 says
};

constexpr const char* role_names[] = {
    "token_embedding",
    "position_embedding",
    "token_type_embedding",
    "embedding_in",
    "embedding_in_bias",
    "embedding_norm",
    "embedding_norm_bias",
    "embedding_out",
    "output_norm",
    "output_norm_bias",
    "head",
    "head_bias",
    "head_norm",
    "head_norm_bias",
    "output",
    "output_bias",
    "attention_norm",
    "attention_norm_bias",
    "q",
    "k",
    "v",
    "o",
    "q_bias",
    "k_bias",
    "v_bias",
    "o_bias",
    "q_norm",
    "k_norm",
    "q_norm_bias",
    "k_norm_bias",
    "position_bias",
    "sinks",
    "attention_post_norm",
    "attention_post_norm_bias",
    "attention_post_norm_2",
    "attention_post_norm_2_bias",
    "feed_forward_norm",
    "feed_forward_norm_bias",
    "gate",
    "gate_bias",
    "up",
    "up_bias",
    "down",
    "down_bias",
    "feed_forward_post_norm",
    "feed_forward_post_norm_bias",
    "router",
    "router_bias",
    "router_choice_bias",
    "expert_gate",
    "expert_gate_bias",
    "expert_up",
    "expert_up_bias",
    "expert_down",
    "expert_down_bias",
    "shared_gate",
    "shared_up",
    "shared_down",
    "shared_gate_bias",
    "shared_up_bias",
    "shared_down_bias",
    "shared_expert_gate",
    "latent_q",
    "latent_q_bias",
    "latent_q_norm",
    "latent_kv",
    "latent_kv_bias",
    "latent_kv_norm",
    "latent_k",
    "latent_v",
    "index_q",
    "index_k",
    "index_norm",
    "index_norm_bias",
    "index_weights",
    "cross_norm",
    "cross_norm_bias",
    "cross_q",
    "cross_k",
    "cross_v",
    "cross_o",
    "cross_q_bias",
    "cross_k_bias",
    "cross_v_bias",
    "cross_o_bias",
    "distance_q_bias",
    "distance_k",
    "distance_v",
    "global_q",
    "global_k",
    "global_v",
    "global_q_bias",
    "global_k_bias",
    "global_v_bias",
    "axial_rows",
    "axial_cols",
    "hash_rotations",
    "attention_gate",
    "mixer_in_gate",
    "mixer_gate",
    "mixer_in",
    "mixer_q",
    "mixer_k",
    "mixer_v",
    "mixer_gate_low",
    "mixer_beta",
    "mixer_step_low",
    "mixer_kq",
    "mixer_step",
    "mixer_step_bias",
    "mixer_decay",
    "mixer_skip",
    "mixer_step_norm",
    "mixer_k_norm",
    "mixer_q_norm",
    "mixer_taps",
    "mixer_q_taps",
    "mixer_k_taps",
    "mixer_v_taps",
    "mixer_shift",
    "feed_forward_shift",
    "mixer_rate_low",
    "mixer_rate",
    "mixer_rate_bias",
    "mixer_rate_scale",
    "mixer_value_low",
    "mixer_value",
    "mixer_value_bias",
    "mixer_erase",
    "mixer_bonus",
    "mixer_norm_bias",
    "mixer_taps_bias",
    "mixer_norm",
    "mixer_out",
    "per_layer_embedding",
    "per_layer_projection",
    "per_layer_norm",
    "per_layer_gate",
    "per_layer_out",
    "per_layer_post_norm",
    "router_norm",
    "router_weight_scale",
    "expert_norm",
    "expert_post_norm",
    "shared_post_norm",
    "altup_in",
    "altup_out",
    "altup_router",
    "altup_router_norm",
    "altup_predict",
    "altup_correct",
    "altup_scale",
    "laurel_left",
    "laurel_right",
    "laurel_norm",
    "heads_norm",
    "inner_norm",
    "ahead_embedding_norm",
    "ahead_hidden_norm",
    "ahead_in",
    "ahead_features_norm",
};
static_assert(std::size(role_names) == static_cast<size_t>(Role::ahead_features_norm) + 1);

}  // namespace

const TensorTypeInfo* tensor_type_info(uint32_t gguf_type) {
    for (const TensorTypeInfo& info : gguf_types())
        if (static_cast<uint32_t>(info.type) == gguf_type) return &info;
    return nullptr;
}

std::span<const TensorTypeInfo> gguf_types() {
    return tensor_types().first(std::size(types) - 2);  // but for F8_E4M3 and NVFP4_S
}
std::span<const TensorTypeInfo> tensor_types() { return types; }

const TensorTypeInfo& tensor_type_info(TensorType type) {
    return *std::ranges::find(types, type, &TensorTypeInfo::type);
}

uint64_t TensorView::row_bytes() const {
    const TensorTypeInfo& info = tensor_type_info(type);
    return uint64_t{cols} / info.block * info.block_bytes;
}

const char* role_name(Role role) { return role_names[static_cast<size_t>(role)]; }

}  // namespace scoria
