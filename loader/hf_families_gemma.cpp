// Gemma's line: one row per family. What they compute: the papers, and transformers' modeling files of the
// same names.
#include "family_parts.h"
#include "hf_families.h"

#include "fail.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace scoria {
namespace {

using Layers = WindowRule::Layers;

/// Soft caps that are null are off; those left out are the class's own.
void adjust_gemma2(Reading& r) {
    const auto cap = [&](const char* name, double otherwise) {
        return r.settings.is_null(name) ? 0.0f : r.settings.number(name, otherwise);
    };
    r.architecture.logit_soft_cap = cap("final_logit_softcapping", 30);
    for (Layer& layer : r.architecture.layers) layer.attention.soft_cap = cap("attn_logit_softcapping", 50);
    set_scale(r.architecture, 1 / std::sqrt(r.settings.positive("query_pre_attn_scalar", 256.0)));
}

/// Text encoders of Gemma 3: the window counts both sides.
void see_both_sides(Reading& r) {
    if (!r.settings.flag("use_bidirectional_attention", false)) return;
    for (Layer& layer : r.architecture.layers) {
        Attention& attention = layer.attention;
        attention.mask = Mask::bidirectional;
        if (attention.window != 0) attention.window = attention.window / 2 + 1;
    }
}

/// The reference caps no scores, whatever attn_logit_softcapping is.
void adjust_gemma3(Reading& r) {
    r.architecture.logit_soft_cap = r.settings.number("final_logit_softcapping", 0);
    r.settings.understood("attn_logit_softcapping");
    see_both_sides(r);
    set_scale(r.architecture, 1 / std::sqrt(r.settings.positive("query_pre_attn_scalar", 256.0)));
}

constexpr LayerNumber gemma4_numbers[] = {{"model.layers.#.layer_scalar", scale_of}};

/// How many deviations above the mean of a normal distribution leave `share` of it below.
double normal_quantile(double share) {
    double below = -40, above = 40;
    for (int i = 0; i < 100; ++i) {
        const double middle = (below + above) / 2;
        (std::erfc(-middle / std::numbers::sqrt2) / 2 < share ? below : above) = middle;
    }
    return (below + above) / 2;
}

void adjust_gemma3n(Reading& r) {
    const Settings& s = r.settings;
    Architecture& a = r.architecture;
    if (s.size("altup_active_idx", most_size, 0, 0) != 0) s.wrong("altup_active_idx", "0");
    s.understood("altup_coef_clip");  // of training, as is the other
    s.understood("altup_lr_multiplier");
    a.alternating = {.count = s.size("altup_num_inputs", most_streams, 4, 2),
                     .laurel = s.size("laurel_rank", most_size, 64),
                     .scaled = s.flag("altup_correct_scale", true)};
    a.logit_soft_cap = s.number("final_logit_softcapping", 0);
    a.per_layer = s.size("hidden_size_per_layer_input", 1 << 16, 256);
    const uint32_t rows = s.size("vocab_size_per_layer_input", a.vocab, std::min(262144u, a.vocab));
    const StoredTensor* table = r.catalog.find("model.embed_tokens_per_layer.weight");
    if (table && !table->shape.empty() && table->shape.front() != rows)
        s.wrong("vocab_size_per_layer_input", cat(table->shape.front(), ", the rows of the table"));
    share_keys(s, "num_kv_shared_layers", a);
    norm_values(a);
    const char* name = "activation_sparsity_pattern";
    std::vector<double> shares = s.numbers(name);
    if (!s.has(name) && a.layers.size() > 10) shares.assign(10, 0.95);
    for (double& share : shares) {
        if (!(share < 1)) s.wrong(name, "shares below 1");
        // Of float32, as the reference computes it.
        share = share > 0 ? normal_quantile(double{static_cast<float>(share)})
                          : -std::numeric_limits<double>::infinity();
    }
    cut_gates(s, name, shares, a);
}

constexpr Routing apart_experts{.renormalise = true, .weight_scale = true, .apart = true};

void adjust_gemma4(Reading& r) {
    const Settings& s = r.settings;
    Architecture& a = r.architecture;
    expect_text(s, "use_bidirectional_attention", "vision");  // which texts do not see
    if (a.layers.back().attention.window != 0) s.wrong("layer_types", "full_attention at the end");
    a.logit_soft_cap = s.number("final_logit_softcapping", 0);
    a.per_layer = s.size("hidden_size_per_layer_input", 1 << 16, 0, 0);
    if (s.size("vocab_size_per_layer_input", most_size, a.vocab, 0) != a.vocab && a.per_layer != 0)
        s.wrong("vocab_size_per_layer_input", cat(a.vocab, ", as vocab_size"));
    share_keys(s, "num_kv_shared_layers", a);
    norm_values(a);
    const bool experts = s.flag("enable_moe_block", false), wide = s.flag("use_double_wide_mlp", false),
               v_is_k = s.flag("attention_k_eq_v", false);
    if (experts) s.size(Field::experts, most_size);  // it has some
    for (Layer& layer : a.layers) {
        Attention& attention = layer.attention;
        Routing& routing = layer.feed_forward.routing;
        const bool shares = attention.kv_layer >= 0;
        attention.v_is_k = v_is_k && attention.window == 0 && !shares;
        if (!experts && routing.experts != 0) make_dense(layer, routing.shared_size);
        if (wide && shares) (routing.apart ? routing.shared_size : layer.feed_forward.size) *= 2;
    }
}

#define LAYER "model.layers.#."
constexpr TensorRow muse_glimmer_rows[] = {
    {Role::output_norm, "model.norm.weight"},
    {Role::attention_gate, LAYER "self_attn.gate_proj.weight"},
};
#undef LAYER

/// As Gemma 2, with gated heads, normed embeddings, and q and k normed without weights. Layers without a
/// window, every fourth from the last one on where the file does not say, do not rotate.
void adjust_muse_glimmer(Reading& r) {
    const Settings& s = r.settings;
    Architecture& a = r.architecture;
    const size_t count = a.layers.size();
    a.logit_soft_cap = s.number("final_logit_softcapping", 20);
    a.logit_scale = s.number("output_multiplier", 0.19611613513818404);
    a.post_epsilon = s.number("post_norm_eps", 1e-8);
    r.synthesised[{Role::embedding_norm}] = repeated(a.hidden, 1);
    for (size_t i = 0; i < count; ++i) {
        Attention& attention = a.layers[i].attention;
        attention.output_gate = Attention::OutputGate::elements;
        r.synthesised[{Role::q_norm, int32_t(i)}] =
            repeated(attention.head_dim, s.number("qk_scale_factor", 3.87));
        r.synthesised[{Role::k_norm, int32_t(i)}] = repeated(attention.head_dim, 1);
        if (!s.has("layer_types") && (count - 1 - i) % 4 == 0) attention.window = 0;
    }
}

}  // namespace

