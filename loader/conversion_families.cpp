// See conversion_families.h: the tables.
#include "conversion_families.h"

namespace scoria::conversion {
namespace {

constexpr Name attention_names[] = {
    {"self_attn.q_proj.weight", "attn_q.weight", Lay::rotated},
    {"self_attn.k_proj.weight", "attn_k.weight", Lay::rotated},
    {"self_attn.v_proj.weight", "attn_v.weight"},
    {"self_attn.o_proj.weight", "attn_output.weight"},
    {"self_attn.q_proj.bias", "attn_q.bias", Lay::rotated, true},
    {"self_attn.k_proj.bias", "attn_k.bias", Lay::rotated, true},
    {"self_attn.v_proj.bias", "attn_v.bias", Lay::as_is, true},
    {"self_attn.o_proj.bias", "attn_output.bias", Lay::as_is, true},
};
constexpr Name fused_attention_names[] = {
    {"self_attn.qkv_proj.weight", "attn_qkv.weight"},
    {"self_attn.o_proj.weight", "attn_output.weight"},
};
constexpr Name qk_norm_names[] = {
    {"self_attn.q_norm.weight", "attn_q_norm.weight"},
    {"self_attn.k_norm.weight", "attn_k_norm.weight"},
};
constexpr Name norm_names[] = {
    {"input_layernorm.weight", "attn_norm.weight"},
    {"post_attention_layernorm.weight", "ffn_norm.weight"},
};
constexpr Name gemma_norm_names[] = {
    {"input_layernorm.weight", "attn_norm.weight", Lay::plus_one},
    {"post_attention_layernorm.weight", "ffn_norm.weight", Lay::plus_one},
};
constexpr Name output_norm_names[] = {
    {"post_attention_layernorm.weight", "post_attention_norm.weight"},
    {"post_feedforward_layernorm.weight", "post_ffw_norm.weight"},
};
constexpr Name one_norm_names[] = {{"input_layernorm.weight", "attn_norm.weight"}};
constexpr Name mlp_names[] = {
    {"mlp.gate_proj.weight", "ffn_gate.weight"},
    {"mlp.up_proj.weight", "ffn_up.weight"},
    {"mlp.down_proj.weight", "ffn_down.weight"},
};
constexpr Name fused_mlp_names[] = {
    {"mlp.gate_up_proj.weight", "ffn_up.weight"},
    {"mlp.down_proj.weight", "ffn_down.weight"},
};
constexpr Name expert_names[] = {
    {"mlp.gate.weight", "ffn_gate_inp.weight"},
    {"mlp.experts.@.gate_proj.weight", "ffn_gate_exps.weight"},
    {"mlp.experts.@.up_proj.weight", "ffn_up_exps.weight"},
    {"mlp.experts.@.down_proj.weight", "ffn_down_exps.weight"},
};
constexpr Name mixtral_names[] = {
    {"block_sparse_moe.gate.weight", "ffn_gate_inp.weight"},
    {"block_sparse_moe.experts.@.w1.weight", "ffn_gate_exps.weight"},
    {"block_sparse_moe.experts.@.w3.weight", "ffn_up_exps.weight"},
    {"block_sparse_moe.experts.@.w2.weight", "ffn_down_exps.weight"},
};
constexpr Name shared_expert_names[] = {
    {"mlp.shared_expert.gate_proj.weight", "ffn_gate_shexp.weight"},
    {"mlp.shared_expert.up_proj.weight", "ffn_up_shexp.weight"},
    {"mlp.shared_expert.down_proj.weight", "ffn_down_shexp.weight"},
    {"mlp.shared_expert_gate.weight", "ffn_gate_inp_shexp.weight"},
};

constexpr Key granite_keys[] = {{"embedding_multiplier", "embedding_scale"},
                                {"residual_multiplier", "residual_scale"},
                                {"attention_multiplier", "attention.scale"},
                                {"logits_scaling", "logit_scale"}};
constexpr Key cohere_keys[] = {{"logit_scale", "logit_scale"}};

constexpr ConversionFamily families[] = {
    {.model_type = "llama",
     .architecture = "llama",
     .layer_names = {norm_names, attention_names, mlp_names},
     .paired_rows = true,
     .window = Window::always},
    {.model_type = "mistral",
     .architecture = "llama",
     .layer_names = {norm_names, attention_names, mlp_names},
     .paired_rows = true,
     .window = Window::always},
    {.model_type = "mixtral",
     .architecture = "llama",
     .layer_names = {norm_names, attention_names, mixtral_names},
     .paired_rows = true,
     .window = Window::always},
    {.model_type = "qwen2",
     .architecture = "qwen2",
     .layer_names = {norm_names, attention_names, mlp_names},
     .window = Window::if_used},
    {.model_type = "qwen2_moe",
     .architecture = "qwen2moe",
     .layer_names = {norm_names, attention_names, expert_names, shared_expert_names},
     .must = {{{"decoder_sparse_step", "1"},
               {"mlp_only_layers", "[]"},
               {"use_sliding_window", "false"},
               {"norm_topk_prob", "false"}}}},
    {.model_type = "qwen3",
     .architecture = "qwen3",
     .layer_names = {norm_names, attention_names, qk_norm_names, mlp_names},
     .window = Window::if_used},
    {.model_type = "qwen3_moe",
     .architecture = "qwen3moe",
     .layer_names = {norm_names, attention_names, qk_norm_names, expert_names},
     .must = {{{"decoder_sparse_step", "1"},
               {"mlp_only_layers", "[]"},
               {"use_sliding_window", "false"},
               {"norm_topk_prob", "true"}}}},
    {.model_type = "smollm3",
     .architecture = "smollm3",
     .layer_names = {norm_names, attention_names, mlp_names},
     .paired_rows = true,
     .must = {{{"use_sliding_window", "false"}}},
     .no_rope_every = 4},
    {.model_type = "granite",
     .architecture = "granite",
     .layer_names = {norm_names, attention_names, mlp_names},
     .paired_rows = true,
     .floats = granite_keys},
    {.model_type = "phi3",
     .architecture = "phi3",
     .layer_names = {norm_names, fused_attention_names, fused_mlp_names},
     .window = Window::always},
    {.model_type = "gemma",
     .architecture = "gemma",
     .layer_names = {gemma_norm_names, attention_names, mlp_names},
     .plus_one = true,
     .activation = nullptr},
    {.model_type = "cohere",
     .architecture = "command-r",
     .layer_names = {one_norm_names, attention_names, mlp_names},
     .layer_norm = true,
     .floats = cohere_keys},
    {.model_type = "cohere2",
     .architecture = "cohere2",
     .layer_names = {one_norm_names, attention_names, mlp_names},
     .layer_norm = true,
     .window = Window::always,
     .floats = cohere_keys,
     .must = {{{"sliding_window_pattern", "4"}}},
     .full_every = 4},
    {.model_type = "olmo2",
     .architecture = "olmo2",
     .layer_names = {output_norm_names, attention_names, qk_norm_names, mlp_names}},
    {.model_type = "olmoe",
     .architecture = "olmoe",
     .layer_names = {norm_names, attention_names, qk_norm_names, expert_names},
     .must = {{{"clip_qkv", "null"}, {"norm_topk_prob", "false"}}}},
};

}  // namespace

std::span<const ConversionFamily> conversion_families() { return families; }

}  // namespace scoria::conversion
