// Tensor names of Hugging Face models, in parts that families combine: Llama's and what grew from them.
#include "hf_families.h"

namespace scoria::hf {
namespace {

using enum Layout;

// Llama's names, which most later models took over.
#define LAYER "model.layers.#."
constexpr TensorRow frame_rows[] = {
    {Role::token_embedding, "model.embed_tokens.weight"},
    {Role::output_norm, "model.norm.weight"},
    {Role::output_norm_bias, "model.norm.bias"},
    {Role::output, "lm_head.weight"},
    {Role::output_bias, "lm_head.bias"},
    {Role::attention_norm, LAYER "input_layernorm.weight"},
    {Role::attention_norm_bias, LAYER "input_layernorm.bias"},
    {Role::feed_forward_norm, LAYER "post_attention_layernorm.weight"},
    {Role::feed_forward_norm_bias, LAYER "post_attention_layernorm.bias"},
};
constexpr TensorRow frame_plus_one_rows[] = {
    {Role::output_norm, "model.norm.weight", plus_one},
    {Role::attention_norm, LAYER "input_layernorm.weight", plus_one},
    {Role::feed_forward_norm, LAYER "post_attention_layernorm.weight", plus_one},
};
constexpr TensorRow attention_rows[] = {
    {Role::q, LAYER "self_attn.q_proj.weight"},    {Role::k, LAYER "self_attn.k_proj.weight"},
    {Role::v, LAYER "self_attn.v_proj.weight"},    {Role::o, LAYER "self_attn.o_proj.weight"},
    {Role::q_bias, LAYER "self_attn.q_proj.bias"}, {Role::k_bias, LAYER "self_attn.k_proj.bias"},
    {Role::v_bias, LAYER "self_attn.v_proj.bias"}, {Role::o_bias, LAYER "self_attn.o_proj.bias"},
};
constexpr TensorRow qk_norm_rows[] = {
    {Role::q_norm, LAYER "self_attn.q_norm.weight"},
    {Role::k_norm, LAYER "self_attn.k_norm.weight"},
};
constexpr TensorRow hunyuan_qk_norm_rows[] = {
    {Role::q_norm, LAYER "self_attn.query_layernorm.weight"},
    {Role::k_norm, LAYER "self_attn.key_layernorm.weight"},
};
constexpr TensorRow stablelm_qk_norm_rows[] = {
    {Role::q_norm, LAYER "self_attn.q_layernorm.norms.@.weight", per_expert},
    {Role::k_norm, LAYER "self_attn.k_layernorm.norms.@.weight", per_expert},
};
constexpr TensorRow fused_qkv_rows[] = {
    {Role::q, LAYER "self_attn.qkv_proj.weight", qkv},
    {Role::k, LAYER "self_attn.qkv_proj.weight", qkv},
    {Role::v, LAYER "self_attn.qkv_proj.weight", qkv},
};
constexpr TensorRow gated_rows[] = {
    {Role::gate, LAYER "mlp.gate_proj.weight"}, {Role::up, LAYER "mlp.up_proj.weight"},
    {Role::down, LAYER "mlp.down_proj.weight"}, {Role::gate_bias, LAYER "mlp.gate_proj.bias"},
    {Role::up_bias, LAYER "mlp.up_proj.bias"},  {Role::down_bias, LAYER "mlp.down_proj.bias"},
};
constexpr TensorRow fused_gate_up_rows[] = {
    {Role::gate, LAYER "mlp.gate_up_proj.weight", gate_up},
    {Role::up, LAYER "mlp.gate_up_proj.weight", gate_up},
    {Role::down, LAYER "mlp.down_proj.weight"},
};
constexpr TensorRow starcoder2_rows[] = {
    {Role::up, LAYER "mlp.c_fc.weight"},
    {Role::up_bias, LAYER "mlp.c_fc.bias"},
    {Role::down, LAYER "mlp.c_proj.weight"},
    {Role::down_bias, LAYER "mlp.c_proj.bias"},
};
constexpr TensorRow phi_rows[] = {
    {Role::output_norm, "model.final_layernorm.weight"},
    {Role::output_norm_bias, "model.final_layernorm.bias"},
    {Role::o, LAYER "self_attn.dense.weight"},
    {Role::o_bias, LAYER "self_attn.dense.bias"},
    {Role::q_norm, LAYER "self_attn.q_layernorm.weight"},
    {Role::q_norm_bias, LAYER "self_attn.q_layernorm.bias"},
    {Role::k_norm, LAYER "self_attn.k_layernorm.weight"},
    {Role::k_norm_bias, LAYER "self_attn.k_layernorm.bias"},
    {Role::up, LAYER "mlp.fc1.weight"},
    {Role::up_bias, LAYER "mlp.fc1.bias"},
    {Role::down, LAYER "mlp.fc2.weight"},
    {Role::down_bias, LAYER "mlp.fc2.bias"},
};
constexpr TensorRow glm4_rows[] = {
    {Role::attention_post_norm, LAYER "post_self_attn_layernorm.weight"},
    {Role::feed_forward_post_norm, LAYER "post_mlp_layernorm.weight"},
};
constexpr TensorRow gemma2_rows[] = {
    {Role::attention_post_norm, LAYER "post_attention_layernorm.weight", plus_one},
    {Role::feed_forward_norm, LAYER "pre_feedforward_layernorm.weight", plus_one},
    {Role::feed_forward_post_norm, LAYER "post_feedforward_layernorm.weight", plus_one},
    {Role::q_norm, LAYER "self_attn.q_norm.weight", plus_one},
    {Role::k_norm, LAYER "self_attn.k_norm.weight", plus_one},
    {Role::output_norm, "model.norm.weight", plus_one},
    {Role::attention_norm, LAYER "input_layernorm.weight", plus_one},
};
constexpr TensorRow afmoe_rows[] = {
    {Role::attention_post_norm, LAYER "post_attention_layernorm.weight"},
    {Role::feed_forward_norm, LAYER "pre_mlp_layernorm.weight"},
    {Role::feed_forward_post_norm, LAYER "post_mlp_layernorm.weight"},
    {Role::attention_gate, LAYER "self_attn.gate_proj.weight"},
    {Role::q_norm, LAYER "self_attn.q_norm.weight"},
    {Role::k_norm, LAYER "self_attn.k_norm.weight"},
    {Role::router, LAYER "mlp.router.gate.weight"},
    {Role::router_choice_bias, LAYER "mlp.expert_bias"},
};
constexpr TensorRow hy_v3_rows[] = {
    {Role::q_norm, LAYER "self_attn.q_norm.weight"},
    {Role::k_norm, LAYER "self_attn.k_norm.weight"},
    {Role::router, LAYER "mlp.router.gate.weight"},
    {Role::router_choice_bias, LAYER "mlp.expert_bias"},
    {Role::shared_gate, LAYER "mlp.shared_mlp.gate_proj.weight"},
    {Role::shared_up, LAYER "mlp.shared_mlp.up_proj.weight"},
    {Role::shared_down, LAYER "mlp.shared_mlp.down_proj.weight"},
    {Role::shared_gate_bias, LAYER "mlp.shared_mlp.gate_proj.bias"},
    {Role::shared_up_bias, LAYER "mlp.shared_mlp.up_proj.bias"},
    {Role::shared_down_bias, LAYER "mlp.shared_mlp.down_proj.bias"},
};
constexpr TensorRow sarvam_rows[] = {
    {Role::token_embedding, "model.word_embeddings.weight"},
    {Role::q, LAYER "attention.query_key_value.weight", qkv},
    {Role::k, LAYER "attention.query_key_value.weight", qkv},
    {Role::v, LAYER "attention.query_key_value.weight", qkv},
    {Role::q_bias, LAYER "attention.query_key_value.bias", qkv},
    {Role::k_bias, LAYER "attention.query_key_value.bias", qkv},
    {Role::v_bias, LAYER "attention.query_key_value.bias", qkv},
    {Role::o, LAYER "attention.dense.weight"},
    {Role::q_norm, LAYER "attention.query_layernorm.weight"},
    {Role::k_norm, LAYER "attention.key_layernorm.weight"},
    {Role::router_choice_bias, LAYER "mlp.gate.expert_bias"},
};
constexpr TensorRow gemma3n_rows[] = {
    {Role::altup_in, "model.altup_projections.@.weight", per_expert},
    {Role::altup_out, "model.altup_unembed_projections.@.weight", per_expert},
    {Role::altup_router, LAYER "altup.modality_router.weight"},
    {Role::altup_router_norm, LAYER "altup.router_norm.weight"},
    {Role::altup_predict, LAYER "altup.prediction_coefs.weight"},
    {Role::altup_correct, LAYER "altup.correction_coefs.weight"},
    {Role::altup_scale, LAYER "altup.correct_output_scale"},
    {Role::laurel_left, LAYER "laurel.linear_left.weight"},
    {Role::laurel_right, LAYER "laurel.linear_right.weight"},
    {Role::laurel_norm, LAYER "laurel.post_laurel_norm.weight"},
    {Role::per_layer_embedding, "model.embed_tokens_per_layer.weight", first_beyond},
};
constexpr TensorRow gemma4_rows[] = {
    {Role::attention_post_norm, LAYER "post_attention_layernorm.weight"},
    {Role::feed_forward_norm, LAYER "pre_feedforward_layernorm.weight"},
    {Role::feed_forward_post_norm, LAYER "post_feedforward_layernorm.weight"},
    {Role::per_layer_embedding, "model.embed_tokens_per_layer.weight"},
    {Role::per_layer_projection, "model.per_layer_model_projection.weight"},
    {Role::per_layer_norm, "model.per_layer_projection_norm.weight"},
    {Role::per_layer_gate, LAYER "per_layer_input_gate.weight"},
    {Role::per_layer_out, LAYER "per_layer_projection.weight"},
    {Role::per_layer_post_norm, LAYER "post_per_layer_input_norm.weight"},
    {Role::router, LAYER "router.proj.weight"},
    {Role::router_norm, LAYER "router.scale"},
    {Role::router_weight_scale, LAYER "router.per_expert_scale"},
    {Role::expert_norm, LAYER "pre_feedforward_layernorm_2.weight"},
    {Role::expert_gate, LAYER "experts.gate_up_proj", experts_gate_up},
    {Role::expert_up, LAYER "experts.gate_up_proj", experts_gate_up},
    {Role::expert_down, LAYER "experts.down_proj"},
    {Role::expert_post_norm, LAYER "post_feedforward_layernorm_2.weight"},
    {Role::shared_gate, LAYER "mlp.gate_proj.weight"},
    {Role::shared_up, LAYER "mlp.up_proj.weight"},
    {Role::shared_down, LAYER "mlp.down_proj.weight"},
    {Role::shared_post_norm, LAYER "post_feedforward_layernorm_1.weight"},
};
constexpr TensorRow hyperclovax_rows[] = {
    {Role::attention_post_norm, LAYER "post_norm1.weight"},
    {Role::feed_forward_post_norm, LAYER "post_norm2.weight"},
};
constexpr TensorRow olmo2_rows[] = {
    {Role::attention_post_norm, LAYER "post_attention_layernorm.weight"},
    {Role::feed_forward_post_norm, LAYER "post_feedforward_layernorm.weight"},
};
constexpr TensorRow apertus_rows[] = {
    {Role::attention_norm, LAYER "attention_layernorm.weight"},
    {Role::feed_forward_norm, LAYER "feedforward_layernorm.weight"},
};
constexpr TensorRow sinks_rows[] = {
    {Role::sinks, LAYER "self_attn.sinks"},
    {Role::sinks, LAYER "self_attn.attention_sink_bias"},  // MiMo, as published
};
constexpr TensorRow bitnet_rows[] = {
    {Role::heads_norm, LAYER "self_attn.attn_sub_norm.weight"},
    {Role::inner_norm, LAYER "mlp.ffn_sub_norm.weight"},
};
#undef LAYER

// EXAONE 3 and 3.5 as published; transformers saves them under Llama's names.
#define LAYER "transformer.h.#."
constexpr TensorRow exaone_rows[] = {
    {Role::token_embedding, "transformer.wte.weight"}, {Role::output_norm, "transformer.ln_f.weight"},
    {Role::attention_norm, LAYER "ln_1.weight"},       {Role::q, LAYER "attn.attention.q_proj.weight"},
    {Role::k, LAYER "attn.attention.k_proj.weight"},   {Role::v, LAYER "attn.attention.v_proj.weight"},
    {Role::o, LAYER "attn.attention.out_proj.weight"}, {Role::feed_forward_norm, LAYER "ln_2.weight"},
    {Role::gate, LAYER "mlp.c_fc_0.weight"},           {Role::up, LAYER "mlp.c_fc_1.weight"},
    {Role::down, LAYER "mlp.c_proj.weight"},
};
#undef LAYER

}  // namespace

using Rows = std::span<const TensorRow>;
const Rows frame = frame_rows;
const Rows frame_plus_one = frame_plus_one_rows;
const Rows attention = attention_rows;
const Rows qk_norms = qk_norm_rows;
const Rows stablelm_qk_norms = stablelm_qk_norm_rows;
const Rows hunyuan_qk_norms = hunyuan_qk_norm_rows;
const Rows fused_qkv = fused_qkv_rows;
const Rows gated = gated_rows;
const Rows fused_gate_up = fused_gate_up_rows;
const Rows starcoder2 = starcoder2_rows;
const Rows phi = phi_rows;
const Rows glm4 = glm4_rows;
const Rows gemma2 = gemma2_rows;
const Rows afmoe = afmoe_rows;
const Rows hy_v3 = hy_v3_rows;
const Rows sarvam = sarvam_rows;
const Rows gemma3n = gemma3n_rows;
const Rows gemma4 = gemma4_rows;
const Rows olmo2 = olmo2_rows;
const Rows hyperclovax = hyperclovax_rows;
const Rows sinks = sinks_rows;
const Rows bitnet = bitnet_rows;
const Rows apertus = apertus_rows;
const Rows exaone = exaone_rows;

}  // namespace scoria::hf
