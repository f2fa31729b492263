// Families whose layers are Mamba alone, of either version, and Jamba, most of whose are of the first.
#include "hf_families.h"

#include "fail.h"
#include "family_parts.h"
#include "recurrent_layers.h"

namespace scoria {
namespace {

using enum Layout;

#define LAYER "backbone.layers.#."
constexpr TensorRow mamba_rows[] = {
    {Role::mixer_step_low, LAYER "mixer.x_proj.weight", mixer},
    {Role::mixer_kq, LAYER "mixer.x_proj.weight", mixer},
    {Role::mixer_step, LAYER "mixer.dt_proj.weight"},
    {Role::mixer_step_bias, LAYER "mixer.dt_proj.bias"},
};
constexpr TensorRow mamba2_rows[] = {
    {Role::token_embedding, "backbone.embeddings.weight"},
    {Role::output_norm, "backbone.norm_f.weight"},
    {Role::output, "lm_head.weight"},
    {Role::attention_norm, LAYER "norm.weight"},
    {Role::mixer_step_bias, LAYER "mixer.dt_bias"},
    {Role::mixer_decay, LAYER "mixer.A_log", negative_exp},
    {Role::mixer_skip, LAYER "mixer.D"},
    {Role::mixer_taps, LAYER "mixer.conv1d.weight"},
    {Role::mixer_taps_bias, LAYER "mixer.conv1d.bias"},
    {Role::mixer_norm, LAYER "mixer.norm.weight"},
    {Role::mixer_in, LAYER "mixer.in_proj.weight", mixer},
    {Role::mixer_gate, LAYER "mixer.in_proj.weight", mixer},
    {Role::mixer_step, LAYER "mixer.in_proj.weight", mixer},
    {Role::mixer_out, LAYER "mixer.out_proj.weight"},
};
#undef LAYER
#define LAYER "model.layers.#."
constexpr TensorRow jamba_rows[] = {
    {Role::output_norm, "model.final_layernorm.weight"},
    {Role::feed_forward_norm, LAYER "pre_ff_layernorm.weight"},
    {Role::gate, LAYER "feed_forward.gate_proj.weight"},
    {Role::up, LAYER "feed_forward.up_proj.weight"},
    {Role::down, LAYER "feed_forward.down_proj.weight"},
    {Role::router, LAYER "feed_forward.router.weight"},
    {Role::expert_gate, LAYER "feed_forward.experts.@.gate_proj.weight", per_expert},
    {Role::expert_up, LAYER "feed_forward.experts.@.up_proj.weight", per_expert},
    {Role::expert_down, LAYER "feed_forward.experts.@.down_proj.weight", per_expert},
    {Role::mixer_in, LAYER "mamba.in_proj.weight", mixer},
    {Role::mixer_gate, LAYER "mamba.in_proj.weight", mixer},
    {Role::mixer_step_low, LAYER "mamba.x_proj.weight", mixer},
    {Role::mixer_kq, LAYER "mamba.x_proj.weight", mixer},
    {Role::mixer_step, LAYER "mamba.dt_proj.weight"},
    {Role::mixer_step_bias, LAYER "mamba.dt_proj.bias"},
    {Role::mixer_decay, LAYER "mamba.A_log", negative_exp},
    {Role::mixer_skip, LAYER "mamba.D"},
    {Role::mixer_taps, LAYER "mamba.conv1d.weight"},
    {Role::mixer_taps_bias, LAYER "mamba.conv1d.bias"},
    {Role::mixer_step_norm, LAYER "mamba.dt_layernorm.weight"},
    {Role::mixer_k_norm, LAYER "mamba.b_layernorm.weight"},
    {Role::mixer_q_norm, LAYER "mamba.c_layernorm.weight"},
    {Role::mixer_out, LAYER "mamba.out_proj.weight"},
};
#undef LAYER

constexpr Routing jamba_experts{};

/// Where a config.json has the sizes of Mamba's first version.
struct SelectiveFields {
    const char *taps, *state, *rank, *bias;
};
constexpr SelectiveFields mamba_fields{"conv_kernel", "state_size", "time_step_rank", "use_conv_bias"},
    jamba_fields{"mamba_d_conv", "mamba_d_state", "mamba_dt_rank", "mamba_conv_bias"};
constexpr StateSpaceFields mamba2_fields{.taps = "conv_kernel",
                                         .taps_bias = "use_conv_bias",
                                         .heads = "num_heads",
                                         .groups = {"n_groups", 8},
                                         .key_dim = {"state_size", 128},
                                         .value_dim = {"head_dim", 64}};

/// What configs of models that are Mamba alone say, of whichever version.
void check_mamba_alone(const Settings& s) {
    expect_text(s, "hidden_act", "silu");
    expect_flag(s, "use_bias", false, false);
    for (const char* other : {"expand", "rescale_prenorm_residual", "residual_in_fp32", "time_step_floor",
                              "time_step_init_scheme", "time_step_max", "time_step_min", "time_step_rank",
                              "time_step_scale", "use_mambapy", "use_associative_scan"})
        s.understood(other);
}

Recurrence read_selective(const Settings& s, const SelectiveFields& names, uint32_t hidden, uint32_t width) {
    Recurrence mamba;
    mamba.kind = RecurrenceKind::selective;
    mamba.heads = mamba.groups = 1;
    mamba.taps = s.size(names.taps, most_taps, 4, 2);
    mamba.key_dim = s.size(names.state, most_state_dim, 16);
    mamba.value_dim = width;
    const nlohmann::json* rank = s.find(names.rank);
    mamba.step_rank = rank == nullptr || *rank == "auto" ? (hidden + 15) / 16 : s.size(names.rank, 1 << 16);
    mamba.taps_bias = s.flag(names.bias, true);
    check_heads(s, names.state, mamba);
    return mamba;
}

void adjust_mamba(Reading& r) {
    const Settings& s = r.settings;
    check_mamba_alone(s);
    for (const char* flag : {"rms_norm", "fused_add_norm"}) expect_flag(s, flag, true, true);
    for (const char* other : {"ssm_cfg", "pad_vocab_size_multiple"}) s.understood(other);
    const uint32_t hidden = r.architecture.hidden;
    const double expanded = s.positive("expand", 2.0) * hidden;
    if (expanded < 1 || expanded > 1 << 20) s.wrong("expand", "1 to 2^20 channels");
    const uint32_t width = s.size(Field::feed_forward, 1 << 20, static_cast<uint64_t>(expanded));
    if (s.size("d_inner", 1 << 20, width) != width) s.wrong("d_inner", cat(width));
    Recurrence mamba = read_selective(s, mamba_fields, hidden, width);
    if (r.architecture.family == "falcon_mamba") {
        mamba.part_norms = Recurrence::PartNorms::plain;
        mamba.epsilon = s.number("mixer_rms_eps", 1e-6);
    }
    use_in_all_layers(r.architecture, mamba);
}

/// Mamba-2 alone, whose norm comes behind the gate whatever "norm_before_gate" says.
void adjust_mamba2(Reading& r) {
    const Settings& s = r.settings;
    check_mamba_alone(s);
    expect_flag(s, "rms_norm", true, true);
    for (const char* other : {"chunk_size", "norm_before_gate"}) s.understood(other);
    const Recurrence mamba = read_state_space(s, mamba2_fields, r.architecture.norm.epsilon);
    if (double(mamba.heads) * mamba.value_dim != s.positive("expand", 2.0) * r.architecture.hidden)
        s.wrong("expand", cat("a width of ", mamba.heads, " heads of ", mamba.value_dim));
    use_in_all_layers(r.architecture, mamba);
}

/// One layer of `..._period`, from `..._offset` on.
std::vector<bool> each_of(const Settings& s, const std::string& what, uint32_t period, uint32_t offset,
                          size_t layers) {
    const std::string first = what + "_offset";
    period = s.size(what + "_period", most_layers, period);
    offset = s.size(first, most_layers, offset, 0);
    if (offset >= period) s.wrong(first, cat("less than ", period));
    std::vector<bool> each(layers);
    for (size_t i = 0; i < layers; ++i) each[i] = i % period == offset;
    return each;
}

/// Layers of attention, without positions, among those of Mamba, and of experts among those of one.
void adjust_jamba(Reading& r) {
    const Settings& s = r.settings;
    std::vector<Layer>& layers = r.architecture.layers;
    expect_text(s, "hidden_act", "silu");
    expect_flag(s, "mamba_proj_bias", false, false);
    expect_flag(s, "mamba_inner_layernorms", true, true);
    expect_flag(s, "norm_topk_prob", false, false);
    for (const char* other :
         {"num_logits_to_keep", "use_mamba_kernels", "use_mambapy", "use_associative_scan"})
        s.understood(other);
    const uint64_t width = uint64_t{s.size("mamba_expand", 1 << 10, 2)} * r.architecture.hidden;
    if (width > 1 << 20) s.wrong("mamba_expand", "at most 2^20 channels");
    Recurrence mamba = read_selective(s, jamba_fields, r.architecture.hidden, static_cast<uint32_t>(width));
    mamba.part_norms = Recurrence::PartNorms::weighted;
    mamba.epsilon = r.architecture.norm.epsilon;
    const std::vector<bool> routed = each_of(s, "expert_layer", 2, 1, layers.size());
    std::vector<bool> recurs = each_of(s, "attn_layer", 8, 4, layers.size());
    recurs.flip();
    const uint32_t size = s.size(Field::feed_forward, most_size);
    for (size_t i = 0; i < layers.size(); ++i)
        if (!routed[i] || layers[i].feed_forward.routing.experts == 1) make_dense(layers[i], size);
    use_recurrence(r.architecture, recurs, mamba);
}

}  // namespace

const std::span<const TensorRow> hf::mamba2 = mamba2_rows;

std::span<const Family> mamba_families() {
    static const Family families[] = {
        {.name = "mamba",
         .tensors = {mamba_rows, hf::mamba2},
         .prefix = "backbone.",
         .context = no_limit,
         .rope = false,
         .recurrence = RecurrenceKind::selective,
         .recurs_alone = true,
         .adjust = adjust_mamba},
        {.name = "falcon_mamba",
         .tensors = {mamba_rows, hf::mamba2},
         .prefix = "backbone.",
         .context = no_limit,
         .rope = false,
         .recurrence = RecurrenceKind::selective,
         .recurs_alone = true,
         .adjust = adjust_mamba},
        {.name = "jamba",
         .tensors = {jamba_rows, hf::frame, hf::attention},
         .rope = false,
         .routing = &jamba_experts,
         .recurrence = RecurrenceKind::selective,
         .adjust = adjust_jamba},
        {.name = "mamba2",
         .tensors = {hf::mamba2},
         .prefix = "backbone.",
         .context = no_limit,
         .rope = false,
         .recurrence = RecurrenceKind::state_space,
         .recurs_alone = true,
         .adjust = adjust_mamba2},
    };
    return families;
}

}  // namespace scoria
