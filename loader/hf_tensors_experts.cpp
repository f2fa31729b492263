// Tensor names of Hugging Face models, in parts that families combine: mixtures of experts.
#include "hf_families.h"

namespace scoria::hf {
namespace {

using enum Layout;

#define LAYER "model.layers.#."
// A tensor per expert, or all in one as newer files have them.
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
#undef LAYER

}  // namespace

using Rows = std::span<const TensorRow>;
const Rows mixtral = mixtral_rows;
const Rows kimi_linear = kimi_linear_rows;
const Rows bailing_hybrid = bailing_hybrid_rows;
const Rows experts = expert_rows;
const Rows llama4 = llama4_rows;
const Rows granite_shared = granite_shared_rows;
const Rows granite_moe = granite_moe_rows;
const Rows minimax = minimax_rows;
const Rows ernie_moe = ernie_moe_rows;
const Rows hunyuan_moe = hunyuan_moe_rows;
const Rows shared_experts = shared_expert_rows;
const Rows deepseek = deepseek_rows;
const Rows indexer = indexer_rows;
const Rows gpt_oss = gpt_oss_rows;

}  // namespace scoria::hf
