// The families of GGUF files, one row each: names of llama.cpp's gguf-py/gguf/constants.py, and what its
// converter does to the weights.
#include "gguf_families.h"

#include "family_parts.h"
#include "feature_draft.h"

#include <algorithm>
#include <cmath>

namespace scoria {
namespace {

using enum Layout;
using Layers = WindowRule::Layers;
using gguf::common, gguf::fused_gate_up, gguf::post_attention_norm;

#define LAYER "blk.#."
constexpr TensorRow common_rows[] = {
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
    {Role::heads_norm, LAYER "attn_sub_norm.weight"},
    {Role::inner_norm, LAYER "ffn_sub_norm.weight"},
};
constexpr TensorRow expert_rows[] = {
    {Role::router, LAYER "ffn_gate_inp.weight"},
    {Role::router_bias, LAYER "ffn_gate_inp.bias"},
    {Role::expert_gate, LAYER "ffn_gate_exps.weight"},
    {Role::expert_gate_bias, LAYER "ffn_gate_exps.bias"},
    {Role::expert_up, LAYER "ffn_up_exps.weight"},
    {Role::expert_up_bias, LAYER "ffn_up_exps.bias"},
    {Role::expert_down, LAYER "ffn_down_exps.weight"},
    {Role::expert_down_bias, LAYER "ffn_down_exps.bias"},
    {Role::expert_gate, LAYER "ffn_gate_up_exps.weight", experts_gate_up},
    {Role::expert_up, LAYER "ffn_gate_up_exps.weight", experts_gate_up},
    {Role::expert_gate, LAYER "ffn_gate.@.weight", per_expert},  // older files
    {Role::expert_up, LAYER "ffn_up.@.weight", per_expert},
    {Role::expert_down, LAYER "ffn_down.@.weight", per_expert},
    {Role::shared_gate, LAYER "ffn_gate_shexp.weight"},
    {Role::shared_up, LAYER "ffn_up_shexp.weight"},
    {Role::shared_down, LAYER "ffn_down_shexp.weight"},
    {Role::shared_expert_gate, LAYER "ffn_gate_inp_shexp.weight"},
    {Role::router_choice_bias, LAYER "exp_probs_b.bias"},
};
constexpr TensorRow fused_gate_up_rows[] = {
    {Role::gate, LAYER "ffn_up.weight", gate_up},
    {Role::up, LAYER "ffn_up.weight", gate_up},
};
// Of those whose norm before the feed-forward is called so.
constexpr TensorRow post_attention_norm_rows[] = {
    {Role::feed_forward_norm, LAYER "post_attention_norm.weight"},
};
constexpr TensorRow plamo3[] = {
    {Role::attention_post_norm, LAYER "post_attention_norm"},
    {Role::feed_forward_post_norm, LAYER "post_ffw_norm"},
};
constexpr TensorRow muse_glimmer[] = {
    {Role::attention_gate, LAYER "attn_gate.weight"},
};
constexpr TensorRow gemma3n[] = {
    {Role::altup_in, "altup_proj.weight"},
    {Role::altup_out, "altup_unembd_proj.weight"},
    {Role::altup_router, LAYER "altup_router.weight"},
    {Role::altup_router_norm, LAYER "altup_router_norm.weight"},
    {Role::altup_predict, LAYER "altup_predict_coef.weight"},
    {Role::altup_correct, LAYER "altup_correct_coef.weight"},
    {Role::altup_scale, LAYER "altup_correct_scale.weight"},
    {Role::laurel_left, LAYER "laurel_l.weight"},
    {Role::laurel_right, LAYER "laurel_r.weight"},
    {Role::laurel_norm, LAYER "laurel_post_norm.weight"},
};
constexpr TensorRow gemma4[] = {
    {Role::per_layer_embedding, "per_layer_token_embd.weight"},
    {Role::per_layer_projection, "per_layer_model_proj.weight"},
    {Role::per_layer_norm, "per_layer_proj_norm.weight"},
    {Role::per_layer_gate, LAYER "inp_gate.weight"},
    {Role::per_layer_out, LAYER "proj.weight"},
    {Role::per_layer_post_norm, LAYER "post_norm.weight"},
    {Role::router_norm, LAYER "ffn_gate_inp.scale"},
    {Role::router_weight_scale, LAYER "ffn_down_exps.scale"},
    {Role::expert_norm, LAYER "pre_ffw_norm_2.weight"},
    {Role::expert_post_norm, LAYER "post_ffw_norm_2.weight"},
    {Role::shared_gate, LAYER "ffn_gate.weight"},
    {Role::shared_up, LAYER "ffn_up.weight"},
    {Role::shared_down, LAYER "ffn_down.weight"},
    {Role::shared_post_norm, LAYER "post_ffw_norm_1.weight"},
};
#undef LAYER

constexpr Routing renormalised_experts{.renormalise = true},
    apart_experts{.renormalise = true, .weight_scale = true, .apart = true};

void adjust_bitnet(Reading& r) { norm_inside(r.architecture); }

void adjust_command_r(Reading& r) {
    r.architecture.logit_scale = r.settings.number("logit_scale", 0.0625);
    if (r.catalog.find("blk.0.attn_q_norm.weight") == nullptr) return;
    for (Layer& layer : r.architecture.layers) {  // Command R+
        layer.attention.qk_norm.group = QkNorm::Group::head;
        layer.attention.qk_norm.own_weights = true;
    }
}

void read_gemma(Reading& r, double soft_cap) {
    for (Layer& layer : r.architecture.layers)
        layer.attention.soft_cap = r.settings.number("attn_logit_softcapping", soft_cap);
    // The file does not hold query_pre_attn_scalar: the head's width, but for the 27B models.
    const size_t layers = r.architecture.layers.size();
    const uint32_t heads = r.architecture.layers.front().attention.heads;
    if (layers == 46 || layers == 62)
        set_scale(r.architecture, 1 / std::sqrt(double(r.architecture.hidden) / heads));
}

void adjust_gemma3(Reading& r) { read_gemma(r, 0); }

/// The first files of it say no caps, which its models have all the same.
void adjust_gemma2(Reading& r) {
    read_gemma(r, 50);
    r.architecture.logit_soft_cap = r.settings.number("final_logit_softcapping", 30);
}

constexpr LayerNumber gemma4_numbers[] = {{"blk.#.layer_output_scale.weight", scale_of}};

void adjust_apertus(Reading& r) {
    const Settings& s = r.settings;
    std::vector<Layer>& layers = r.architecture.layers;
    const auto numbers = [&](const char* name) {
        const std::vector<double> values = s.numbers(name);
        if (values.size() != layers.size() ||
            !std::ranges::all_of(values, [](double each) { return std::isfinite(each); }))
            s.wrong(name, cat("as many finite numbers as layers, ", layers.size()));
        return values;
    };
    const std::vector<double> p = numbers("xielu.alpha_p"), n = numbers("xielu.alpha_n");
    for (const double beta : numbers("xielu.beta"))
        if (beta != 0.5) s.wrong("xielu.beta", "0.5 in every place");
    s.understood("xielu.eps");
    for (size_t i = 0; i < layers.size(); ++i)
        layers[i].feed_forward.xielu = {static_cast<float>(p[i]), static_cast<float>(n[i])};
}

uint32_t rows_of(const Catalog& catalog, const char* name, uint32_t otherwise) {
    const StoredTensor* tensor = catalog.find(name);
    return tensor && tensor->shape.size() == 2 && tensor->shape[0] <= most_size ? uint32_t(tensor->shape[0])
                                                                                : otherwise;
}

void adjust_gemma3n(Reading& r) {
    const Settings& s = r.settings;
    Architecture& a = r.architecture;
    if (s.size("altup.active_idx", most_size, 0, 0) != 0) s.wrong("altup.active_idx", "0");
    a.alternating = {.count = s.size("altup.num_inputs", most_streams, 4, 2),
                     .laurel = rows_of(r.catalog, "blk.0.laurel_l.weight", 64)};
    if (!s.has("final_logit_softcapping")) a.logit_soft_cap = 30;
    a.per_layer = s.size("embedding_length_per_layer_input", 1 << 16, 256);
    share_keys(s, "attention.shared_kv_layers", a);
    norm_values(a);
    const char* name = "activation_sparsity_scale";
    std::vector<double> deviations = s.numbers(name);
    if (!s.has(name))
        deviations.assign(std::min<size_t>(10, a.layers.size()), 1.6448533535003662);  // of 0.95
    cut_gates(s, name, deviations, a);
}

void adjust_gemma4(Reading& r) {
    Architecture& a = r.architecture;
    a.per_layer = r.settings.size("embedding_length_per_layer_input", 1 << 16, 0, 0);
    share_keys(r.settings, "attention.shared_kv_layers", a);
    norm_values(a);
    for (size_t i = 0; i < a.layers.size(); ++i) {
        Attention& attention = a.layers[i].attention;
        attention.v_is_k = attention.kv_layer < 0 && !layer_has(r, "blk.#.attn_v.weight", i);
    }
}

void adjust_muse_glimmer(Reading& r) {
    Architecture& a = r.architecture;
    a.logit_scale = r.settings.number("logit_scale", 1);
    a.post_epsilon = 1e-8f;  // which no key says
    r.synthesised[{Role::embedding_norm}] = repeated(a.hidden, 1);
    for (Layer& layer : a.layers) layer.attention.output_gate = Attention::OutputGate::elements;
}

/// The 13B models are told by their layers; they have ALiBi.
void adjust_baichuan(Reading& r) {
    if (r.architecture.layers.size() == 40) use_alibi(r);
}

/// The file counts the columns of gate and up together.
void adjust_qwen(Reading& r) {
    for (Layer& layer : r.architecture.layers) {
        uint32_t& size = layer.feed_forward.size;
        if (size % 2 != 0) r.settings.wrong(r.settings.name_of(Field::feed_forward), "an even number");
        size /= 2;
    }
}

/// The magnitude of YaRN's rotations is 1, as mscale is taken to be mscale_all_dim.
void adjust_mistral3(Reading& r) {
    r.settings.understood("rope.scaling.yarn_log_multiplier");
    if (!r.settings.has("attention.temperature_scale")) return;
    Rope& rope = r.architecture.ropes.front();
    rope.magnitude = 1;
    rope.query_growth = double{r.settings.number("attention.temperature_scale", 0)};
    rope.growth_length = r.settings.size("rope.scaling.original_context_length", most_size);
}

void read_granite_multipliers(Reading& r) {
    read_multipliers(r, {"embedding_scale", "residual_scale", "logit_scale", "attention.scale"},
                     double{r.architecture.layers.front().attention.scale});
}

/// Granite's multipliers; files of before they had keys have those of the 2B models.
void adjust_minicpm(Reading& r) {
    read_granite_multipliers(r);
    Architecture& a = r.architecture;
    if (!r.settings.has("embedding_scale")) a.embedding_scale = 12;
    if (!r.settings.has("residual_scale")) a.residual_scale = 1.4f / std::sqrt(float(a.layers.size()));
    if (!r.settings.has("logit_scale")) a.logit_scale = 256 / float(a.hidden);
}

/// Latent attention; what multiplies is not in its files, but as published (Hu et al. 2024, section 3).
void adjust_minicpm3(Reading& r) {
    Architecture& a = r.architecture;
    gguf::read_latent(r, {"attention.key_length", "attention.value_length"}, a.hidden / a.attention().heads);
    a.embedding_scale = 12;
    a.residual_scale = 1.4f / std::sqrt(float(a.layers.size()));
    a.logit_scale = 256 / float(a.hidden);
}

void adjust_plm(Reading& r) { gguf::read_latent(r, {"attention.key_length", "attention.value_length"}, {}); }

/// Alpha of its dynamic scaling is another base, as the folder's is.
void adjust_hunyuan_vl(Reading& r) {
    gguf::read_past_axes(r);
    for (const char* other : {"rope.scaling.factor", "rope.scaling.original_context_length"})
        r.settings.understood(other);
    const char* name = "rope.scaling.alpha";
    if (!r.settings.has(name)) return;
    Rope& rope = r.architecture.ropes.front();
    const double alpha = r.settings.positive(name);
    for (size_t i = 0; i < rope.inverse_frequencies.size(); ++i)
        rope.inverse_frequencies[i] *= std::pow(alpha, -2.0 * double(i) / (rope.width - 2));
}

}  // namespace

const std::span<const TensorRow> gguf::common = common_rows, gguf::experts = expert_rows,
                                 gguf::fused_gate_up = fused_gate_up_rows,
                                 gguf::post_attention_norm = post_attention_norm_rows;

void gguf::adjust_granite(Reading& r) {
    read_granite_multipliers(r);
    if (!r.settings.flag("rope.scaling.finetuned", true)) r.architecture.ropes.clear();
}

void gguf::read_past_axes(Reading& r) {
    for (const char* name : {"rope.dimension_sections", "n_deepstack_layers"}) r.settings.understood(name);
}

std::span<const Family> gguf_families() {
    static const std::vector<Family> families = [] {
        std::vector<Family> all;
        for (const auto part : {gguf_decoder_families(), gguf_gpt_families(), gguf_expert_families(),
                                gguf_latent_families(), gguf_encoder_families(), gguf_recurrent_families()})
            all.insert(all.end(), part.begin(), part.end());
        return all;
    }();
    return families;
}

std::span<const Family> gguf_decoder_families() {
    static const Family families[] = {
        {.name = "llama",  // Mistral, Mixtral and SmolLM2 as well; the converter permutes rows of q and k
         .tensors = {common, gguf::experts},
         .qkv_bias = if_present,
         .o_bias = if_present,
         .pairs = RopePairs::interleaved,
         .window = {Layers::all},
         .feed_forward_bias = if_present,
         .routing = &renormalised_experts},
        {.name = "eagle3",
         .tensors = {common},
         .pairs = RopePairs::interleaved,
         .adjust = read_feature_draft},
        {.name = "qwen2", .tensors = {common}, .qkv_bias = biased, .window = {Layers::all}},
        {.name = "qwen3",
         .tensors = {common},
         .qkv_bias = if_present,
         .qk_norm = QkNorm::Group::head,
         .window = {Layers::all}},
        {.name = "mistral3",  // Ministral 3; q and k permuted as for llama, like those of the next four
         .tensors = {common},
         .pairs = RopePairs::interleaved,
         .window = {Layers::all},
         .adjust = adjust_mistral3},
        {.name = "nanbeige",
         .tensors = {common},
         .pairs = RopePairs::interleaved,
         .adjust =
             [](Reading& r) {
                 r.settings.understood("attention.head_dim");  // key_length again
                 repeat_layers(r.settings, "num_loops", "skip_loop_final_norm", r.architecture);
             }},
        {.name = "arcee",
         .tensors = {common},
         .pairs = RopePairs::interleaved,
         .activation = Activation::relu_squared,
         .gated = false},
        {.name = "internlm2", .tensors = {common}, .pairs = RopePairs::interleaved},
        {.name = "xverse", .tensors = {common}, .pairs = RopePairs::interleaved},
        {.name = "baichuan", .tensors = {common}, .pairs = RopePairs::interleaved, .adjust = adjust_baichuan},
        {.name = "deci", .tensors = {common}, .pairs = RopePairs::interleaved},
        {.name = "maincoder",
         .tensors = {common},
         .qk_norm = QkNorm::Group::head,
         .qk_norm_after_rope = true,
         .pairs = RopePairs::interleaved},
        {.name = "minicpm", .tensors = {common}, .pairs = RopePairs::interleaved, .adjust = adjust_minicpm},
        {.name = "minicpm3", .tensors = {gguf::latent, common}, .adjust = adjust_minicpm3},
        {.name = "plm",
         .tensors = {gguf::latent, common},
         .pairs = RopePairs::interleaved,
         .activation = Activation::relu_squared,
         .gated = false,
         .adjust = adjust_plm},
        {.name = "plamo",  // heads of q and o lie as others have them
         .tensors = {common},
         .placement = NormPlacement::parallel},
        {.name = "plamo3",  // the converter adds to the norms what they lack
         .tensors = {plamo3, fused_gate_up, common},
         .placement = NormPlacement::sandwich,
         .qk_norm = QkNorm::Group::head,
         .local_rope_base = 1e4,
         .window = {Layers::not_every, 8}},
        {.name = "ernie4_5", .tensors = {common}, .pairs = RopePairs::interleaved},
        {.name = "seed_oss", .tensors = {post_attention_norm, common}},
        {.name = "bitnet", .tensors = {common}, .adjust = adjust_bitnet},
        {.name = "qwen", .tensors = {common}, .qkv_bias = biased, .adjust = adjust_qwen},
        {.name = "pangu-embedded", .tensors = {common}, .qkv_bias = if_present, .o_bias = biased},
        {.name = "openelm", .tensors = {common}, .qk_norm = QkNorm::Group::head},
        {.name = "refact", .tensors = {common}, .rope = false, .adjust = gguf::adjust_alibi},
        {.name = "paddleocr", .tensors = {common}, .rope_base = 5e5, .adjust = gguf::read_past_axes},
        {.name = "qwen2vl", .tensors = {common}, .qkv_bias = biased, .adjust = gguf::read_past_axes},
        {.name = "qwen3vl",
         .tensors = {common},
         .qk_norm = QkNorm::Group::head,
         .adjust = gguf::read_past_axes},
        {.name = "smollm3",  // a descendant of llama's converter
         .tensors = {common},
         .qkv_bias = if_present,
         .o_bias = if_present,
         .pairs = RopePairs::interleaved,
         .no_rope_every = 4},
        {.name = "granite",  // likewise
         .tensors = {common},
         .qkv_bias = if_present,
         .o_bias = if_present,
         .pairs = RopePairs::interleaved,
         .feed_forward_bias = if_present,
         .adjust = gguf::adjust_granite},
        {.name = "phi3", .tensors = {fused_gate_up, common}, .window = {Layers::all}},
        {.name = "chatglm",  // GLM of 2024, and ChatGLM before it
         .tensors = {fused_gate_up, common},
         .qkv_bias = if_present,
         .pairs = RopePairs::interleaved},
        {.name = "glm4",
         .tensors = {fused_gate_up, common},
         .placement = NormPlacement::sandwich,
         .qkv_bias = if_present,
         .pairs = RopePairs::interleaved},
        {.name = "hunyuan-dense",
         .tensors = {common},
         .qk_norm = QkNorm::Group::head,
         .qk_norm_after_rope = true},
        {.name = "hunyuan_vl",
         .tensors = {common},
         .qk_norm = QkNorm::Group::head,
         .qk_norm_after_rope = true,
         .adjust = adjust_hunyuan_vl},
        {.name = "gemma",  // the converter adds 1 to the norms of all Gemmas
         .tensors = {common},
         .activation = Activation::gelu_tanh,
         .root_embedding_scale = true},
        {.name = "gemma2",
         .tensors = {common},
         .placement = NormPlacement::sandwich,
         .window = {.layers = Layers::not_every, .every = 2, .otherwise = 4096},
         .activation = Activation::gelu_tanh,
         .root_embedding_scale = true,
         .adjust = adjust_gemma2},
        {.name = "gemma3",
         .tensors = {common},
         .placement = NormPlacement::sandwich,
         .qk_norm = QkNorm::Group::head,
         .rope_base = 1e6,
         .local_rope_base = 1e4,
         .window = {Layers::not_every, 6},
         .activation = Activation::gelu_tanh,
         .root_embedding_scale = true,
         .adjust = adjust_gemma3},
        {.name = "gemma3n",
         .tensors = {gemma3n, gemma4, common},
         .placement = NormPlacement::sandwich,
         .qk_norm = QkNorm::Group::head,
         .rope_base = 1e6,
         .local_rope_base = 1e4,
         .window = {Layers::not_every, 5},
         .activation = Activation::gelu_tanh,
         .root_embedding_scale = true,
         .adjust = adjust_gemma3n},
        {.name = "gemma4",
         .tensors = {gemma4, common, gguf::experts},
         .placement = NormPlacement::sandwich,
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
        {.name = "muse-glimmer",  // the converter adds 1 to norms of layers; q and k as for llama
         .tensors = {muse_glimmer, common},
         .placement = NormPlacement::sandwich,
         .qk_norm = QkNorm::Group::head,
         .pairs = RopePairs::interleaved,
         .full_layers = Family::FullLayers::rest,
         .window = {Layers::not_every, 4},
         .embedding_norm = true,
         .adjust = adjust_muse_glimmer},
        {.name = "command-r",
         .tensors = {common},
         .norm = NormKind::layer,
         .placement = NormPlacement::parallel,
         .pairs = RopePairs::interleaved,
         .adjust = adjust_command_r},
        {.name = "cohere2",
         .tensors = {common},
         .norm = NormKind::layer,
         .placement = NormPlacement::parallel,
         .pairs = RopePairs::interleaved,
         .full_layers = Family::FullLayers::rest,
         .window = {Layers::not_every, 4},
         .adjust = adjust_command_r},
        {.name = "olmo",  // q and k permuted as for llama
         .tensors = {common},
         .norm = NormKind::layer,
         .norm_weight = false,
         .clips = true,
         .pairs = RopePairs::interleaved},
        {.name = "olmo2",  // OLMo 3 as well, which has windows
         .tensors = {common},
         .placement = NormPlacement::output,
         .qk_norm = QkNorm::Group::projection,
         .local_rope_base = 5e5,
         .window = {Layers::not_every, 4}},
        {.name = "apertus",
         .tensors = {common},
         .qk_norm = QkNorm::Group::head,
         .rope_base = 12e6,
         .activation = Activation::xielu,
         .gated = false,
         .adjust = adjust_apertus},
        {.name = "exaone", .tensors = {common}, .rope_base = 5e5},
        {.name = "exaone4",
         .tensors = {common},
         .placement = NormPlacement::output,
         .qk_norm = QkNorm::Group::head,
         .full_layers = Family::FullLayers::rest_beside_windows,
         .window = {Layers::not_every, 4}},
    };
    return families;
}

}  // namespace scoria
