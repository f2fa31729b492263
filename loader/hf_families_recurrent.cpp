// Families some of whose layers are recurrences: LFM2 and 3, Qwen3-Next and 3.5, OLMo Hybrid, Bamba, Granite
// 4, Nemotron-H; or have one beside attention: Falcon-H1.
#include "hf_families.h"

#include "fail.h"
#include "family_parts.h"
#include "recurrent_layers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace scoria {
namespace {

using enum Layout;

#define LAYER "model.layers.#."
constexpr TensorRow lfm2_rows[] = {
    {Role::output_norm, "model.embedding_norm.weight"},
    {Role::attention_norm, LAYER "operator_norm.weight"},
    {Role::feed_forward_norm, LAYER "ffn_norm.weight"},
    {Role::o, LAYER "self_attn.out_proj.weight"},
    {Role::q_norm, LAYER "self_attn.q_layernorm.weight"},
    {Role::k_norm, LAYER "self_attn.k_layernorm.weight"},
    {Role::gate, LAYER "feed_forward.w1.weight"},
    {Role::up, LAYER "feed_forward.w3.weight"},
    {Role::down, LAYER "feed_forward.w2.weight"},
    {Role::mixer_in, LAYER "conv.in_proj.weight", mixer},
    {Role::mixer_in_gate, LAYER "conv.in_proj.weight", mixer},
    {Role::mixer_gate, LAYER "conv.in_proj.weight", mixer},
    {Role::mixer_taps, LAYER "conv.conv.weight"},
    {Role::mixer_out, LAYER "conv.out_proj.weight"},
    {Role::router, LAYER "feed_forward.gate.weight"},
    {Role::router_choice_bias, LAYER "feed_forward.expert_bias"},
    {Role::expert_gate, LAYER "feed_forward.experts.gate_up_proj", experts_gate_up},
    {Role::expert_up, LAYER "feed_forward.experts.gate_up_proj", experts_gate_up},
    {Role::expert_down, LAYER "feed_forward.experts.down_proj"},
    {Role::expert_gate, LAYER "feed_forward.experts.@.w1.weight", per_expert},
    {Role::expert_up, LAYER "feed_forward.experts.@.w3.weight", per_expert},
    {Role::expert_down, LAYER "feed_forward.experts.@.w2.weight", per_expert},
};
constexpr TensorRow lfm3_rows[] = {
    {Role::attention_post_norm, LAYER "post_operator_norm.weight"},
    {Role::feed_forward_post_norm, LAYER "post_ffn_norm.weight"},
    {Role::attention_gate, LAYER "self_attn.gate_proj.weight"},
    {Role::attention_gate, LAYER "self_attn.g_proj.weight"},
};
constexpr TensorRow delta_rows[] = {
    {Role::q, LAYER "self_attn.q_proj.weight", q_gated},
    {Role::attention_gate, LAYER "self_attn.q_proj.weight", q_gated},
    {Role::q_norm, LAYER "self_attn.q_norm.weight", plus_one},
    {Role::k_norm, LAYER "self_attn.k_norm.weight", plus_one},
    {Role::mixer_in, LAYER "linear_attn.in_proj_qkv.weight"},
    {Role::mixer_gate, LAYER "linear_attn.in_proj_z.weight"},
    {Role::mixer_beta, LAYER "linear_attn.in_proj_b.weight"},
    {Role::mixer_step, LAYER "linear_attn.in_proj_a.weight"},
    {Role::mixer_in, LAYER "linear_attn.in_proj_qkvz.weight", mixer_grouped},
    {Role::mixer_gate, LAYER "linear_attn.in_proj_qkvz.weight", mixer_grouped},
    {Role::mixer_beta, LAYER "linear_attn.in_proj_ba.weight", mixer_grouped},
    {Role::mixer_step, LAYER "linear_attn.in_proj_ba.weight", mixer_grouped},
    {Role::mixer_step_bias, LAYER "linear_attn.dt_bias"},
    {Role::mixer_decay, LAYER "linear_attn.A_log", negative_exp},
    {Role::mixer_taps, LAYER "linear_attn.conv1d.weight"},
    {Role::mixer_norm, LAYER "linear_attn.norm.weight"},
    {Role::mixer_out, LAYER "linear_attn.out_proj.weight"},
};
constexpr TensorRow olmo_hybrid_rows[] = {
    // As published, and as transformers saves all that it calls post_attention_layernorm.
    {Role::attention_norm, LAYER "attention_layer_norm.weight"},
    {Role::feed_forward_norm, LAYER "feedforward_layer_norm.weight"},
    {Role::attention_post_norm, LAYER "feedforward_layer_norm.weight"},
    {Role::mixer_q, LAYER "linear_attn.q_proj.weight"},
    {Role::mixer_k, LAYER "linear_attn.k_proj.weight"},
    {Role::mixer_v, LAYER "linear_attn.v_proj.weight"},
    {Role::mixer_q_taps, LAYER "linear_attn.q_conv1d.weight", channels},
    {Role::mixer_k_taps, LAYER "linear_attn.k_conv1d.weight", channels},
    {Role::mixer_v_taps, LAYER "linear_attn.v_conv1d.weight", channels},
    {Role::mixer_gate, LAYER "linear_attn.g_proj.weight"},
    {Role::mixer_beta, LAYER "linear_attn.b_proj.weight"},
    {Role::mixer_step, LAYER "linear_attn.a_proj.weight"},
    {Role::mixer_step_bias, LAYER "linear_attn.dt_bias"},
    {Role::mixer_decay, LAYER "linear_attn.A_log", negative_exp},
    {Role::mixer_norm, LAYER "linear_attn.o_norm.weight"},
    {Role::mixer_out, LAYER "linear_attn.o_proj.weight"},
};
constexpr TensorRow mamba_rows[] = {
    {Role::mixer_in, LAYER "mamba.in_proj.weight", mixer},
    {Role::mixer_gate, LAYER "mamba.in_proj.weight", mixer},
    {Role::mixer_step, LAYER "mamba.in_proj.weight", mixer},
    {Role::mixer_step_bias, LAYER "mamba.dt_bias"},
    {Role::mixer_decay, LAYER "mamba.A_log", negative_exp},
    {Role::mixer_skip, LAYER "mamba.D"},
    {Role::mixer_taps, LAYER "mamba.conv1d.weight"},
    {Role::mixer_taps_bias, LAYER "mamba.conv1d.bias"},
    {Role::mixer_norm, LAYER "mamba.norm.weight"},
    {Role::mixer_out, LAYER "mamba.out_proj.weight"},
};
constexpr TensorRow bamba_rows[] = {
    {Role::output_norm, "model.final_layernorm.weight"},
    {Role::feed_forward_norm, LAYER "pre_ff_layernorm.weight"},
    {Role::gate, LAYER "feed_forward.gate_proj.weight"},
    {Role::up, LAYER "feed_forward.up_proj.weight"},
    {Role::down, LAYER "feed_forward.down_proj.weight"},
    {Role::gate_bias, LAYER "feed_forward.gate_proj.bias"},
    {Role::up_bias, LAYER "feed_forward.up_proj.bias"},
    {Role::down_bias, LAYER "feed_forward.down_proj.bias"},
};
#undef LAYER
#define LAYER "backbone.layers.#."
constexpr TensorRow nemotron_rows[] = {
    {Role::feed_forward_norm, LAYER "norm.weight"},  // a layer has this, or that of attention
    {Role::q, LAYER "mixer.q_proj.weight"},
    {Role::k, LAYER "mixer.k_proj.weight"},
    {Role::v, LAYER "mixer.v_proj.weight"},
    {Role::o, LAYER "mixer.o_proj.weight"},
    {Role::q_bias, LAYER "mixer.q_proj.bias"},
    {Role::k_bias, LAYER "mixer.k_proj.bias"},
    {Role::v_bias, LAYER "mixer.v_proj.bias"},
    {Role::o_bias, LAYER "mixer.o_proj.bias"},
    {Role::up, LAYER "mixer.up_proj.weight"},
    {Role::down, LAYER "mixer.down_proj.weight"},
    {Role::router, LAYER "mixer.gate.weight"},
    {Role::router_choice_bias, LAYER "mixer.gate.e_score_correction_bias"},
    {Role::expert_up, LAYER "mixer.experts.@.up_proj.weight", per_expert},
    {Role::expert_down, LAYER "mixer.experts.@.down_proj.weight", per_expert},
    {Role::expert_up, LAYER "mixer.experts.up_proj"},
    {Role::expert_down, LAYER "mixer.experts.down_proj"},
    {Role::shared_up, LAYER "mixer.shared_experts.up_proj.weight"},
    {Role::shared_down, LAYER "mixer.shared_experts.down_proj.weight"},
};
#undef LAYER

constexpr Routing lfm2_experts{
    .score = Routing::Score::sigmoid, .renormalise = true, .choice_bias = true, .group_by_top2 = true};
constexpr Routing renormalised_shared_experts{.renormalise = true, .shared_size = 512, .shared_gate = true};
constexpr Routing granite_experts{.score = Routing::Score::softmax_chosen};
constexpr Routing nemotron_experts{.score = Routing::Score::sigmoid,
                                   .renormalise = true,
                                   .choice_bias = true,
                                   .group_by_top2 = true,
                                   .shared_size = 7688};

constexpr StateSpaceFields mamba_fields{.taps = "mamba_d_conv",
                                        .taps_bias = "mamba_conv_bias",
                                        .heads = "mamba_n_heads",
                                        .groups = {"mamba_n_groups", 1},
                                        .key_dim = {"mamba_d_state", 256},
                                        .value_dim = {"mamba_d_head", 0}},
    nemotron_fields{.taps = "conv_kernel",
                    .taps_bias = "use_conv_bias",
                    .heads = "mamba_num_heads",
                    .groups = {"n_groups", 8},
                    .key_dim = {"ssm_state_size", 128},
                    .value_dim = {"mamba_head_dim", 64}};

/// The width of LFM2's feed-forward is two thirds of what the file says, times a factor, rounded up.
void adjust_lfm2(Reading& r) {
    const Settings& s = r.settings;
    expect_flag(s, "conv_bias", false, false);
    expect_activation(r, Activation::silu);
    expect_flag(s, "block_use_swiglu", true, true);
    expect_flag(s, "use_pos_enc", true, true);
    for (const char* width : {"block_dim", "conv_dim", "conv_dim_out"})
        if (s.size(width, most_size, r.architecture.hidden) != r.architecture.hidden)
            s.wrong(width, "the model's hidden size");
    for (const char* other : {"tie_embedding", "block_norm_eps", "block_mlp_init_scale",
                              "block_out_init_scale", "block_use_xavier_init", "conv_use_xavier_init"})
        s.understood(other);  // of training, or said once more
    const char* of_attention = "full_attn_idxs";
    if (s.numbers(of_attention).empty()) expect_layer_types(s);
    use_recurrence(r.architecture, recurrent_layers(s, r.architecture.layers.size(), of_attention),
                   short_convolution(s, "conv_L_cache", r.architecture.hidden));
    const uint32_t multiple = s.size("block_multiple_of", most_size, 256);
    const double factor = s.positive("block_ffn_dim_multiplier", 1.0);
    uint64_t size = r.architecture.layers.front().feed_forward.size;
    if (s.has("block_ff_dim")) size = s.size("block_ff_dim", most_size);
    if (s.flag("block_auto_adjust_ff_dim", true)) {
        size = static_cast<uint64_t>(factor * double(2 * size / 3));
        size = (size + multiple - 1) / multiple * multiple;
    }
    if (size == 0 || size > most_size) s.wrong("block_ffn_dim_multiplier", "another factor");
    for (Layer& layer : r.architecture.layers) layer.feed_forward.size = static_cast<uint32_t>(size);
}

void adjust_lfm2_moe(Reading& r) {
    const Settings& s = r.settings;
    expect_flag(s, "conv_bias", false, false);
    expect_activation(r, Activation::silu);
    s.understood("tie_embedding");
    expect_layer_types(s);
    use_recurrence(r.architecture, recurrent_layers(s, r.architecture.layers.size()),
                   short_convolution(s, "conv_L_cache", r.architecture.hidden));
    for (Layer& layer : r.architecture.layers) {
        layer.feed_forward.routing.choice_bias = s.flag("use_expert_bias", true);
        layer.feed_forward.routing.scale = s.number("routed_scaling_factor", 1);
    }
    make_first_dense(r.architecture, s.size("num_dense_layers", most_layers, 2, 0),
                     s.size(Field::feed_forward, most_size));
}

/// Layers are of short convolutions, or of attention with a window or without, each head's result with a
/// gate.
void adjust_lfm3(Reading& r) {
    const Settings& s = r.settings;
    Architecture& a = r.architecture;
    expect_flag(s, "conv_bias", false, false);
    expect_activation(r, Activation::silu);
    expect_layer_types(s);
    if (!s.flag("use_sandwich_norm", true)) a.placement = NormPlacement::pre;
    for (Layer& layer : a.layers)
        if (s.flag("use_attention_gate", true)) layer.attention.output_gate = Attention::OutputGate::heads;
    use_recurrence(a, recurrent_layers(s, a.layers.size()), short_convolution(s, "conv_L_cache", a.hidden));
}

/// Sizes of a gated delta rule; 0 for `key_dim` and `value_dim`: a share of `hidden`, and twice the other.
Recurrence read_delta(const Settings& s, uint32_t groups, uint32_t heads, uint32_t key_dim,
                      uint32_t value_dim, uint32_t hidden = 0) {
    Recurrence delta;
    delta.kind = RecurrenceKind::delta;
    delta.taps = s.size("linear_conv_kernel_dim", most_taps, 4, 2);
    delta.groups = s.size("linear_num_key_heads", 1 << 16, groups);
    delta.heads = s.size("linear_num_value_heads", 1 << 16, heads);
    delta.key_dim = s.size("linear_key_head_dim", most_state_dim,
                           key_dim ? key_dim : uint64_t{hidden} * 3 / 4 / delta.groups);
    delta.value_dim =
        s.size("linear_value_head_dim", most_state_dim, value_dim ? value_dim : 2 * delta.key_dim);
    check_heads(s, "linear_num_value_heads", delta);
    return delta;
}

void adjust_delta(Reading& r) {
    const Settings& s = r.settings;
    expect_text(s, "hidden_act", "silu");  // which its convolution has too
    Recurrence delta = read_delta(s, 16, 32, 128, 128);
    delta.epsilon = r.architecture.norm.epsilon;
    for (const char* other : {"mtp_num_hidden_layers", "mtp_use_dedicated_embeddings", "mamba_ssm_dtype"})
        s.understood(other);
    expect_flag(s, "attn_output_gate", true, true);
    expect_flag(s, "attention_bias", false, false);
    const uint32_t every = s.size("full_attention_interval", most_layers, 4);
    std::vector<bool> recurs = recurrent_layers(s, r.architecture.layers.size());
    if (!s.has("layer_types"))
        for (size_t i = 0; i < recurs.size(); ++i) recurs[i] = (i + 1) % every != 0;
    for (Layer& layer : r.architecture.layers) layer.attention.output_gate = Attention::OutputGate::elements;
    use_recurrence(r.architecture, recurs, delta);
}

/// A delta rule behind a norm in three layers of four, attention before one in the others, as OLMo 3 has it,
/// without positions where the file says that their base is null (OLMo Hybrid).
void adjust_olmo_hybrid(Reading& r) {
    const Settings& s = r.settings;
    Architecture& a = r.architecture;
    expect_text(s, "hidden_act", "silu");
    expect_flag(s, "linear_use_gate", true, true);
    for (const char* of_training :
         {"linear_a_log_min", "linear_a_log_max", "linear_dt_min", "linear_dt_max", "linear_dt_init_floor"})
        s.understood(of_training);
    const uint32_t heads = s.size(Field::heads, 1 << 16);
    Recurrence delta = read_delta(s, heads, heads, 0, 0, a.hidden);
    delta.separate = true;
    delta.beta_scale = s.flag("linear_allow_neg_eigval", true) ? 2 : 1;
    delta.epsilon = 1e-5f;  // its code's, whatever the file says of others
    std::vector<bool> recurs = recurrent_layers(s, a.layers.size());
    if (!s.has("layer_types")) {
        for (size_t i = 0; i < recurs.size(); ++i) recurs[i] = i % 4 != 3;
        if (recurs.size() < 4) recurs.back() = false;
    }
    for (size_t i = 0; i < recurs.size(); ++i)
        if (!recurs[i]) a.layers[i].placement = NormPlacement::output;
    const char* base = "rope_theta";
    const Settings rope = s.section("rope_parameters");
    if (rope.is_null(base) || (s.is_null(base) && !rope.has(base))) a.ropes.clear();
    use_recurrence(a, recurs, delta);
}

/// Mamba-2 as Bamba has it, and Granite, and of a width of its own, Falcon-H1.
Recurrence read_mamba(const Reading& r) {
    const Settings& s = r.settings;
    expect_text(s, "hidden_act", "silu");  // which its convolution has too
    expect_flag(s, "mamba_proj_bias", false, false);
    s.understood("mamba_chunk_size");
    uint64_t width = uint64_t{s.size("mamba_expand", 1 << 10, 2)} * r.architecture.hidden;
    if (s.has("mamba_d_ssm")) width = s.size("mamba_d_ssm", 1 << 20);
    const Recurrence mamba = read_state_space(s, mamba_fields, r.architecture.norm.epsilon, width);
    if (uint64_t{mamba.heads} * mamba.value_dim != width)
        s.wrong("mamba_d_head", cat("heads that fill a width of ", width));
    return mamba;
}

/// Layers are of attention or of Mamba-2, each with experts and one that all tokens pass, or with that alone.
void adjust_granite_hybrid(Reading& r) {
    adjust_granite(r);
    const Settings& s = r.settings;
    if (s.text("position_embedding_type") != "rope") r.architecture.ropes.clear();
    for (const char* other : {"normalization_function", "num_experts_per_tok"}) s.understood(other);
    if (!s.has(Field::experts)) s.wrong(s.name_of(Field::experts), "how many, or 0");
    const Recurrence mamba = read_mamba(r);
    const uint32_t shared = s.size("shared_intermediate_size", most_size, 1024);
    for (Layer& layer : r.architecture.layers) {
        Routing& routing = layer.feed_forward.routing;
        (routing.experts ? routing.shared_size : layer.feed_forward.size) = shared;
    }
    expect_layer_types(s);
    use_recurrence(r.architecture, recurrent_layers(s, r.architecture.layers.size()), mamba);
}

/// Layers are of Mamba-2, but those that are listed.
void adjust_bamba(Reading& r) {
    const Settings& s = r.settings;
    for (const char* other : {"num_logits_to_keep", "z_loss_coefficient"}) s.understood(other);
    const uint32_t width = r.architecture.ropes.front().width;
    if (s.positive("partial_rotary_factor", 0.5) != 0.5)
        s.wrong("partial_rotary_factor", "0.5, as its class");
    if (s.size("attn_rotary_emb", most_size, width) != width) s.wrong("attn_rotary_emb", cat(width));
    use_recurrence(r.architecture, recurrent_layers(s, r.architecture.layers.size(), "attn_layer_indices"),
                   read_mamba(r));
}

/// Numbers of a list, all 1 where there is none.
std::vector<float> multipliers(const Settings& s, const char* name, size_t count) {
    const std::vector<double> listed = s.numbers(name);
    if (listed.empty()) return std::vector<float>(count, 1.0f);
    if (listed.size() != count || std::ranges::any_of(listed, [](double each) {
            return std::abs(each) > double{std::numeric_limits<float>::max()};
        }))
        s.wrong(name, cat(count, " numbers that floats hold"));
    return {listed.begin(), listed.end()};
}

/// Every layer has attention and Mamba-2 side by side (Zuo et al. 2025, Falcon-H1), and multipliers of what
/// goes in and out.
void adjust_falcon_h1(Reading& r) {
    const Settings& s = r.settings;
    Architecture& a = r.architecture;
    expect_flag(s, "projectors_bias", false, false);
    for (const char* other :
         {"num_logits_to_keep", "attn_layer_indices", "mlp_expansion_factor", "mamba_use_mlp"})
        s.understood(other);
    a.embedding_scale = s.number("embedding_multiplier", 1);
    a.logit_scale = s.number("lm_head_multiplier", 1);
    Recurrence mamba = read_mamba(r);
    mamba.normed = s.flag("mamba_rms_norm", false);
    mamba.norm_first = s.flag("mamba_norm_before_gate", true) && mamba.normed;
    const float in = s.number("ssm_in_multiplier", 1), attention_in = s.number("attention_in_multiplier", 1),
                key = s.number("key_multiplier", 1);
    const std::vector<float> parts = multipliers(s, "ssm_multipliers", 5),
                             feed_forward = multipliers(s, "mlp_multipliers", 2);
    float* const places[] = {&mamba.gate_scale, &mamba.v_scale, &mamba.k_scale, &mamba.q_scale,
                             &mamba.step_scale};
    for (size_t i = 0; i < parts.size(); ++i) *places[i] = in * parts[i];
    if (attention_in != 1) expect_flag(s, "attention_bias", false, false);  // it would not be multiplied
    use_in_all_layers(a, mamba);
    for (Layer& layer : a.layers) {
        layer.attention.scale *= key * attention_in * attention_in;
        layer.attention_out = attention_in * s.number("attention_out_multiplier", 1);
        layer.recurrence_out = s.number("ssm_out_multiplier", 1);
        layer.feed_forward.gate_scale = feed_forward[0];
        layer.feed_forward_out = feed_forward[1];
    }
}

/// The types of a Nemotron-H's layers, one letter each, as older files have them: Mamba, attention, MLP,
/// experts.
std::string nemotron_pattern(const Settings& s, size_t layers) {
    std::string pattern = s.text("hybrid_override_pattern");
    constexpr std::pair<std::string_view, char> letters[] = {
        {"linear_attention", 'M'}, {"mamba", 'M'}, {"full_attention", '*'},
        {"attention", '*'},        {"mlp", '-'},   {"moe", 'E'}};
    for (const char* name : {"layers_block_type", "layer_types"}) {
        const std::vector<std::string> types = s.texts(name);
        if (!types.empty()) pattern.clear();
        for (const std::string& type : types) {
            const auto letter = std::ranges::find(letters, type, [](const auto& each) { return each.first; });
            if (letter == std::end(letters)) s.wrong(name, "mamba, attention, mlp or moe in every place");
            pattern += letter->second;
        }
    }
    if (pattern.size() != layers || pattern.find_first_not_of("M*-E") != pattern.npos)
        s.wrong("hybrid_override_pattern", cat("M, *, - or E for each of ", layers, " layers"));
    return pattern;
}

/// Every layer is one thing alone: a state space, attention without positions, a feed-forward, or experts.
void adjust_nemotron(Reading& r) {
    const Settings& s = r.settings;
    std::vector<Layer>& layers = r.architecture.layers;
    for (const char* bias : {"use_bias", "mlp_bias", "mamba_proj_bias"}) expect_flag(s, bias, false, false);
    expect_text(s, "mamba_hidden_act", "silu");
    s.refuse(std::array{"moe_latent_size"});
    for (const char* other : {"chunk_size", "expand", "mamba_ssm_cache_dtype", "mtp_layers_block_type",
                              "mtp_hybrid_override_pattern", "moe_shared_expert_overlap", "n_shared_experts",
                              "num_logits_to_keep", "rescale_prenorm_residual", "residual_in_fp32",
                              "time_step_rank", "use_mamba_kernels"})
        s.understood(other);
    const Recurrence mamba = read_state_space(s, nemotron_fields, r.architecture.norm.epsilon);
    const uint32_t size = s.size(Field::feed_forward, most_size), groups = s.size("n_group", 1 << 16, 1);
    const Activation activation = activation_named(s, "mlp_hidden_act", s.text("mlp_hidden_act", "relu2"));
    const std::string pattern = nemotron_pattern(s, layers.size());
    std::vector<bool> recurs(layers.size());
    for (size_t i = 0; i < layers.size(); ++i) {
        FeedForward& feed_forward = layers[i].feed_forward;
        Routing& routing = feed_forward.routing;
        feed_forward.activation = activation;
        routing.scale = s.number("routed_scaling_factor", 1);
        routing.groups = groups;
        routing.groups_used = s.size("topk_group", groups, 1);
        if (routing.experts % groups != 0) s.wrong("n_group", "a divisor of n_routed_experts");
        recurs[i] = pattern[i] == 'M';
        if (pattern[i] == 'E' && routing.experts == 0)
            s.wrong("n_routed_experts", "experts for layers of them");
        if (pattern[i] != 'E') make_dense(layers[i], pattern[i] == '-' ? size : 0);
        if (pattern[i] != '*') layers[i].attention = {};
    }
    use_recurrence(r.architecture, recurs, mamba);
}

}  // namespace

