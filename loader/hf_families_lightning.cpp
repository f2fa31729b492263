// MiniMax-Text-01 and M1: lightning attention in most layers, softmax in the others, experts in all.
#include "hf_families.h"

#include "fail.h"
#include "family_parts.h"
#include "recurrent_layers.h"

#include <algorithm>

namespace scoria {
namespace {

#define LAYER "model.layers.#.self_attn."
constexpr TensorRow lightning_rows[] = {
    {Role::mixer_in, LAYER "qkv_proj.weight", Layout::mixer_grouped},
    {Role::mixer_gate, LAYER "output_gate.weight"},
    {Role::mixer_norm, LAYER "norm.weight"},
    {Role::mixer_out, LAYER "out_proj.weight"},
};
#undef LAYER

constexpr Routing minimax_experts{.renormalise = true};

/// Where a config.json has the factors of what a layer adds to, and of what it adds.
struct ResidualFields {
    const char *alpha, *beta;
};
struct LightningFields {
    ResidualFields full, linear, feed_forward;
};
constexpr LightningFields saved_fields{{"full_attn_alpha_factor", "full_attn_beta_factor"},
                                       {"linear_attn_alpha_factor", "linear_attn_beta_factor"},
                                       {"mlp_alpha_factor", "mlp_beta_factor"}},
    published_fields{{"layernorm_full_attention_alpha", "layernorm_full_attention_beta"},
                     {"layernorm_linear_attention_alpha", "layernorm_linear_attention_beta"},
                     {"layernorm_mlp_alpha", "layernorm_mlp_beta"}};

void read_lightning(Reading& r, const std::vector<bool>& recurs, const LightningFields& names, double e) {
    const Settings& s = r.settings;
    expect_text(s, "hidden_act", "silu");
    for (const char* other : {"block_size", "router_jitter_noise"})
        s.understood(other);  // of its kernels, training
    const auto factor = [&](const char* name) { return static_cast<float>(s.number(name, 1)); };
    use_lightning(r, recurs, e);
    for (Layer& layer : r.architecture.layers) {
        const ResidualFields& attention = layer.recurs() ? names.linear : names.full;
        layer.attention_residual = factor(attention.alpha);
        (layer.recurs() ? layer.recurrence_out : layer.attention_out) = factor(attention.beta);
        layer.feed_forward_residual = factor(names.feed_forward.alpha);
        layer.feed_forward_out = factor(names.feed_forward.beta);
    }
    for (const ResidualFields& each : {names.full, names.linear})  // there may be none of them
        for (const char* name : {each.alpha, each.beta}) s.understood(name);
}

/// As transformers has it: every second layer is of lightning attention, where the file does not say.
void adjust_lightning(Reading& r) {
    const size_t layers = r.architecture.layers.size();
    std::vector<bool> recurs = recurrent_layers(r.settings, layers);
    if (!r.settings.has("layer_types"))
        for (size_t i = 0; i < layers; ++i) recurs[i] = i % 2 != 0;
    read_lightning(r, recurs, saved_fields, 1e-5);
}

/// As published, beside classes of its own.
void adjust_published_lightning(Reading& r) {
    const Settings& s = r.settings;
    const char* list = "attn_type_list";
    const std::vector<double> types = s.numbers(list);
    if (types.size() != r.architecture.layers.size()) s.wrong(list, "a number for each layer");
    std::vector<bool> recurs;
    for (const double type : types) {
        if (type != 0 && type != 1) s.wrong(list, "0 or 1 in every place");
        recurs.push_back(type == 0);
    }
    expect_flag(s, "postnorm", true, false);
    if (s.size("shared_intermediate_size", most_size, 0, 0) != 0)
        s.wrong("shared_intermediate_size", "0, of no shared expert");
    s.understood("shared_moe_mode");
    read_lightning(r, recurs, published_fields, 0);
}

Family minimax(const char* name, Adjust adjust, double rope_base) {
    return {.name = name,
            .tensors = {lightning_rows, hf::mixtral, hf::experts, hf::frame, hf::attention},
            .placement = NormPlacement::normed,
            .rope_base = rope_base,
            .rotates_part = true,
            .window = {WindowRule::Layers::all},
            .routing = &minimax_experts,
            .recurrence = RecurrenceKind::lightning,
            .adjust = adjust};
}

}  // namespace

std::span<const Family> lightning_families() {
    static const Family families[] = {
        minimax("minimax", adjust_lightning, 1e6),
        minimax("minimax_text_01", adjust_published_lightning, 1e4),
        minimax("minimax_m1", adjust_published_lightning, 1e4),
    };
    return families;
}

}  // namespace scoria
