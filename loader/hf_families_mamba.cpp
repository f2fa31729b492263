// Families whose layers are Mamba alone, of either version, and Jamba, most of whose are of the first.
#include "hf_families.h"

#include "fail.h"
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

/// What configs of models that are Mamba alone say, of whichever version.
void check_mamba_alone(const Settings& s) {
    expect_text(s, "hidden_act", "silu");
    expect_flag(s, "use_bias", false, false);
    for (const char* other : {"expand", "rescale_prenorm_residual", "residual_in_fp32", "time_step_floor",
                              "time_step_init_scheme", "time_step_max", "time_step_min", "time_step_rank",
                              "time_step_scale", "use_mambapy", "use_associative_scan"})
        s.understood(other);
}

/// Of Mamba's first version, by its fields' names.
struct SelectiveFields {
    const char *taps, *state, *rank, *bias;
};
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
    const auto expanded = static_cast<uint64_t>(s.positive("expand", 2.0) * hidden);
    const uint32_t width = s.size(Field::feed_forward, 1 << 20, expanded);
    if (s.size("d_inner", 1 << 20, width) != width) s.wrong("d_inner", cat(width));
    Recurrence mamba =
        read_selective(s, {"conv_kernel", "state_size", "time_step_rank", "use_conv_bias"}, hidden, width);
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
    check_step_limit(s);
    expect_flag(s, "rms_norm", true, true);
    for (const char* other : {"chunk_size", "norm_before_gate"}) s.understood(other);
    Recurrence mamba;
    mamba.kind = RecurrenceKind::state_space;
    mamba.taps = s.size("conv_kernel", most_taps, 4, 2);
    mamba.heads = s.size("num_heads", 1 << 16, 128);
    mamba.groups = s.size("n_groups", 1 << 16, 8);
    mamba.key_dim = s.size("state_size", most_state_dim, 128);
    mamba.value_dim = s.size("head_dim", most_state_dim, 64);
    mamba.taps_bias = s.flag("use_conv_bias", true);
    mamba.epsilon = r.architecture.norm.epsilon;
    if (uint64_t{mamba.heads} * mamba.value_dim != s.positive("expand", 2.0) * r.architecture.hidden)
        s.wrong("expand", cat("a width of ", mamba.heads, " heads of ", mamba.value_dim));
    check_heads(s, "num_heads", mamba);
    use_in_all_layers(r.architecture, mamba);
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
