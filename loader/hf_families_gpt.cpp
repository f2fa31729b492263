// GPT and its kin: learned positions, ALiBi, parallel blocks. One row per family.
#include "hf_families.h"

#include "fail.h"
#include "family_parts.h"

#include <cmath>

namespace scoria {
namespace {

using Layers = WindowRule::Layers;
using enum Layout;

constexpr TensorRow codegen_rows[] = {
    {Role::q, "transformer.h.#.attn.qkv_proj.weight", qvk_quarters},
    {Role::k, "transformer.h.#.attn.qkv_proj.weight", qvk_quarters},
    {Role::v, "transformer.h.#.attn.qkv_proj.weight", qvk_quarters},
};
// Of models that were trained with fairseq.
#define FAIRSEQ_ROWS(MODEL, HEAD)                                                                            \
    {Role::token_embedding, MODEL ".embed_tokens.weight"}, {Role::output, HEAD},                             \
        {Role::position_embedding, MODEL ".embed_positions.weight", positions},                              \
        {Role::output_norm, MODEL ".layer_norm.weight"}, {Role::output_norm_bias, MODEL ".layer_norm.bias"}, \
        {Role::attention_norm, MODEL ".layers.#.self_attn_layer_norm.weight"},                               \
        {Role::attention_norm_bias, MODEL ".layers.#.self_attn_layer_norm.bias"},                            \
        {Role::q, MODEL ".layers.#.self_attn.q_proj.weight"},                                                \
        {Role::q_bias, MODEL ".layers.#.self_attn.q_proj.bias"},                                             \
        {Role::k, MODEL ".layers.#.self_attn.k_proj.weight"},                                                \
        {Role::k_bias, MODEL ".layers.#.self_attn.k_proj.bias"},                                             \
        {Role::v, MODEL ".layers.#.self_attn.v_proj.weight"},                                                \
        {Role::v_bias, MODEL ".layers.#.self_attn.v_proj.bias"},                                             \
        {Role::o, MODEL ".layers.#.self_attn.out_proj.weight"},                                              \
        {Role::o_bias, MODEL ".layers.#.self_attn.out_proj.bias"},                                           \
        {Role::feed_forward_norm, MODEL ".layers.#.final_layer_norm.weight"},                                \
        {Role::feed_forward_norm_bias, MODEL ".layers.#.final_layer_norm.bias"},                             \
        {Role::up, MODEL ".layers.#.fc1.weight"}, {Role::up_bias, MODEL ".layers.#.fc1.bias"},               \
        {Role::down, MODEL ".layers.#.fc2.weight"}, {                                                        \
        Role::down_bias, MODEL ".layers.#.fc2.bias"                                                          \
    }
constexpr TensorRow xglm_rows[] = {FAIRSEQ_ROWS("model", "lm_head.weight")};
constexpr TensorRow biogpt_rows[] = {FAIRSEQ_ROWS("biogpt", "output_projection.weight")};
#undef FAIRSEQ_ROWS

void adjust_gpt2(Reading& r) {
    if (!r.settings.flag("scale_attn_weights", true)) set_scale(r.architecture, 1);
    if (!r.settings.flag("scale_attn_by_inverse_layer_idx", false)) return;
    float layer_number = 1;
    for (Layer& layer : r.architecture.layers) layer.attention.scale /= layer_number++;
}

/// StarCoder and SantaCoder; one head of keys, or as many as of queries.
void adjust_gpt_bigcode(Reading& r) {
    adjust_gpt2(r);
    for (const char* same : {"attention_softmax_in_fp32", "scale_attention_softmax_in_fp32"})
        r.settings.understood(same);
    if (!r.settings.flag("multi_query", true)) return;
    for (Layer& layer : r.architecture.layers) layer.attention.kv_heads = 1;
}

/// The last token of the vocabulary only begins images; it has an embedding and no logit.
void adjust_imagegpt(Reading& r) {
    adjust_gpt2(r);
    if (r.architecture.vocab < 2) r.settings.wrong("vocab_size", "at least 2");
    if (!r.settings.flag("tie_word_embeddings", false)) r.architecture.outputs = r.architecture.vocab - 1;
}

/// Scores are not scaled. Types of layers: attention_layers, or attention_types as [[names, times], ...].
void adjust_gpt_neo(Reading& r) {
    set_scale(r.architecture, 1);
    r.settings.refuse(std::array{"layer_types"});
    const nlohmann::json* types = r.settings.find("attention_types");
    if (r.settings.has("attention_layers")) return;
    std::vector<bool> local;
    for (const nlohmann::json& entry : types ? *types : nlohmann::json::array()) {
        if (!entry.is_array() || entry.size() != 2 || !entry[0].is_array() ||
            !entry[1].is_number_unsigned() || entry[1].get<uint64_t>() > most_layers)
            r.settings.wrong("attention_types", "a list of [names, times]");
        for (uint64_t i = 0; i < entry[1].get<uint64_t>(); ++i)
            for (const nlohmann::json& name : entry[0]) {
                if (name != "local" && name != "global")
                    r.settings.wrong("attention_types", "local or global");
                local.push_back(name == "local");
            }
    }
    if (local.size() != r.architecture.layers.size())
        r.settings.wrong("attention_types", cat(r.architecture.layers.size(), " layers"));
    for (size_t i = 0; i < local.size(); ++i)
        if (!local[i]) r.architecture.layers[i].attention.window = 0;
}

/// Rotations are told by fields of its own, or by rope_parameters; newer files repeat them by common names.
void adjust_gpt_neox(Reading& r) {
    const Settings& s = r.settings;
    struct Twice {
        const char *name, *own;
        double otherwise;
    };
    for (const Twice& each :
         {Twice{"rope_theta", "rotary_emb_base", 10000}, Twice{"partial_rotary_factor", "rotary_pct", 0.25}})
        if (const double said = s.positive(each.own, each.otherwise);
            !s.has("rope_parameters") && s.positive(each.name, said) != said)
            s.wrong(each.name, cat("the number of ", each.own, ", ", said));
    if (!r.settings.flag("use_parallel_residual", true)) r.architecture.placement = NormPlacement::pre;
}

void adjust_opt(Reading& r) {
    Architecture& architecture = r.architecture;
    const bool before = r.settings.flag("do_layer_norm_before", true);
    architecture.placement = before ? NormPlacement::pre : NormPlacement::post;
    architecture.output_norm = !r.settings.flag("_remove_final_layer_norm", false) && before;
    architecture.norm.weight = architecture.norm.bias =
        r.settings.flag("layer_norm_elementwise_affine", true);
    const uint32_t width = r.settings.size("word_embed_proj_dim", most_size, architecture.hidden);
    architecture.embedding = width == architecture.hidden ? 0 : width;
}

void adjust_bloom(Reading& r) {
    if (r.settings.flag("apply_residual_connection_post_layernorm", false))
        r.architecture.placement = NormPlacement::normed;
    expect_flag(r.settings, "slow_but_exact", false, false);  // leaves out biases where it does anything
    expect_activation(r, Activation::gelu_tanh);
    use_alibi(r);
}

/// Three generations under one name: Falcon-RW, Falcon 7B, and Falcon 40B and 2 ("new").
void adjust_falcon(Reading& r) {
    Architecture& architecture = r.architecture;
    const Settings& settings = r.settings;
    const bool is_new = settings.flag("new_decoder_architecture", false);
    const bool one = settings.flag("multi_query", true);
    const uint32_t heads = architecture.layers.front().attention.heads;
    const char* name = settings.has("n_head_kv") ? "n_head_kv" : "num_kv_heads";
    const uint32_t listed = settings.size(name, heads, heads);
    const uint32_t kv_heads = is_new ? listed : one ? 1 : heads;
    if (heads % kv_heads != 0) settings.wrong(name, cat("a divisor of ", heads));
    for (Layer& layer : architecture.layers) layer.attention.kv_heads = kv_heads;

    const uint32_t norms = settings.size("num_ln_in_parallel_attn", 2, is_new ? 2 : 1);
    if (is_new && norms == 2)
        architecture.placement = NormPlacement::parallel_2;
    else if (is_new || settings.flag("parallel_attn", true))
        architecture.placement = NormPlacement::parallel;
    settings.understood("parallel_attn");
    // Its slopes are added before the scores are scaled.
    if (settings.flag("alibi", false)) use_alibi(r, double{architecture.layers.front().attention.scale});
}

/// transformers computes ALiBi with a largest exponent of 8 and no biases whatever the config says.
void adjust_mpt(Reading& r) {
    const Settings attention = r.settings.section("attn_config");
    expect_flag(attention, "alibi", true, true);
    expect_flag(attention, "qk_ln", false, false);
    expect_flag(attention, "prefix_lm", false, false);
    expect_text(attention, "attn_type", "multihead_attention");
    if (attention.positive("alibi_bias_max", 8.0) != 8) attention.wrong("alibi_bias_max", "8");
    for (const char* ignored : {"attn_impl", "alibi_bias_max"}) attention.understood(ignored);
    for (const char* ignored : {"expansion_ratio", "learned_pos_emb", "no_bias", "norm_type"})
        r.settings.understood(ignored);
    r.settings.refuse(std::array{"logit_scale"});
    for (Layer& layer : r.architecture.layers) {
        Attention& its = layer.attention;
        its.clip = static_cast<float>(attention.positive("clip_qkv", 0.0));
        its.scale = static_cast<float>(attention.positive("softmax_scale", double{its.scale}));
    }
    attention.refuse_unknown(is_harmless_field);
    expect_activation(r, Activation::gelu);
    use_alibi(r);
}

void adjust_phi(Reading& r) {
    if (!r.settings.flag("qk_layernorm", false)) return;
    for (Layer& layer : r.architecture.layers) layer.attention.qk_norm.group = QkNorm::Group::head;
}

void adjust_gptj(Reading& r) {
    if (!r.settings.has("rotary_dim")) r.settings.wrong("rotary_dim", "how many elements of a head rotate");
}

void adjust_codegen(Reading& r) {
    adjust_gptj(r);
    if (r.architecture.hidden % 4 != 0)
        r.settings.wrong(r.settings.name_of(Field::hidden), "a multiple of 4");
}

/// Embeddings are scaled where the file does not say otherwise.
void adjust_biogpt(Reading& r) {
    if (r.settings.flag("scale_embedding", true))
        r.architecture.embedding_scale = std::sqrt(static_cast<float>(r.architecture.hidden));
    r.settings.understood("layer_norm_eps");  // its class has PyTorch's, whatever it is
}

/// Positions are computed, from 2 on.
void adjust_xglm(Reading& r) {
    Architecture& a = r.architecture;
    adjust_biogpt(r);
    expect_flag(r.settings, "add_cross_attention", false, false);
    check_table(r.settings, "max_position_embeddings", a.positions, a.hidden);
    r.synthesised[{Role::position_embedding}] = [positions = a.positions, width = a.hidden] {
        return sinusoids_to_slowest(2, positions, width);
    };
}

/// Heads turn backwards, and are normed after that.
void adjust_nanochat(Reading& r) {
    Architecture& a = r.architecture;
    for (Rope& rope : a.ropes) {
        if (rope.ntk_base > 0) r.settings.wrong("rope_parameters", "no rope_type dynamic");
        for (std::vector<double>* turns : {&rope.inverse_frequencies, &rope.long_inverse_frequencies})
            for (double& frequency : *turns) frequency = -frequency;
    }
    for (Layer& layer : a.layers) layer.attention.qk_norm.norm.weight = true;  // of ones
    norm_lengths(std::vector<bool>(a.layers.size(), true), r);
    if (!r.settings.is_null("final_logit_softcapping"))
        a.logit_soft_cap = r.settings.number("final_logit_softcapping", 15);
}

/// `own` rows count before the others.
Family gptj(const char* name, std::span<const TensorRow> own = {}, Adjust adjust = adjust_gptj) {
    return {.name = name,
            .tensors = {own, hf::gptj, hf::gpt2},
            .prefix = "transformer.",
            .norm = NormKind::layer,
            .norm_bias = true,
            .placement = NormPlacement::parallel,
            .pairs = RopePairs::interleaved,
            .rotates_part = true,
            .activation = Activation::gelu_tanh,
            .gated = false,
            .feed_forward_factor = 4,
            .feed_forward_bias = biased,
            .output_bias = biased,
            .adjust = adjust};
}

Family fairseq(const char* name, const char* prefix, std::span<const TensorRow> rows, Adjust adjust) {
    return {.name = name,
            .tensors = {rows},
            .prefix = prefix,
            .norm = NormKind::layer,
            .norm_bias = true,
            .epsilon = 1e-5,
            .qkv_bias = biased,
            .o_bias = biased,
            .rope = false,
            .activation = Activation::gelu,
            .gated = false,
            .feed_forward_bias = biased,
            .positions = true,
            .adjust = adjust};
}

/// Adept 2023.
void adjust_persimmon(Reading& r) {
    if (!r.settings.flag("qk_layernorm", true)) return;
    for (Layer& layer : r.architecture.layers) layer.attention.qk_norm.group = QkNorm::Group::head;
}

}  // namespace

std::span<const Family> gpt_families() {
    static const Family families[] = {
        {.name = "openai-gpt",
         .tensors = {hf::gpt1, hf::gpt2},
         .prefix = "transformer.",
         .norm = NormKind::layer,
         .norm_bias = true,
         .placement = NormPlacement::post,
         .output_norm = false,
         .qkv_bias = biased,
         .o_bias = biased,
         .rope = false,
         .activation = Activation::gelu_tanh,
         .gated = false,
         .gelu_is_tanh = true,
         .feed_forward_factor = 4,
         .feed_forward_bias = biased,
         .positions = true},
        {.name = "gpt2",
         .tensors = {hf::gpt2},
         .prefix = "transformer.",
         .norm = NormKind::layer,
         .norm_bias = true,
         .qkv_bias = biased,
         .o_bias = biased,
         .rope = false,
         .activation = Activation::gelu_tanh,
         .gated = false,
         .feed_forward_factor = 4,
         .feed_forward_bias = biased,
         .positions = true,
         .adjust = adjust_gpt2},
        {.name = "gpt_bigcode",
         .tensors = {hf::gpt_bigcode, hf::gpt2},
         .prefix = "transformer.",
         .norm = NormKind::layer,
         .norm_bias = true,
         .qkv_bias = biased,
         .o_bias = biased,
         .rope = false,
         .activation = Activation::gelu_tanh,
         .gated = false,
         .feed_forward_factor = 4,
         .feed_forward_bias = biased,
         .positions = true,
         .adjust = adjust_gpt_bigcode},
        {.name = "imagegpt",
         .tensors = {hf::gpt2},
         .prefix = "transformer.",
         .qkv_bias = biased,
         .o_bias = biased,
         .rope = false,
         .activation = Activation::gelu_quick,
         .gated = false,
         .feed_forward_factor = 4,
         .feed_forward_bias = biased,
         .positions = true,
         .adjust = adjust_imagegpt},
        {.name = "gpt_neo",
         .tensors = {hf::gpt_neo, hf::gpt2},
         .prefix = "transformer.",
         .norm = NormKind::layer,
         .norm_bias = true,
         .o_bias = biased,
         .rope = false,
         .window = {.layers = Layers::all, .otherwise = 256},
         .activation = Activation::gelu_tanh,
         .gated = false,
         .feed_forward_factor = 4,
         .feed_forward_bias = biased,
         .positions = true,
         .adjust = adjust_gpt_neo},
        gptj("gptj"),
        gptj("codegen", codegen_rows, adjust_codegen),
        fairseq("xglm", "model.", xglm_rows, adjust_xglm),
        fairseq("biogpt", "biogpt.", biogpt_rows, adjust_biogpt),
        {.name = "nanochat",
         .tensors = {hf::frame, hf::attention, hf::phi},
         .norm_weight = false,
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .activation = Activation::relu_squared,
         .gated = false,
         .embedding_norm = true,
         .adjust = adjust_nanochat},
        {.name = "persimmon",
         .tensors = {hf::persimmon, hf::frame},
         .norm = NormKind::layer,
         .norm_bias = true,
         .qkv_bias = biased,
         .o_bias = biased,
         .rotary = 0.5,
         .activation = Activation::relu_squared,
         .gated = false,
         .feed_forward_bias = biased,
         .adjust = adjust_persimmon},
        {.name = "gpt_neox",
         .tensors = {hf::gpt_neox},
         .norm = NormKind::layer,
         .norm_bias = true,
         .placement = NormPlacement::parallel_2,
         .qkv_bias = by_flag("attention_bias", true),
         .o_bias = by_flag("attention_bias", true),
         .rotary = 0.25,
         .activation = Activation::gelu,
         .gated = false,
         .feed_forward_bias = biased,
         .adjust = adjust_gpt_neox},
        {.name = "opt",
         .tensors = {hf::opt},
         .norm = NormKind::layer,
         .norm_bias = true,
         .epsilon = 1e-5,
         .qkv_bias = by_flag("enable_bias", true),
         .o_bias = by_flag("enable_bias", true),
         .rope = false,
         .activation = Activation::relu,
         .gated = false,
         .feed_forward_bias = by_flag("enable_bias", true),
         .positions = true,
         .adjust = adjust_opt},
        {.name = "bloom",
         .tensors = {hf::bloom_like},
         .prefix = "transformer.",
         .context = 2048,
         .norm = NormKind::layer,
         .norm_bias = true,
         .qkv_bias = biased,
         .o_bias = biased,
         .rope = false,
         .activation = Activation::gelu_tanh,
         .gated = false,
         .feed_forward_factor = 4,
         .feed_forward_bias = biased,
         .embedding_norm = true,
         .adjust = adjust_bloom},
        {.name = "falcon",
         .tensors = {hf::bloom_like},
         .prefix = "transformer.",
         .context = 2048,
         .norm = NormKind::layer,
         .norm_bias = true,
         .qkv_bias = by_flag("bias", false),
         .o_bias = by_flag("bias", false),
         .activation = Activation::gelu,
         .gated = false,
         .feed_forward_factor = 4,
         .feed_forward_bias = by_flag("bias", false),
         .adjust = adjust_falcon},
        {.name = "mpt",
         .tensors = {hf::mpt},
         .prefix = "transformer.",
         .norm = NormKind::layer,
         .rope = false,
         .activation = Activation::gelu,
         .gated = false,
         .feed_forward_factor = 4,
         .adjust = adjust_mpt},
        {.name = "phi",
         .tensors = {hf::phi, hf::frame, hf::attention},
         .norm = NormKind::layer,
         .norm_bias = true,
         .placement = NormPlacement::parallel,
         .qkv_bias = biased,
         .o_bias = biased,
         .rotary = 0.5,
         .activation = Activation::gelu_tanh,
         .gated = false,
         .feed_forward_bias = biased,
         .output_bias = biased,
         .adjust = adjust_phi},
    };
    return families;
}

}  // namespace scoria
