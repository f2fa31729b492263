// Tensor names of Hugging Face models, in parts that families combine: GPT's and their kin.
#include "hf_families.h"

namespace scoria::hf {
namespace {

using enum Layout;

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

}  // namespace

using Rows = std::span<const TensorRow>;
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

}  // namespace scoria::hf