std::span<const Family> recurrent_families() {
    static const Family families[] = {
        {.name = "lfm2",
         .tensors = {lfm2_rows, hf::frame, hf::attention},
         .qk_norm = QkNorm::Group::head,
         .rope_base = 1e6,
         .output_decides = true,
         .recurrence = RecurrenceKind::convolution,
         .adjust = adjust_lfm2},
        {.name = "lfm2_moe",
         .tensors = {lfm2_rows, hf::frame, hf::attention},
         .qk_norm = QkNorm::Group::head,
         .rope_base = 1e6,
         .routing = &lfm2_experts,
         .output_decides = true,
         .recurrence = RecurrenceKind::convolution,
         .adjust = adjust_lfm2_moe},
        {.name = "lfm3",
         .tensors = {lfm3_rows, lfm2_rows, hf::frame, hf::attention, hf::qk_norms},
         .placement = NormPlacement::sandwich,
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .qk_norm = QkNorm::Group::head,
         .rope_base = 1e6,
         .local_rope_base = 1e4,
         .window = {.layers = WindowRule::Layers::not_every, .every = 4, .otherwise = 256},
         .recurrence = RecurrenceKind::convolution,
         .adjust = adjust_lfm3},
        {.name = "qwen3_next",
         .tensors = {delta_rows, hf::experts, hf::frame_plus_one, hf::frame, hf::attention, hf::gated},
         .qk_norm = QkNorm::Group::head,
         .rotary = 0.25,
         .routing = &renormalised_shared_experts,
         .recurrence = RecurrenceKind::delta,
         .adjust = adjust_delta},
        {.name = "qwen3_5_text",
         .tensors = {delta_rows, hf::frame_plus_one, hf::frame, hf::attention, hf::gated},
         .qk_norm = QkNorm::Group::head,
         .rotary = 0.25,
         .recurrence = RecurrenceKind::delta,
         .adjust = adjust_delta},
        {.name = "qwen3_5_moe_text",
         .tensors = {delta_rows, hf::experts, hf::frame_plus_one, hf::frame, hf::attention, hf::gated},
         .qk_norm = QkNorm::Group::head,
         .rotary = 0.25,
         .routing = &renormalised_shared_experts,
         .recurrence = RecurrenceKind::delta,
         .adjust =
             [](Reading& r) {
                 expect_flag(r.settings, "norm_topk_prob", true, true);
                 adjust_delta(r);
             }},
        {.name = "olmo_hybrid",
         .tensors = {olmo_hybrid_rows, hf::olmo2, hf::frame, hf::attention, hf::gated, hf::qk_norms},
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .qk_norm = QkNorm::Group::projection,
         .recurrence = RecurrenceKind::delta,
         .adjust = adjust_olmo_hybrid},
        {.name = "bamba",
         .tensors = {bamba_rows, mamba_rows, hf::frame, hf::attention},
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .rotary = 0.5,
         .feed_forward_bias = mlp_bias,
         .recurrence = RecurrenceKind::state_space,
         .adjust = adjust_bamba},
        {.name = "falcon_h1",
         .tensors = {bamba_rows, mamba_rows, hf::frame, hf::attention},
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .feed_forward_bias = mlp_bias,
         .recurrence = RecurrenceKind::state_space,
         .recurs_beside = true,
         .adjust = adjust_falcon_h1},
        {.name = "granitemoehybrid",
         .tensors = {hf::granite_moe, hf::granite_shared, hf::frame, hf::attention, mamba_rows},
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .routing = &granite_experts,
         .recurrence = RecurrenceKind::state_space,
         .adjust = adjust_granite_hybrid},
        {.name = "nemotron_h",
         .tensors = {nemotron_rows, hf::mamba2, hf::frame},
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .rope = false,
         .activation = Activation::relu_squared,
         .gated = false,
         .routing = &nemotron_experts,
         .output_decides = true,
         .recurrence = RecurrenceKind::state_space,
         .adjust = adjust_nemotron},
    };
    return families;
}

}  // namespace scoria
