// Families whose layers are Mamba alone: Mamba-2.
#include "hf_families.h"

#include "fail.h"
#include "recurrent_layers.h"

namespace scoria {
namespace {

using enum Layout;

#define LAYER "backbone.layers.#."
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
        {.name = "mamba2",
         .tensors = {hf::mamba2},
         .context = no_limit,
         .rope = false,
         .recurrence = RecurrenceKind::state_space,
         .recurs_alone = true,
         .adjust = adjust_mamba2},
    };
    return families;
}

}  // namespace scoria
