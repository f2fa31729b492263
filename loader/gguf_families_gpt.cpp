// GGUF's families that descend from GPT-2 and GPT-NeoX: layer norms, most with biases.
#include "family_parts.h"
#include "gguf_families.h"

namespace scoria {
namespace {

using Layers = WindowRule::Layers;
using gguf::common;

#define LAYER "blk.#."
constexpr TensorRow falcon_40b[] = {
    // of 7B and 2, attn_norm is the only norm
    {Role::attention_norm, LAYER "attn_norm_2.weight"},
    {Role::attention_norm_bias, LAYER "attn_norm_2.bias"},
    {Role::feed_forward_norm, LAYER "attn_norm.weight"},
    {Role::feed_forward_norm_bias, LAYER "attn_norm.bias"},
};
#undef LAYER

void adjust_falcon(Reading& r) {
    if (r.catalog.find("blk.0.attn_norm_2.weight") != nullptr)
        r.architecture.placement = NormPlacement::parallel_2;
}

void adjust_parallel(Reading& r) {
    const bool parallel =
        r.settings.flag("use_parallel_residual", r.architecture.placement != NormPlacement::pre);
    if (!parallel) r.architecture.placement = NormPlacement::pre;
}

void adjust_stablelm(Reading& r) {
    if (r.settings.flag("use_parallel_residual", false)) r.architecture.placement = NormPlacement::parallel;
}

/// The converter multiplies embeddings and output by the scales of the folder; scores are divided by the
/// width of heads, not its root (Yang et al. 2022).
void adjust_jais(Reading& r) {
    gguf::adjust_alibi(r);
    set_scale(r.architecture, 1.0 / r.architecture.layers.front().attention.head_dim);
}

/// What GPT-2 has, and most after it.
Family gpt_like(Family family) {
    family.norm = NormKind::layer;
    family.norm_bias = true;
    family.qkv_bias = family.o_bias = family.feed_forward_bias = biased;
    family.activation = Activation::gelu_tanh;
    family.gated = false;
    return family;
}

}  // namespace

void gguf::adjust_alibi(Reading& r) {
    if (r.settings.positive("attention.max_alibi_bias", 8.0) != 8)
        r.settings.wrong("attention.max_alibi_bias", "8");
    use_alibi(r);
}

std::span<const Family> gguf_gpt_families() {
    static const Family families[] = {
        gpt_like({.name = "gpt2", .tensors = {common}, .rope = false, .positions = true}),
        gpt_like({.name = "starcoder", .tensors = {common}, .rope = false, .positions = true}),
        {.name = "codeshell",
         .tensors = {common},
         .norm = NormKind::layer,
         .norm_bias = true,
         .qkv_bias = if_present,
         .o_bias = biased,
         .activation = Activation::gelu_tanh,
         .gated = false,
         .feed_forward_bias = biased},
        {.name = "gptneox",
         .tensors = {common},
         .norm = NormKind::layer,
         .norm_bias = true,
         .placement = NormPlacement::parallel_2,
         .qkv_bias = if_present,
         .o_bias = if_present,
         .activation = Activation::gelu,
         .gated = false,
         .feed_forward_bias = biased,
         .adjust = adjust_parallel},
        gpt_like({.name = "bloom",
                  .tensors = {common},
                  .rope = false,
                  .embedding_norm = true,
                  .adjust = gguf::adjust_alibi}),
        {.name = "mpt",
         .tensors = {common},
         .norm = NormKind::layer,
         .clips = true,
         .rope = false,
         .activation = Activation::gelu,
         .gated = false,
         .adjust = gguf::adjust_alibi},
        {.name = "falcon",
         .tensors = {falcon_40b, common},
         .norm = NormKind::layer,
         .norm_bias = true,
         .placement = NormPlacement::parallel,
         .activation = Activation::gelu,
         .gated = false,
         .adjust = adjust_falcon},
        gpt_like({.name = "phi2",
                  .tensors = {common},
                  .placement = NormPlacement::parallel,
                  .output_bias = biased}),
        {.name = "starcoder2",
         .tensors = {common},
         .norm = NormKind::layer,
         .norm_bias = true,
         .qkv_bias = if_present,
         .o_bias = if_present,
         .window = {Layers::all},
         .activation = Activation::gelu_tanh,
         .gated = false,
         .feed_forward_bias = if_present},
        {.name = "stablelm",
         .tensors = {common},
         .norm = NormKind::layer,
         .norm_bias = true,
         .qkv_bias = if_present,
         .adjust = adjust_stablelm},
        {.name = "orion", .tensors = {common}, .norm = NormKind::layer, .norm_bias = true},
        {.name = "jais",
         .tensors = {common},
         .norm = NormKind::layer,
         .norm_bias = true,
         .qkv_bias = biased,
         .o_bias = biased,
         .rope = false,
         .feed_forward_bias = biased,
         .adjust = adjust_jais},
        {.name = "jais2",
         .tensors = {common},
         .norm = NormKind::layer,
         .norm_bias = true,
         .qkv_bias = if_present,
         .o_bias = if_present,
         .activation = Activation::relu_squared,
         .gated = false,
         .feed_forward_bias = if_present},
        {.name = "nemotron",  // the converter adds 1 to the norms
         .tensors = {common},
         .norm = NormKind::layer,
         .norm_bias = true,
         .qkv_bias = if_present,
         .o_bias = if_present,
         .activation = Activation::relu_squared,
         .gated = false,
         .feed_forward_bias = if_present},
    };
    return families;
}

}  // namespace scoria