std::span<const Family> gemma_families() {
    static const Family families[] = {
        {.name = "gemma",
         .tensors = {hf::frame_plus_one, hf::frame, hf::attention, hf::gated},
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .activation = Activation::gelu_tanh,
         .gelu_is_tanh = true,
         .root_embedding_scale = true},
        {.name = "gemma2",
         .tensors = {hf::gemma2, hf::frame, hf::attention, hf::gated},
         .placement = NormPlacement::sandwich,
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .window = {.layers = Layers::not_every, .every = 2, .otherwise = 4096},
         .activation = Activation::gelu_tanh,
         .root_embedding_scale = true,
         .adjust = adjust_gemma2},
        {.name = "vaultgemma",
         .tensors = {hf::gemma2, hf::frame, hf::attention, hf::gated},
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .window = {.layers = Layers::not_every, .every = 2, .otherwise = 4096},
         .activation = Activation::gelu_tanh,
         .root_embedding_scale = true,
         .adjust = adjust_gemma2},
        {.name = "gemma3_text",
         .tensors = {hf::gemma2, hf::frame, hf::attention, hf::gated},
         .placement = NormPlacement::sandwich,
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .qk_norm = QkNorm::Group::head,
         .rope_base = 1e6,
         .local_rope_base = 1e4,
         .window = {Layers::not_every, 6},
         .activation = Activation::gelu_tanh,
         .root_embedding_scale = true,
         .adjust = adjust_gemma3},
        {.name = "gemma3n_text",
         .tensors = {hf::gemma3n, hf::gemma4, hf::frame, hf::attention, hf::gated, hf::qk_norms},
         .placement = NormPlacement::sandwich,
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .qk_norm = QkNorm::Group::head,
         .rope_base = 1e6,
         .local_rope_base = 1e4,
         .window = {Layers::not_every, 5},
         .activation = Activation::gelu_tanh,
         .root_embedding_scale = true,
         .adjust = adjust_gemma3n},
        {.name = "gemma4_text",
         .tensors = {hf::gemma4, hf::frame, hf::attention, hf::gated, hf::qk_norms},
         .placement = NormPlacement::sandwich,
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .qk_norm = QkNorm::Group::head,
         .split_heads = true,
         .rope_base = 1e6,
         .local_rope_base = 1e4,
         .window = {Layers::not_every, 6},
         .activation = Activation::gelu_tanh,
         .routing = &apart_experts,
         .root_embedding_scale = true,
         .layer_numbers = gemma4_numbers,
         .adjust = adjust_gemma4},
        {.name = "muse_glimmer_text",
         .tensors = {muse_glimmer_rows, hf::gemma2, hf::frame, hf::attention, hf::gated},
         .placement = NormPlacement::sandwich,
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .qk_norm = QkNorm::Group::head,
         .full_layers = Family::FullLayers::rest,
         .rope_by_layer = true,
         .window = {.layers = Layers::all, .otherwise = 2048},
         .embedding_norm = true,
         .adjust = adjust_muse_glimmer},
    };
    return families;
}

}  // namespace scoria
