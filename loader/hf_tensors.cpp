// Tensor names of Hugging Face models, in parts that families combine.
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

// Mixtures of experts: a tensor per expert, or all in one as newer files have them.
constexpr TensorRow mixtral_rows[] = {
    {Role::router, LAYER "block_sparse_moe.gate.weight"},
    {Role::expert_gate, LAYER "block_sparse_moe.experts.@.w1.weight", per_expert},
    {Role::expert_down, LAYER "block_sparse_moe.experts.@.w2.weight", per_expert},
    {Role::expert_up, LAYER "block_sparse_moe.experts.@.w3.weight", per_expert},
};
constexpr TensorRow kimi_linear_rows[] = {
    {Role::mixer_q, LAYER "self_attn.q_proj.weight"},
    {Role::mixer_k, LAYER "self_attn.k_proj.weight"},
    {Role::mixer_v, LAYER "self_attn.v_proj.weight"},
    {Role::mixer_q_taps, LAYER "self_attn.q_conv1d.weight"},
    {Role::mixer_k_taps, LAYER "self_attn.k_conv1d.weight"},
    {Role::mixer_v_taps, LAYER "self_attn.v_conv1d.weight"},
    {Role::mixer_step_low, LAYER "self_attn.f_a_proj.weight"},
    {Role::mixer_step, LAYER "self_attn.f_b_proj.weight"},
    {Role::mixer_step_bias, LAYER "self_attn.dt_bias"},
    {Role::mixer_decay, LAYER "self_attn.A_log", negative_exp},
    {Role::mixer_beta, LAYER "self_attn.b_proj.weight"},
    {Role::mixer_gate_low, LAYER "self_attn.g_a_proj.weight"},
    {Role::mixer_gate, LAYER "self_attn.g_b_proj.weight"},
    {Role::mixer_norm, LAYER "self_attn.o_norm.weight"},
    {Role::mixer_out, LAYER "self_attn.o_proj.weight"},
    // Dense layers as transformers saves them; those published are Llama's.
    {Role::gate, LAYER "block_sparse_moe.gate_proj.weight"},
    {Role::up, LAYER "block_sparse_moe.up_proj.weight"},
    {Role::down, LAYER "block_sparse_moe.down_proj.weight"},
    {Role::router_choice_bias, LAYER "block_sparse_moe.gate.e_score_correction_bias"},
    {Role::shared_gate, LAYER "block_sparse_moe.shared_experts.gate_proj.weight"},
    {Role::shared_up, LAYER "block_sparse_moe.shared_experts.up_proj.weight"},
    {Role::shared_down, LAYER "block_sparse_moe.shared_experts.down_proj.weight"},
};
// Ling 3's: under "attention.", what others have under "self_attn.".
constexpr TensorRow bailing_hybrid_rows[] = {
    {Role::mixer_q, LAYER "attention.q_proj.weight"},
    {Role::mixer_k, LAYER "attention.k_proj.weight"},
    {Role::mixer_v, LAYER "attention.v_proj.weight"},
    {Role::mixer_q_taps, LAYER "attention.q_conv1d.weight"},
    {Role::mixer_k_taps, LAYER "attention.k_conv1d.weight"},
    {Role::mixer_v_taps, LAYER "attention.v_conv1d.weight"},
    {Role::mixer_step, LAYER "attention.f_proj.weight"},
    {Role::mixer_step_bias, LAYER "attention.dt_bias"},
    {Role::mixer_decay, LAYER "attention.A_log", negative_exp},
    {Role::mixer_beta, LAYER "attention.b_proj.weight"},
    {Role::mixer_gate, LAYER "attention.g_proj.weight"},
    {Role::mixer_norm, LAYER "attention.o_norm.weight"},
    {Role::mixer_out, LAYER "attention.o_proj.weight"},
    {Role::mixer_out, LAYER "attention.dense.weight"},
    {Role::latent_q, LAYER "attention.q_a_proj.weight"},
    {Role::latent_q_norm, LAYER "attention.q_a_layernorm.weight"},
    {Role::q, LAYER "attention.q_b_proj.weight", q_rope_last},
    {Role::q, LAYER "attention.q_proj.weight", q_rope_last},
    {Role::latent_kv, LAYER "attention.kv_a_proj_with_mqa.weight"},
    {Role::latent_kv_norm, LAYER "attention.kv_a_layernorm.weight"},
    {Role::latent_k, LAYER "attention.kv_b_proj.weight", latent_kv_b},
    {Role::latent_v, LAYER "attention.kv_b_proj.weight", latent_kv_b},
    {Role::attention_gate, LAYER "attention.g_proj.weight"},
    {Role::o, LAYER "attention.o_proj.weight"},
};
constexpr TensorRow expert_rows[] = {
    {Role::router, LAYER "mlp.gate.weight"},
    {Role::expert_gate, LAYER "mlp.experts.@.gate_proj.weight", per_expert},
    {Role::expert_up, LAYER "mlp.experts.@.up_proj.weight", per_expert},
    {Role::expert_down, LAYER "mlp.experts.@.down_proj.weight", per_expert},
    {Role::expert_gate, LAYER "mlp.experts.gate_up_proj", experts_gate_up},
    {Role::expert_up, LAYER "mlp.experts.gate_up_proj", experts_gate_up},
    {Role::expert_down, LAYER "mlp.experts.down_proj"},
    {Role::shared_gate, LAYER "mlp.shared_expert.gate_proj.weight"},
    {Role::shared_up, LAYER "mlp.shared_expert.up_proj.weight"},
    {Role::shared_down, LAYER "mlp.shared_expert.down_proj.weight"},
    {Role::shared_expert_gate, LAYER "mlp.shared_expert_gate.weight"},
};
constexpr TensorRow llama4_rows[] = {
    {Role::gate, LAYER "feed_forward.gate_proj.weight"},
    {Role::up, LAYER "feed_forward.up_proj.weight"},
    {Role::down, LAYER "feed_forward.down_proj.weight"},
    {Role::router, LAYER "feed_forward.router.weight"},
    {Role::expert_gate, LAYER "feed_forward.experts.gate_up_proj", experts_gate_up_halves},
    {Role::expert_up, LAYER "feed_forward.experts.gate_up_proj", experts_gate_up_halves},
    {Role::expert_down, LAYER "feed_forward.experts.down_proj", experts_transposed},
    {Role::shared_gate, LAYER "feed_forward.shared_expert.gate_proj.weight"},
    {Role::shared_up, LAYER "feed_forward.shared_expert.up_proj.weight"},
    {Role::shared_down, LAYER "feed_forward.shared_expert.down_proj.weight"},
};
// Granite's: expert tensors in one, as newer files have them and as older ones do.
constexpr TensorRow granite_moe_rows[] = {
    {Role::router, LAYER "block_sparse_moe.router.weight"},
    {Role::router, LAYER "block_sparse_moe.router.layer.weight"},
    {Role::expert_gate, LAYER "block_sparse_moe.experts.gate_up_proj", experts_gate_up},
    {Role::expert_up, LAYER "block_sparse_moe.experts.gate_up_proj", experts_gate_up},
    {Role::expert_down, LAYER "block_sparse_moe.experts.down_proj"},
    {Role::expert_gate, LAYER "block_sparse_moe.input_linear.weight", experts_gate_up},
    {Role::expert_up, LAYER "block_sparse_moe.input_linear.weight", experts_gate_up},
    {Role::expert_down, LAYER "block_sparse_moe.output_linear.weight"},
    {Role::shared_gate, LAYER "shared_mlp.input_linear.weight", gate_up},
    {Role::shared_up, LAYER "shared_mlp.input_linear.weight", gate_up},
    {Role::shared_down, LAYER "shared_mlp.output_linear.weight"},
};
constexpr TensorRow granite_shared_rows[] = {
    {Role::gate, LAYER "shared_mlp.input_linear.weight", gate_up},
    {Role::up, LAYER "shared_mlp.input_linear.weight", gate_up},
    {Role::down, LAYER "shared_mlp.output_linear.weight"},
};
constexpr TensorRow minimax_rows[] = {
    {Role::router_choice_bias, LAYER "block_sparse_moe.e_score_correction_bias"},
    {Role::router_choice_bias, LAYER "mlp.gate.e_score_correction_bias"},
};
constexpr TensorRow ernie_moe_rows[] = {
    {Role::router_choice_bias, LAYER "mlp.moe_statics.e_score_correction_bias"},
    {Role::router_choice_bias, LAYER "mlp.gate.moe_statics.e_score_correction_bias"},
};
constexpr TensorRow hunyuan_moe_rows[] = {
    {Role::router, LAYER "mlp.gate.wg.weight"},
    {Role::shared_gate, LAYER "mlp.shared_mlp.gate_proj.weight"},
    {Role::shared_up, LAYER "mlp.shared_mlp.up_proj.weight"},
    {Role::shared_down, LAYER "mlp.shared_mlp.down_proj.weight"},
};
constexpr TensorRow deepseek_rows[] = {
    {Role::latent_q, LAYER "self_attn.q_a_proj.weight"},
    {Role::latent_q_bias, LAYER "self_attn.q_a_proj.bias"},
    {Role::latent_q_norm, LAYER "self_attn.q_a_layernorm.weight"},
    {Role::q, LAYER "self_attn.q_b_proj.weight", q_rope_last},
    {Role::q, LAYER "self_attn.q_proj.weight", q_rope_last},
    {Role::latent_kv, LAYER "self_attn.kv_a_proj_with_mqa.weight"},
    {Role::latent_kv_bias, LAYER "self_attn.kv_a_proj_with_mqa.bias"},
    {Role::latent_kv_norm, LAYER "self_attn.kv_a_layernorm.weight"},
    {Role::latent_k, LAYER "self_attn.kv_b_proj.weight", latent_kv_b},
    {Role::latent_v, LAYER "self_attn.kv_b_proj.weight", latent_kv_b},
};
constexpr TensorRow indexer_rows[] = {
    {Role::index_q, LAYER "self_attn.indexer.wq_b.weight"},
    {Role::index_k, LAYER "self_attn.indexer.wk.weight"},
    {Role::index_norm, LAYER "self_attn.indexer.k_norm.weight"},
    {Role::index_norm_bias, LAYER "self_attn.indexer.k_norm.bias"},
    {Role::index_weights, LAYER "self_attn.indexer.weights_proj.weight"},
};
// DeepSeek's experts, which others took over.
constexpr TensorRow shared_expert_rows[] = {
    {Role::router_choice_bias, LAYER "mlp.gate.e_score_correction_bias"},
    {Role::router_choice_bias, LAYER "mlp.e_score_correction_bias"},
    {Role::shared_gate, LAYER "mlp.shared_experts.gate_proj.weight"},
    {Role::shared_up, LAYER "mlp.shared_experts.up_proj.weight"},
    {Role::shared_down, LAYER "mlp.shared_experts.down_proj.weight"},
    {Role::shared_gate_bias, LAYER "mlp.shared_experts.gate_proj.bias"},
    {Role::shared_up_bias, LAYER "mlp.shared_experts.up_proj.bias"},
    {Role::shared_down_bias, LAYER "mlp.shared_experts.down_proj.bias"},
};
constexpr TensorRow apertus_rows[] = {
    {Role::attention_norm, LAYER "attention_layernorm.weight"},
    {Role::feed_forward_norm, LAYER "feedforward_layernorm.weight"},
};
constexpr TensorRow sinks_rows[] = {
    {Role::sinks, LAYER "self_attn.sinks"},
    {Role::sinks, LAYER "self_attn.attention_sink_bias"},  // MiMo, as published
};
constexpr TensorRow gpt_oss_rows[] = {
    {Role::router, LAYER "mlp.router.weight"},
    {Role::router_bias, LAYER "mlp.router.bias"},
    {Role::expert_gate, LAYER "mlp.experts.gate_up_proj", experts_gate_up_columns},
    {Role::expert_gate_bias, LAYER "mlp.experts.gate_up_proj_bias", experts_gate_up_columns},
    {Role::expert_up, LAYER "mlp.experts.gate_up_proj", experts_gate_up_columns},
    {Role::expert_up_bias, LAYER "mlp.experts.gate_up_proj_bias", experts_gate_up_columns},
    {Role::expert_down, LAYER "mlp.experts.down_proj", experts_transposed},
    {Role::expert_down_bias, LAYER "mlp.experts.down_proj_bias"},
    {Role::expert_gate, LAYER "mlp.experts.gate_up_proj_blocks", experts_gate_up_rows},
    {Role::expert_up, LAYER "mlp.experts.gate_up_proj_blocks", experts_gate_up_rows},
    {Role::expert_down, LAYER "mlp.experts.down_proj_blocks"},
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

// GPT-2 and what was named after it.
#define LAYER "transformer.h.#."
constexpr TensorRow gpt2_rows[] = {
    {Role::token_embedding, "transformer.wte.weight"},
    {Role::position_embedding, "transformer.wpe.weight"},
    {Role::output_norm, "transformer.ln_f.weight"},
    {Role::output_norm_bias, "transformer.ln_f.bias"},
    {Role::output, "lm_head.weight"},
    {Role::output_bias, "lm_head.bias"},
    {Role::attention_norm, LAYER "ln_1.weight"},
    {Role::attention_norm_bias, LAYER "ln_1.bias"},
    {Role::q, LAYER "attn.c_attn.weight", qkv_transposed},
    {Role::k, LAYER "attn.c_attn.weight", qkv_transposed},
    {Role::v, LAYER "attn.c_attn.weight", qkv_transposed},
    {Role::q_bias, LAYER "attn.c_attn.bias", qkv},
    {Role::k_bias, LAYER "attn.c_attn.bias", qkv},
    {Role::v_bias, LAYER "attn.c_attn.bias", qkv},
    {Role::o, LAYER "attn.c_proj.weight", transposed},
    {Role::o_bias, LAYER "attn.c_proj.bias"},
    {Role::feed_forward_norm, LAYER "ln_2.weight"},
    {Role::feed_forward_norm_bias, LAYER "ln_2.bias"},
    {Role::up, LAYER "mlp.c_fc.weight", transposed},
    {Role::up_bias, LAYER "mlp.c_fc.bias"},
    {Role::down, LAYER "mlp.c_proj.weight", transposed},
    {Role::down_bias, LAYER "mlp.c_proj.bias"},
};
constexpr TensorRow gpt_bigcode_rows[] = {
    {Role::q, LAYER "attn.c_attn.weight", qkv_grouped},
    {Role::k, LAYER "attn.c_attn.weight", qkv_grouped},
    {Role::v, LAYER "attn.c_attn.weight", qkv_grouped},
    {Role::q_bias, LAYER "attn.c_attn.bias", qkv_grouped},
    {Role::k_bias, LAYER "attn.c_attn.bias", qkv_grouped},
    {Role::v_bias, LAYER "attn.c_attn.bias", qkv_grouped},
    {Role::o, LAYER "attn.c_proj.weight"},
    {Role::up, LAYER "mlp.c_fc.weight"},
    {Role::down, LAYER "mlp.c_proj.weight"},
};
constexpr TensorRow gpt1_rows[] = {
    {Role::token_embedding, "transformer.tokens_embed.weight"},
    {Role::position_embedding, "transformer.positions_embed.weight"},
    {Role::attention_post_norm, LAYER "ln_1.weight"},
    {Role::attention_post_norm_bias, LAYER "ln_1.bias"},
    {Role::feed_forward_post_norm, LAYER "ln_2.weight"},
    {Role::feed_forward_post_norm_bias, LAYER "ln_2.bias"},
};
constexpr TensorRow gpt_neo_rows[] = {
    {Role::q, LAYER "attn.attention.q_proj.weight"},
    {Role::k, LAYER "attn.attention.k_proj.weight"},
    {Role::v, LAYER "attn.attention.v_proj.weight"},
    {Role::o, LAYER "attn.attention.out_proj.weight"},
    {Role::o_bias, LAYER "attn.attention.out_proj.bias"},
    {Role::up, LAYER "mlp.c_fc.weight"},
    {Role::down, LAYER "mlp.c_proj.weight"},
};
constexpr TensorRow gptj_rows[] = {
    {Role::q, LAYER "attn.q_proj.weight"},   {Role::k, LAYER "attn.k_proj.weight"},
    {Role::v, LAYER "attn.v_proj.weight"},   {Role::o, LAYER "attn.out_proj.weight"},
    {Role::up, LAYER "mlp.fc_in.weight"},    {Role::up_bias, LAYER "mlp.fc_in.bias"},
    {Role::down, LAYER "mlp.fc_out.weight"}, {Role::down_bias, LAYER "mlp.fc_out.bias"},
};
// BLOOM and Falcon.
constexpr TensorRow bloom_like_rows[] = {
    {Role::token_embedding, "transformer.word_embeddings.weight"},
    {Role::embedding_norm, "transformer.word_embeddings_layernorm.weight"},
    {Role::embedding_norm_bias, "transformer.word_embeddings_layernorm.bias"},
    {Role::output_norm, "transformer.ln_f.weight"},
    {Role::output_norm_bias, "transformer.ln_f.bias"},
    {Role::output, "lm_head.weight"},
    {Role::attention_norm, LAYER "input_layernorm.weight"},
    {Role::attention_norm_bias, LAYER "input_layernorm.bias"},
    {Role::attention_norm, LAYER "ln_attn.weight"},
    {Role::attention_norm_bias, LAYER "ln_attn.bias"},
    {Role::q, LAYER "self_attention.query_key_value.weight", qkv_grouped},
    {Role::k, LAYER "self_attention.query_key_value.weight", qkv_grouped},
    {Role::v, LAYER "self_attention.query_key_value.weight", qkv_grouped},
    {Role::q_bias, LAYER "self_attention.query_key_value.bias", qkv_grouped},
    {Role::k_bias, LAYER "self_attention.query_key_value.bias", qkv_grouped},
    {Role::v_bias, LAYER "self_attention.query_key_value.bias", qkv_grouped},
    {Role::o, LAYER "self_attention.dense.weight"},
    {Role::o_bias, LAYER "self_attention.dense.bias"},
    {Role::feed_forward_norm, LAYER "post_attention_layernorm.weight"},
    {Role::feed_forward_norm_bias, LAYER "post_attention_layernorm.bias"},
    {Role::feed_forward_norm, LAYER "ln_mlp.weight"},
    {Role::feed_forward_norm_bias, LAYER "ln_mlp.bias"},
    {Role::up, LAYER "mlp.dense_h_to_4h.weight"},
    {Role::up_bias, LAYER "mlp.dense_h_to_4h.bias"},
    {Role::down, LAYER "mlp.dense_4h_to_h.weight"},
    {Role::down_bias, LAYER "mlp.dense_4h_to_h.bias"},
};
#undef LAYER

#define LAYER "model.layers.#."
constexpr TensorRow persimmon_rows[] = {
    {Role::output_norm, "model.final_layernorm.weight"},
    {Role::output_norm_bias, "model.final_layernorm.bias"},
    {Role::attention_norm_bias, LAYER "input_layernorm.bias"},
    {Role::q, LAYER "self_attn.query_key_value.weight", qkv_grouped},
    {Role::k, LAYER "self_attn.query_key_value.weight", qkv_grouped},
    {Role::v, LAYER "self_attn.query_key_value.weight", qkv_grouped},
    {Role::q_bias, LAYER "self_attn.query_key_value.bias", qkv_grouped},
    {Role::k_bias, LAYER "self_attn.query_key_value.bias", qkv_grouped},
    {Role::v_bias, LAYER "self_attn.query_key_value.bias", qkv_grouped},
    {Role::q_norm, LAYER "self_attn.q_layernorm.weight"},
    {Role::q_norm_bias, LAYER "self_attn.q_layernorm.bias"},
    {Role::k_norm, LAYER "self_attn.k_layernorm.weight"},
    {Role::k_norm_bias, LAYER "self_attn.k_layernorm.bias"},
    {Role::o, LAYER "self_attn.dense.weight"},
    {Role::o_bias, LAYER "self_attn.dense.bias"},
    {Role::feed_forward_norm_bias, LAYER "post_attention_layernorm.bias"},
    {Role::up, LAYER "mlp.dense_h_to_4h.weight"},
    {Role::up_bias, LAYER "mlp.dense_h_to_4h.bias"},
    {Role::down, LAYER "mlp.dense_4h_to_h.weight"},
    {Role::down_bias, LAYER "mlp.dense_4h_to_h.bias"},
};
#undef LAYER
#define LAYER "gpt_neox.layers.#."
constexpr TensorRow gpt_neox_rows[] = {
    {Role::token_embedding, "gpt_neox.embed_in.weight"},
    {Role::output_norm, "gpt_neox.final_layer_norm.weight"},
    {Role::output_norm_bias, "gpt_neox.final_layer_norm.bias"},
    {Role::output, "embed_out.weight"},
    {Role::attention_norm, LAYER "input_layernorm.weight"},
    {Role::attention_norm_bias, LAYER "input_layernorm.bias"},
    {Role::q, LAYER "attention.query_key_value.weight", qkv_grouped},
    {Role::k, LAYER "attention.query_key_value.weight", qkv_grouped},
    {Role::v, LAYER "attention.query_key_value.weight", qkv_grouped},
    {Role::q_bias, LAYER "attention.query_key_value.bias", qkv_grouped},
    {Role::k_bias, LAYER "attention.query_key_value.bias", qkv_grouped},
    {Role::v_bias, LAYER "attention.query_key_value.bias", qkv_grouped},
    {Role::o, LAYER "attention.dense.weight"},
    {Role::o_bias, LAYER "attention.dense.bias"},
    {Role::feed_forward_norm, LAYER "post_attention_layernorm.weight"},
    {Role::feed_forward_norm_bias, LAYER "post_attention_layernorm.bias"},
    {Role::up, LAYER "mlp.dense_h_to_4h.weight"},
    {Role::up_bias, LAYER "mlp.dense_h_to_4h.bias"},
    {Role::down, LAYER "mlp.dense_4h_to_h.weight"},
    {Role::down_bias, LAYER "mlp.dense_4h_to_h.bias"},
};
#undef LAYER

// Which norm of a pair is used depends on do_layer_norm_before.
#define LAYER "model.decoder.layers.#."
constexpr TensorRow opt_rows[] = {
    {Role::token_embedding, "model.decoder.embed_tokens.weight"},
    {Role::position_embedding, "model.decoder.embed_positions.weight", positions},
    {Role::embedding_in, "model.decoder.project_in.weight"},
    {Role::embedding_out, "model.decoder.project_out.weight"},
    {Role::output_norm, "model.decoder.final_layer_norm.weight"},
    {Role::output_norm_bias, "model.decoder.final_layer_norm.bias"},
    {Role::output, "lm_head.weight"},
    {Role::attention_norm, LAYER "self_attn_layer_norm.weight"},
    {Role::attention_norm_bias, LAYER "self_attn_layer_norm.bias"},
    {Role::attention_post_norm, LAYER "self_attn_layer_norm.weight"},
    {Role::attention_post_norm_bias, LAYER "self_attn_layer_norm.bias"},
    {Role::q, LAYER "self_attn.q_proj.weight"},
    {Role::k, LAYER "self_attn.k_proj.weight"},
    {Role::v, LAYER "self_attn.v_proj.weight"},
    {Role::o, LAYER "self_attn.out_proj.weight"},
    {Role::q_bias, LAYER "self_attn.q_proj.bias"},
    {Role::k_bias, LAYER "self_attn.k_proj.bias"},
    {Role::v_bias, LAYER "self_attn.v_proj.bias"},
    {Role::o_bias, LAYER "self_attn.out_proj.bias"},
    {Role::feed_forward_norm, LAYER "final_layer_norm.weight"},
    {Role::feed_forward_norm_bias, LAYER "final_layer_norm.bias"},
    {Role::feed_forward_post_norm, LAYER "final_layer_norm.weight"},
    {Role::feed_forward_post_norm_bias, LAYER "final_layer_norm.bias"},
    {Role::up, LAYER "fc1.weight"},
    {Role::up_bias, LAYER "fc1.bias"},
    {Role::down, LAYER "fc2.weight"},
    {Role::down_bias, LAYER "fc2.bias"},
};
#undef LAYER

#define LAYER "transformer.blocks.#."
constexpr TensorRow mpt_rows[] = {
    {Role::token_embedding, "transformer.wte.weight"},
    {Role::output_norm, "transformer.norm_f.weight"},
    {Role::output, "lm_head.weight"},
    {Role::attention_norm, LAYER "norm_1.weight"},
    {Role::q, LAYER "attn.Wqkv.weight", qkv},
    {Role::k, LAYER "attn.Wqkv.weight", qkv},
    {Role::v, LAYER "attn.Wqkv.weight", qkv},
    {Role::o, LAYER "attn.out_proj.weight"},
    {Role::feed_forward_norm, LAYER "norm_2.weight"},
    {Role::up, LAYER "ffn.up_proj.weight"},
    {Role::down, LAYER "ffn.down_proj.weight"},
};
#undef LAYER

// The fixtures' own references, models that no Hugging Face class stands for.
#define LAYER "layers.#."
constexpr TensorRow own_rows[] = {
    {Role::token_embedding, "embed.weight"},
    {Role::position_embedding, "pos_embed.weight"},
    {Role::output_norm, "final_norm.weight"},
    {Role::output_norm_bias, "final_norm.bias"},
    {Role::output, "lm_head.weight"},
    {Role::output_bias, "lm_head.bias"},
    {Role::attention_norm, LAYER "attn_norm.weight"},
    {Role::attention_norm_bias, LAYER "attn_norm.bias"},
    {Role::attention_norm, LAYER "norm.weight"},
    {Role::attention_post_norm, LAYER "attn_norm.weight"},
    {Role::attention_post_norm_bias, LAYER "attn_norm.bias"},
    {Role::q, LAYER "attn.q.weight"},
    {Role::k, LAYER "attn.k.weight"},
    {Role::v, LAYER "attn.v.weight"},
    {Role::o, LAYER "attn.o.weight"},
    {Role::q_bias, LAYER "attn.q.bias"},
    {Role::k_bias, LAYER "attn.k.bias"},
    {Role::v_bias, LAYER "attn.v.bias"},
    {Role::o_bias, LAYER "attn.o.bias"},
    {Role::q_norm, LAYER "attn.q_norm.weight"},
    {Role::k_norm, LAYER "attn.k_norm.weight"},
    {Role::position_bias, "rel_bias.weight", buckets},
    {Role::q_bias, LAYER "attn.u"},
    {Role::q_bias, "u"},
    {Role::distance_q_bias, LAYER "attn.v_bias"},
    {Role::distance_q_bias, "v_bias"},
    {Role::distance_k, LAYER "attn.r.weight", distance_projection},
    {Role::distance_k, LAYER "attn.rel_k.weight", clipped_offsets},
    {Role::distance_v, LAYER "attn.rel_v.weight", clipped_offsets},
    {Role::feed_forward_norm, LAYER "mlp_norm.weight"},
    {Role::feed_forward_norm_bias, LAYER "mlp_norm.bias"},
    {Role::feed_forward_post_norm, LAYER "mlp_norm.weight"},
    {Role::feed_forward_post_norm_bias, LAYER "mlp_norm.bias"},
    {Role::gate, LAYER "mlp.gate.weight"},
    {Role::up, LAYER "mlp.up.weight"},
    {Role::up_bias, LAYER "mlp.up.bias"},
    {Role::down, LAYER "mlp.down.weight"},
    {Role::down_bias, LAYER "mlp.down.bias"},
    {Role::router, LAYER "moe.router.weight"},
    {Role::expert_gate, LAYER "moe.experts.@.gate.weight", per_expert},
    {Role::expert_up, LAYER "moe.experts.@.up.weight", per_expert},
    {Role::expert_down, LAYER "moe.experts.@.down.weight", per_expert},
    {Role::shared_gate, LAYER "moe.shared.gate.weight"},
    {Role::shared_up, LAYER "moe.shared.up.weight"},
    {Role::shared_down, LAYER "moe.shared.down.weight"},
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
const Rows mixtral = mixtral_rows;
const Rows kimi_linear = kimi_linear_rows;
const Rows bailing_hybrid = bailing_hybrid_rows;
const Rows experts = expert_rows;
const Rows llama4 = llama4_rows;
const Rows granite_shared = granite_shared_rows;
const Rows granite_moe = granite_moe_rows;
const Rows hyperclovax = hyperclovax_rows;
const Rows minimax = minimax_rows;
const Rows ernie_moe = ernie_moe_rows;
const Rows hunyuan_moe = hunyuan_moe_rows;
const Rows shared_experts = shared_expert_rows;
const Rows deepseek = deepseek_rows;
const Rows indexer = indexer_rows;
const Rows gpt_oss = gpt_oss_rows;
const Rows sinks = sinks_rows;
const Rows bitnet = bitnet_rows;
const Rows apertus = apertus_rows;
const Rows exaone = exaone_rows;
const Rows gpt2 = gpt2_rows;
const Rows gpt1 = gpt1_rows;
const Rows gpt_bigcode = gpt_bigcode_rows;
const Rows gpt_neo = gpt_neo_rows;
const Rows gptj = gptj_rows;
const Rows bloom_like = bloom_like_rows;
const Rows gpt_neox = gpt_neox_rows;
const Rows persimmon = persimmon_rows;
const Rows opt = opt_rows;
const Rows mpt = mpt_rows;
const Rows own = own_rows;

}  // namespace scoria::hf
