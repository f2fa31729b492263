// The families of GGUF files, one row each: names of llama.cpp's gguf-py/gguf/constants.py, and what its
// converter does to the weights.
#include "gguf_families.h"

#include <cmath>

namespace scoria {
namespace {

using enum Layout;
using Layers = WindowRule::Layers;

#define LAYER "blk.#."
constexpr TensorRow common[] = {
    {Role::token_embedding, "token_embd.weight"},
    {Role::position_embedding, "position_embd.weight"},
    {Role::embedding_norm, "token_embd_norm.weight"},
    {Role::embedding_norm_bias, "token_embd_norm.bias"},
    {Role::output_norm, "output_norm.weight"},
    {Role::output_norm_bias, "output_norm.bias"},
    {Role::output, "output.weight"},
    {Role::output_bias, "output.bias"},
    {Role::attention_norm, LAYER "attn_norm.weight"},
    {Role::attention_norm_bias, LAYER "attn_norm.bias"},
    {Role::q, LAYER "attn_q.weight"},
    {Role::k, LAYER "attn_k.weight"},
    {Role::v, LAYER "attn_v.weight"},
    {Role::q, LAYER "attn_qkv.weight", qkv},
    {Role::k, LAYER "attn_qkv.weight", qkv},
    {Role::v, LAYER "attn_qkv.weight", qkv},
    {Role::o, LAYER "attn_output.weight"},
    {Role::q_bias, LAYER "attn_q.bias"},
    {Role::k_bias, LAYER "attn_k.bias"},
    {Role::v_bias, LAYER "attn_v.bias"},
    {Role::q_bias, LAYER "attn_qkv.bias", qkv},
    {Role::k_bias, LAYER "attn_qkv.bias", qkv},
    {Role::v_bias, LAYER "attn_qkv.bias", qkv},
    {Role::o_bias, LAYER "attn_output.bias"},
    {Role::q_norm, LAYER "attn_q_norm.weight"},
    {Role::k_norm, LAYER "attn_k_norm.weight"},
    {Role::attention_post_norm, LAYER "post_attention_norm.weight"},
    {Role::feed_forward_norm, LAYER "ffn_norm.weight"},
    {Role::feed_forward_norm_bias, LAYER "ffn_norm.bias"},
    {Role::gate, LAYER "ffn_gate.weight"},
    {Role::gate_bias, LAYER "ffn_gate.bias"},
    {Role::up, LAYER "ffn_up.weight"},
    {Role::up_bias, LAYER "ffn_up.bias"},
    {Role::down, LAYER "ffn_down.weight"},
    {Role::down_bias, LAYER "ffn_down.bias"},
    {Role::feed_forward_post_norm, LAYER "post_ffw_norm.weight"},
};
#undef LAYER

}  // namespace

std::span<const Family> gguf_families() {
    static const Family families[] = {
        {.name = "llama",  // Mistral, Mixtral and SmolLM2 as well; the converter permutes rows of q and k
         .tensors = {common},
         .qkv_bias = if_present,
         .o_bias = if_present,
         .pairs = RopePairs::interleaved,
         .window = {Layers::all}},
        {.name = "qwen2", .tensors = {common}, .qkv_bias = biased, .window = {Layers::all}},
        {.name = "qwen3", .tensors = {common}, .qk_norm = QkNorm::Group::head, .window = {Layers::all}},
    };
    return families;
}

}  // namespace scoria
