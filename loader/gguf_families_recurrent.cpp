// GGUF's families some of whose layers are recurrences: see hf_families_recurrent.cpp.
#include "fail.h"
#include "family_parts.h"
#include "gguf_families.h"
#include "recurrent_layers.h"

#include <algorithm>
#include <cmath>

namespace scoria {
namespace {

using enum Layout;
using gguf::common, gguf::experts, gguf::post_attention_norm;

#define LAYER "blk.#."
constexpr TensorRow lfm2_rows[] = {
    {Role::output_norm, "token_embd_norm.weight"},
    {Role::mixer_in, LAYER "shortconv.in_proj.weight", mixer},
    {Role::mixer_in_gate, LAYER "shortconv.in_proj.weight", mixer},
    {Role::mixer_gate, LAYER "shortconv.in_proj.weight", mixer},
    {Role::mixer_taps, LAYER "shortconv.conv.weight"},
    {Role::mixer_out, LAYER "shortconv.out_proj.weight"},
};
constexpr TensorRow state_rows[] = {
    {Role::mixer_step_bias, LAYER "ssm_dt.bias"},
    {Role::mixer_decay, LAYER "ssm_a"},
    {Role::mixer_skip, LAYER "ssm_d"},
    {Role::mixer_taps, LAYER "ssm_conv1d.weight"},
    {Role::mixer_taps_bias, LAYER "ssm_conv1d.bias"},
    {Role::mixer_norm, LAYER "ssm_norm.weight"},
    {Role::mixer_out, LAYER "ssm_out.weight"},
};
constexpr TensorRow gated_rows[] = {
    {Role::q, LAYER "attn_q.weight", q_gated},
    {Role::attention_gate, LAYER "attn_q.weight", q_gated},
    {Role::mixer_in, LAYER "attn_qkv.weight"},
    {Role::mixer_gate, LAYER "attn_gate.weight"},
};
constexpr TensorRow qwen3_next_rows[] = {
    {Role::mixer_beta, LAYER "ssm_ba.weight", mixer_grouped},
    {Role::mixer_step, LAYER "ssm_ba.weight", mixer_grouped},
    {Role::mixer_in, LAYER "ssm_in.weight", mixer_grouped},  // of older files
    {Role::mixer_gate, LAYER "ssm_in.weight", mixer_grouped},
};
constexpr TensorRow qwen3_5_rows[] = {
    {Role::mixer_beta, LAYER "ssm_beta.weight"},
    {Role::mixer_step, LAYER "ssm_alpha.weight"},
};
constexpr TensorRow mamba_rows[] = {
    {Role::mixer_in, LAYER "ssm_in.weight", mixer},
    {Role::mixer_gate, LAYER "ssm_in.weight", mixer},
    {Role::mixer_step, LAYER "ssm_in.weight", mixer},
};
constexpr TensorRow selective_rows[] = {
    {Role::mixer_in, LAYER "ssm_in.weight", mixer},      {Role::mixer_gate, LAYER "ssm_in.weight", mixer},
    {Role::mixer_step_low, LAYER "ssm_x.weight", mixer}, {Role::mixer_kq, LAYER "ssm_x.weight", mixer},
    {Role::mixer_step, LAYER "ssm_dt.weight"},           {Role::mixer_step_norm, LAYER "ssm_dt_norm.weight"},
    {Role::mixer_k_norm, LAYER "ssm_b_norm.weight"},     {Role::mixer_q_norm, LAYER "ssm_c_norm.weight"},
};
constexpr TensorRow plamo2_rows[] = {
    {Role::mixer_in, LAYER "ssm_in.weight", mixer},
    {Role::mixer_gate, LAYER "ssm_in.weight", mixer},
    {Role::mixer_step_low, LAYER "ssm_x.weight", mixer},
    {Role::mixer_kq, LAYER "ssm_x.weight", mixer},
    {Role::mixer_step, LAYER "ssm_dt.weight"},
    {Role::mixer_step_norm, LAYER "ssm_dt_norm"},
    {Role::mixer_k_norm, LAYER "ssm_b_norm"},
    {Role::mixer_q_norm, LAYER "ssm_c_norm"},
    {Role::attention_post_norm, LAYER "post_attention_norm"},
    {Role::feed_forward_post_norm, LAYER "post_ffw_norm"},
};
constexpr TensorRow kimi_linear_rows[] = {
    {Role::mixer_q, LAYER "attn_q.weight"},
    {Role::mixer_k, LAYER "attn_k.weight"},
    {Role::mixer_v, LAYER "attn_v.weight"},
    {Role::mixer_q_taps, LAYER "ssm_conv1d_q.weight"},
    {Role::mixer_k_taps, LAYER "ssm_conv1d_k.weight"},
    {Role::mixer_v_taps, LAYER "ssm_conv1d_v.weight"},
    {Role::mixer_step_low, LAYER "ssm_f_a.weight"},
    {Role::mixer_step, LAYER "ssm_f_b.weight"},
    {Role::mixer_beta, LAYER "ssm_beta.weight"},
    {Role::mixer_gate_low, LAYER "ssm_g_a.weight"},
    {Role::mixer_gate, LAYER "ssm_g_b.weight"},
    {Role::mixer_out, LAYER "attn_output.weight"},
};
// Ling 3's under the same names, whole matrices where Kimi's are of a low rank.
constexpr TensorRow bailing3_rows[] = {
    {Role::mixer_step, LAYER "ssm_f_a.weight"},
    {Role::mixer_gate, LAYER "ssm_g_a.weight"},
    {Role::mixer_decay, LAYER "ssm_a", negated},
    {Role::attention_gate, LAYER "attn_gate.weight"},
};
constexpr TensorRow minimax_rows[] = {
    {Role::mixer_in, LAYER "attn_qkv.weight", mixer_grouped},
    {Role::mixer_gate, LAYER "attn_gate.weight"},
    {Role::mixer_norm, LAYER "attn_norm_2.weight"},
    {Role::mixer_out, LAYER "attn_output.weight"},
};
constexpr TensorRow wkv_rows[] = {
    {Role::mixer_shift, LAYER "time_mix_lerp_fused.weight"},
    {Role::mixer_q, LAYER "time_mix_receptance.weight"},
    {Role::mixer_k, LAYER "time_mix_key.weight"},
    {Role::mixer_v, LAYER "time_mix_value.weight"},
    {Role::mixer_step_low, LAYER "time_mix_w1.weight"},
    {Role::mixer_step, LAYER "time_mix_w2.weight"},
    {Role::mixer_step_bias, LAYER "time_mix_w0.weight"},
    {Role::mixer_rate_low, LAYER "time_mix_a1.weight"},
    {Role::mixer_rate, LAYER "time_mix_a2.weight"},
    {Role::mixer_rate_bias, LAYER "time_mix_a0.weight"},
    {Role::mixer_value_low, LAYER "time_mix_v1.weight"},
    {Role::mixer_value, LAYER "time_mix_v2.weight"},
    {Role::mixer_value_bias, LAYER "time_mix_v0.weight"},
    {Role::mixer_gate_low, LAYER "time_mix_g1.weight"},
    {Role::mixer_gate, LAYER "time_mix_g2.weight"},
    {Role::mixer_erase, LAYER "time_mix_k_k.weight"},
    {Role::mixer_rate_scale, LAYER "time_mix_k_a.weight"},
    {Role::mixer_bonus, LAYER "time_mix_r_k.weight"},
    {Role::mixer_norm, LAYER "time_mix_ln.weight"},
    {Role::mixer_norm_bias, LAYER "time_mix_ln.bias"},
    {Role::mixer_out, LAYER "time_mix_output.weight"},
};
constexpr TensorRow rwkv7_rows[] = {
    {Role::feed_forward_norm, LAYER "attn_norm_2.weight"},
    {Role::feed_forward_norm_bias, LAYER "attn_norm_2.bias"},
    {Role::feed_forward_shift, LAYER "channel_mix_lerp_k.weight"},
    {Role::up, LAYER "channel_mix_key.weight"},
    {Role::down, LAYER "channel_mix_value.weight"},
};
constexpr TensorRow falcon_h1_rows[] = {
    {Role::feed_forward_norm, LAYER "ffn_norm"},
};
constexpr TensorRow nemotron_rows[] = {
    {Role::feed_forward_norm, LAYER "attn_norm.weight"},  // every layer's one
};
#undef LAYER

constexpr Routing sigmoid_experts{
    .score = Routing::Score::sigmoid, .renormalise = true, .choice_bias = true, .group_by_top2 = true};
constexpr Routing qwen_experts{.renormalise = true, .shared_gate = true};
constexpr Routing granite_experts{.score = Routing::Score::softmax_chosen};

constexpr Routing jamba_experts{}, minimax_experts{.renormalise = true};

std::vector<bool> layers_without_heads(const Reading& r) {
    std::vector<bool> without;
    for (const Layer& layer : r.architecture.layers) without.push_back(layer.attention.heads == 0);
    return without;
}

void adjust_lfm2(Reading& r) {
    use_recurrence(r.architecture, layers_without_heads(r),
                   short_convolution(r.settings, "shortconv.l_cache", r.architecture.hidden));
}

void adjust_lfm2_moe(Reading& r) {
    gguf::read_routing(r, true);
    adjust_lfm2(r);
}

/// Sizes of a state by Mamba's keys; not `grouped`, it is of one group, and the file says 0.
Recurrence read_state(const Settings& keys, RecurrenceKind kind, float epsilon, bool grouped = true) {
    Recurrence state;
    state.kind = kind;
    state.taps = keys.size("ssm.conv_kernel", most_taps, {}, 2);
    state.heads = keys.size("ssm.time_step_rank", 1 << 16);
    state.groups =
        grouped ? keys.size("ssm.group_count", 1 << 16) : keys.size("ssm.group_count", 0, {}, 0) + 1;
    state.key_dim = keys.size("ssm.state_size", most_state_dim);
    const uint32_t width = keys.size("ssm.inner_size", 1 << 20);
    if (width % state.heads != 0 || width / state.heads > most_state_dim)
        keys.wrong("ssm.inner_size", cat("a multiple of ", state.heads, " heads, of at most 256 each"));
    state.value_dim = width / state.heads;
    state.epsilon = epsilon;
    check_heads(keys, "ssm.time_step_rank", state);
    return state;
}

Recurrence read_mamba(const Reading& r) {
    Recurrence mamba = read_state(r.settings, RecurrenceKind::state_space, r.architecture.norm.epsilon);
    mamba.taps_bias = any_layer_has(r, "blk.#.ssm_conv1d.bias");
    return mamba;
}

/// Which recur: those that the file lists, else all but every n-th, where it does not say, `every`-th.
std::vector<bool> listed_layers(const Reading& r, uint32_t every) {
    every = r.settings.size("full_attention_interval", most_layers, every);
    const std::vector<double> listed = r.settings.numbers("attention.recurrent_layers");
    std::vector<bool> recurs(r.architecture.layers.size());
    for (size_t i = 0; i < recurs.size(); ++i)
        recurs[i] = i < listed.size() ? listed[i] != 0 : (i + 1) % every != 0;
    return recurs;
}

/// The converter puts heads that share q and k `groups` apart, but for those of Qwen3-Next.
void adjust_delta(Reading& r) {
    gguf::read_past_axes(r);
    Recurrence delta = read_state(r.settings, RecurrenceKind::delta, r.architecture.norm.epsilon);
    delta.tiled = r.architecture.family != "qwen3next";
    for (Layer& layer : r.architecture.layers) layer.attention.output_gate = Attention::OutputGate::elements;
    use_recurrence(r.architecture, listed_layers(r, 4), delta);
}

/// What all layers add to is multiplied alike.
void adjust_minimax(Reading& r) {
    use_lightning(r, listed_layers(r, 8), 0);
    for (Layer& layer : r.architecture.layers)
        layer.attention_residual = layer.feed_forward_residual =
            static_cast<float>(r.settings.positive("residual_scale"));
}

/// Layers without key/value heads have a delta rule that decays by key, the others latent attention.
void use_delta_by_key(Reading& r, Recurrence delta) {
    const Settings& keys = r.settings;
    const std::vector<bool> recurs = layers_without_heads(r);
    gguf::read_routing(r, true);
    gguf::read_latent(r, {"attention.key_length_mla", "attention.value_length_mla"}, {});
    delta.taps = keys.size("ssm.conv_kernel", most_taps, {}, 2);
    delta.heads = delta.groups = keys.size(keys.name_of(Field::heads), 1 << 16);
    delta.key_dim = delta.value_dim = keys.size("kda.head_dim", most_state_dim);
    check_heads(keys, "kda.head_dim", delta);
    use_recurrence(r.architecture, recurs, delta);
}

void adjust_kimi_linear(Reading& r) {
    Recurrence delta = delta_by_key(r.architecture.norm.epsilon);
    delta.gate_rank = delta.step_rank = r.settings.size("kda.head_dim", most_state_dim);
    use_delta_by_key(r, delta);
}

void adjust_bailing3(Reading& r) {
    const Settings& keys = r.settings;
    gguf::read_past_axes(r);
    Recurrence delta = delta_by_key(r.architecture.norm.epsilon);
    if (keys.flag("kda.safe_gate", true)) delta.bound = read_bound(keys, "kda.gate_lower_bound", -5);
    for (Layer& layer : r.architecture.layers) layer.attention.output_gate = Attention::OutputGate::heads;
    use_delta_by_key(r, delta);
    gguf::read_clamps(r);
}

void adjust_granite_hybrid(Reading& r) {
    gguf::adjust_granite(r);
    const Settings& keys = r.settings;
    const Recurrence mamba = read_mamba(r);
    const uint32_t shared = keys.size(keys.name_of(Field::shared_size), most_size, 0, 0);
    for (Layer& layer : r.architecture.layers)
        if (layer.feed_forward.routing.experts == 0 && shared != 0) layer.feed_forward.size = shared;
    use_recurrence(r.architecture, layers_without_heads(r), mamba);
}

/// The converter multiplies weights by what a folder's config.json says.
void adjust_falcon_h1(Reading& r) {
    Recurrence mamba = read_mamba(r);
    mamba.normed = r.catalog.find("blk.0.ssm_norm.weight") != nullptr;
    use_in_all_layers(r.architecture, mamba);
}

/// Layers with key/value heads are attention, with columns of a feed-forward that, or experts, the others
/// Mamba-2.
void adjust_nemotron(Reading& r) {
    const Settings& keys = r.settings;
    gguf::read_routing(r, true);
    const Recurrence mamba = read_mamba(r);
    std::vector<Layer>& layers = r.architecture.layers;
    std::vector<double> sizes = keys.numbers("feed_forward_length");
    sizes.resize(layers.size(), 0);
    const std::vector<bool> none = layers_without_heads(r);
    std::vector<bool> recurs(layers.size());
    for (size_t i = 0; i < layers.size(); ++i) {
        const bool feeds = sizes[i] != 0;
        recurs[i] = none[i] && !feeds;
        if (!feeds || layers[i].feed_forward.routing.experts == 0)
            make_dense(layers[i], feeds ? static_cast<uint32_t>(sizes[i]) : 0);
    }
    use_recurrence(r.architecture, recurs, mamba);
}

/// Of Mamba's first version: its step's rank in the key that heads have of the second.
Recurrence read_selective(const Reading& r) {
    const Settings& keys = r.settings;
    Recurrence mamba;
    mamba.kind = RecurrenceKind::selective;
    mamba.heads = mamba.groups = 1;
    mamba.taps = keys.size("ssm.conv_kernel", most_taps, {}, 2);
    mamba.step_rank = keys.size("ssm.time_step_rank", 1 << 16);
    mamba.key_dim = keys.size("ssm.state_size", most_state_dim);
    mamba.value_dim = keys.size("ssm.inner_size", 1 << 20);
    mamba.taps_bias = any_layer_has(r, "blk.#.ssm_conv1d.bias");
    check_heads(keys, "ssm.inner_size", mamba);
    return mamba;
}

void adjust_mamba(Reading& r) {
    Recurrence mamba = read_selective(r);
    if (r.settings.flag("ssm.dt_b_c_rms", false)) {
        mamba.part_norms = Recurrence::PartNorms::plain;
        mamba.epsilon = r.architecture.norm.epsilon;
    }
    use_in_all_layers(r.architecture, mamba);
}

/// Layers without key/value heads are Mamba; those with a router have experts, all of the same columns.
void adjust_jamba(Reading& r) {
    Recurrence mamba = read_selective(r);
    mamba.part_norms = Recurrence::PartNorms::weighted;
    mamba.epsilon = r.architecture.norm.epsilon;
    std::vector<Layer>& layers = r.architecture.layers;
    for (size_t i = 0; i < layers.size(); ++i)
        if (const uint32_t size = layers[i].feed_forward.routing.size;
            size != 0 && !layer_has(r, "blk.#.ffn_gate_inp.weight", i))
            make_dense(layers[i], size);
    use_recurrence(r.architecture, layers_without_heads(r), mamba);
}

/// Layers without key/value heads are Mamba-2, but k, q and steps are made as Mamba made them, and normed.
void adjust_plamo2(Reading& r) {
    Architecture& a = r.architecture;
    Recurrence mamba = read_state(r.settings, RecurrenceKind::state_space, a.norm.epsilon, false);
    mamba.projected = true;
    mamba.step_rank = std::max(64u, a.hidden / 16);  // no key says so
    mamba.part_norms = Recurrence::PartNorms::weighted;
    mamba.normed = false;
    for (Layer& layer : a.layers) layer.attention.qk_norm.own_weights = layer.attention.heads != 0;
    use_recurrence(a, layers_without_heads(r), mamba);
}

/// Heads, ranks and how many of its parts mix a token with the one before it.
void adjust_rwkv7(Reading& r) {
    const Settings& keys = r.settings;
    const uint32_t hidden = r.architecture.hidden;
    const auto rank = [&](const char* name) { return keys.size(name, 1 << 16); };
    Recurrence wkv;
    wkv.kind = RecurrenceKind::wkv;
    wkv.taps = 2;
    wkv.separate = wkv.by_key = true;
    wkv.bound = static_cast<float>(-std::exp(-0.5));
    wkv.epsilon = 64e-5f;
    wkv.key_dim = wkv.value_dim = keys.size("wkv.head_size", most_wkv_dim);
    wkv.heads = wkv.groups = hidden / wkv.key_dim;
    if (hidden % wkv.key_dim != 0) keys.wrong("wkv.head_size", cat("a divisor of ", hidden));
    check_heads(keys, "wkv.head_size", wkv);
    wkv.step_rank = rank("attention.decay_lora_rank");
    wkv.rate_rank = rank("attention.iclr_lora_rank");
    wkv.value_rank = rank("attention.value_residual_mix_lora_rank");
    wkv.gate_rank = keys.size("attention.gate_lora_rank", 1 << 16, 0, 0);
    wkv.normed = r.catalog.find("blk.0.time_mix_ln.weight") != nullptr;
    wkv.feed_forward_shift = keys.size("token_shift_count", 2, 2) == 2;
    use_in_all_layers(r.architecture, wkv);
    r.architecture.layers.front().recurrence.value_rank = 0;
}

void adjust_mamba2(Reading& r) { use_in_all_layers(r.architecture, read_mamba(r)); }

}  // namespace

std::span<const Family> gguf_recurrent_families() {
    static const Family families[] = {
        {.name = "lfm2",
         .tensors = {lfm2_rows, common},
         .qk_norm = QkNorm::Group::head,
         .recurrence = RecurrenceKind::convolution,
         .adjust = adjust_lfm2},
        {.name = "lfm2moe",
         .tensors = {lfm2_rows, common, experts},
         .qk_norm = QkNorm::Group::head,
         .routing = &sigmoid_experts,
         .recurrence = RecurrenceKind::convolution,
         .adjust = adjust_lfm2_moe},
        {.name = "qwen3next",  // the converter adds 1 to norms, but for those of recurrences
         .tensors = {gated_rows, qwen3_next_rows, state_rows, post_attention_norm, common, experts},
         .qk_norm = QkNorm::Group::head,
         .rotary = 0.25,
         .routing = &qwen_experts,
         .recurrence = RecurrenceKind::delta,
         .adjust = adjust_delta},
        {.name = "qwen35",
         .tensors = {gated_rows, qwen3_5_rows, state_rows, post_attention_norm, common},
         .qk_norm = QkNorm::Group::head,
         .rotary = 0.25,
         .recurrence = RecurrenceKind::delta,
         .adjust = adjust_delta},
        {.name = "qwen35moe",
         .tensors = {gated_rows, qwen3_5_rows, state_rows, post_attention_norm, common, experts},
         .qk_norm = QkNorm::Group::head,
         .rotary = 0.25,
         .routing = &qwen_experts,
         .recurrence = RecurrenceKind::delta,
         .adjust = adjust_delta},
        {.name = "kimi-linear",
         .tensors = {kimi_linear_rows, state_rows, gguf::latent, common, experts},
         .rope = false,
         .routing = &sigmoid_experts,
         .recurrence = RecurrenceKind::delta,
         .adjust = adjust_kimi_linear},
        {.name = "bailingmoe3",
         .tensors = {bailing3_rows, kimi_linear_rows, state_rows, gguf::latent, common, experts},
         .pairs = RopePairs::interleaved,
         .routing = &sigmoid_experts,
         .recurrence = RecurrenceKind::delta,
         .adjust = adjust_bailing3},
        {.name = "minimax-01",
         .tensors = {minimax_rows, common, experts},
         .placement = NormPlacement::normed,
         .routing = &minimax_experts,
         .recurrence = RecurrenceKind::lightning,
         .adjust = adjust_minimax},
        {.name = "granitehybrid",  // q and k permuted as for llama
         .tensors = {mamba_rows, state_rows, common, experts},
         .pairs = RopePairs::interleaved,
         .routing = &granite_experts,
         .recurrence = RecurrenceKind::state_space,
         .adjust = adjust_granite_hybrid},
        {.name = "falcon-h1",
         .tensors = {falcon_h1_rows, mamba_rows, state_rows, common},
         .recurrence = RecurrenceKind::state_space,
         .recurs_beside = true,
         .adjust = adjust_falcon_h1},
        {.name = "nemotron_h",
         .tensors = {nemotron_rows, mamba_rows, state_rows, common},
         .rope = false,
         .activation = Activation::relu_squared,
         .gated = false,
         .recurrence = RecurrenceKind::state_space,
         .adjust = adjust_nemotron},
        {.name = "nemotron_h_moe",
         .tensors = {nemotron_rows, mamba_rows, state_rows, common, experts},
         .rope = false,
         .activation = Activation::relu_squared,
         .gated = false,
         .routing = &sigmoid_experts,
         .recurrence = RecurrenceKind::state_space,
         .adjust = adjust_nemotron},
        {.name = "mamba",
         .tensors = {selective_rows, state_rows, common},
         .rope = false,
         .recurrence = RecurrenceKind::selective,
         .recurs_alone = true,
         .adjust = adjust_mamba},
        {.name = "jamba",
         .tensors = {selective_rows, state_rows, common, experts},
         .rope = false,
         .routing = &jamba_experts,
         .recurrence = RecurrenceKind::selective,
         .adjust = adjust_jamba},
        {.name = "plamo2",  // the converter adds to the norms what they lack
         .tensors = {plamo2_rows, state_rows, gguf::fused_gate_up, common},
         .placement = NormPlacement::sandwich,
         .qk_norm = QkNorm::Group::head,
         .recurrence = RecurrenceKind::state_space,
         .adjust = adjust_plamo2},
        {.name = "rwkv7",
         .tensors = {wkv_rows, rwkv7_rows, common},
         .norm = NormKind::layer,
         .norm_bias = true,
         .rope = false,
         .activation = Activation::relu_squared,
         .gated = false,
         .embedding_norm = true,
         .recurrence = RecurrenceKind::wkv,
         .recurs_alone = true,
         .feeds = true,
         .adjust = adjust_rwkv7},
        {.name = "arwkv7",
         .tensors = {wkv_rows, common},
         .rope = false,
         .recurrence = RecurrenceKind::wkv,
         .recurs_alone = true,
         .feeds = true,
         .adjust = adjust_rwkv7},
        {.name = "mamba2",
         .tensors = {mamba_rows, state_rows, common},
         .rope = false,
         .recurrence = RecurrenceKind::state_space,
         .recurs_alone = true,
         .adjust = adjust_mamba2},
    };
    return families;
}

}  // namespace scoria
