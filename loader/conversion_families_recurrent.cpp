// Families with recurrent layers: see conversion_families.h.
#include "conversion_families.h"

#include "families.h"

#include <algorithm>

namespace scoria::conversion {
namespace {

void set_lfm2(const Described& model, Keys& keys) {
    set_heads_by_layer(model, keys);
    keys.set("shortconv.l_cache", model.architecture.recurrence().taps);
}

void set_lfm2_moe(const Described& model, Keys& keys) {
    set_lfm2(model, keys);
    set_deepseek_experts(model, keys);
}

void set_states(const Described& model, Keys& keys) {
    const Recurrence& r = model.architecture.recurrence();
    keys.set("ssm.conv_kernel", r.taps);
    keys.set("ssm.state_size", r.key_dim);
    keys.set("ssm.group_count", r.groups);
    keys.set("ssm.time_step_rank", r.heads);
    keys.set("ssm.inner_size", r.width);
}

/// Which layers recur.
void set_listed_layers(const Described& model, Keys& keys) {
    std::vector<bool> recurs;
    for (const Layer& layer : model.architecture.layers) recurs.push_back(layer.attention.heads == 0);
    const auto every = static_cast<size_t>(std::ranges::find(recurs, false) - recurs.begin()) + 1;
    keys.set("full_attention_interval", static_cast<uint32_t>(every));
    bool regular = true;
    for (size_t i = 0; i < recurs.size(); ++i) regular = regular && recurs[i] == ((i + 1) % every != 0);
    if (!regular) keys.set("attention.recurrent_layers", recurs);
}

void set_minimax(const Described& model, Keys& keys) {
    set_listed_layers(model, keys);
    keys.set("residual_scale", double{model.architecture.layers.front().attention_residual});
}

void set_delta(const Described& model, Keys& keys) {
    set_states(model, keys);
    set_listed_layers(model, keys);
    if (model.architecture.routing().shared_size != 0) set_shared_expert(model, keys);
}

void set_kimi_linear(const Described& model, Keys& keys) {
    const Recurrence& r = model.architecture.recurrence();
    set_deepseek(model, keys);
    set_heads_by_layer(model, keys);
    keys.set("ssm.conv_kernel", r.taps);
    keys.set("kda.head_dim", r.key_dim);
}

void set_bailing3(const Described& model, Keys& keys) {
    set_kimi_linear(model, keys);
    set_shared_expert(model, keys);
    keys.set("kda.safe_gate", true);
    keys.set("kda.gate_lower_bound", double{model.architecture.recurrence().bound});
}

/// Readers want the axes of positions, which all have the same one in a text.
void set_delta_and_axes(const Described& model, Keys& keys) {
    set_delta(model, keys);
    const uint32_t pairs = model.ropes.front().width / 2;
    keys.set("rope.dimension_sections",
             std::vector<uint32_t>{(pairs + 2) / 3, (pairs + 1) / 3, pairs / 3, 0});
}

void set_granite_hybrid(const Described& model, Keys& keys) {
    set_granite_shared(model, keys);
    set_states(model, keys);
    set_heads_by_layer(model, keys);
    keys.set("rope.scaling.finetuned", !model.ropes.empty());
}

/// Every layer is of one thing alone.
void set_nemotron(const Described& model, Keys& keys) {
    const Routing& routing = model.architecture.routing();
    std::vector<uint32_t> sizes;
    for (const Layer& layer : model.architecture.layers)
        sizes.push_back(layer.feed_forward.routing.experts != 0 ? routing.size : layer.feed_forward.size);
    set_states(model, keys);
    set_heads_by_layer(model, keys);
    keys.set("feed_forward_length", sizes);
    if (routing.experts == 0) return;
    set_shared_expert(model, keys);
    keys.set("expert_shared_count", 1u);
    set_choice(routing, keys);
}

/// Readers tell the first version's norms by this key, and take their epsilon for the layers'.
void set_selective(const Described& model, Keys& keys) {
    const Recurrence& r = model.architecture.recurrence();
    keys.set("ssm.conv_kernel", r.taps);
    keys.set("ssm.state_size", r.key_dim);
    keys.set("ssm.time_step_rank", r.step_rank);
    keys.set("ssm.inner_size", r.width);
    keys.set("ssm.dt_b_c_rms", r.part_norms == Recurrence::PartNorms::plain);
}

void set_jamba(const Described& model, Keys& keys) {
    set_selective(model, keys);
    set_heads_by_layer(model, keys);
}

bool has_one_epsilon(const Architecture& a) { return a.recurrence().epsilon == a.norm.epsilon; }

bool is_recurrent(const Architecture& a) { return a.recurrent(); }

/// Of both kinds of layers, for which there is one key.
bool has_as_many_heads(const Architecture& a) { return a.recurrence().heads == a.attention().heads; }

/// As its reader takes them.
bool is_bounded(const Architecture& a) { return a.recurrence().bound < 0; }

/// There is one factor of what is added to, and none of what is added.
bool scales_residuals_alike(const Architecture& a) {
    const float alpha = a.layers.front().attention_residual;
    return std::ranges::all_of(a.layers, [&](const Layer& l) {
        return l.attention_residual == alpha && l.feed_forward_residual == alpha && l.attention_out == 1 &&
               l.recurrence_out == 1 && l.feed_forward_out == 1;
    });
}

/// Multipliers would have to go into weights, and norms come after gates.
bool multiplies_nothing(const Architecture& a) {
    const Layer& layer = a.layers.front();
    const Recurrence& r = layer.recurrence;
    return a.embedding_scale == 1 && a.logit_scale == 1 && layer.attention_out == 1 &&
           layer.recurrence_out == 1 && layer.feed_forward_out == 1 && layer.feed_forward.gate_scale == 1 &&
           r.gate_scale == 1 && r.step_scale == 1 && !r.scales_channels() && !r.norm_first;
}

}  // namespace

std::span<const ConversionFamily> recurrent_conversions() {
    static constexpr ConversionFamily families[] = {
        {.model_type = "granitemoehybrid",
         .architecture = "granitehybrid",
         .fits = is_recurrent,
         .keys = set_granite_hybrid},
        {.model_type = "kimi_linear",
         .architecture = "kimi-linear",
         .fits = has_as_many_heads,
         .keys = set_kimi_linear,
         .lacks = lacks_q_rank},
        {.model_type = "bailing_hybrid",
         .architecture = "bailingmoe3",
         .fits = is_bounded,
         .ahead = true,
         .keys = set_bailing3,
         .lacks = lacks_q_rank},
        {.model_type = "minimax",
         .architecture = "minimax-01",
         .fits = scales_residuals_alike,
         .keys = set_minimax},
        {.model_type = "minimax_text_01",
         .architecture = "minimax-01",
         .fits = scales_residuals_alike,
         .keys = set_minimax},
        {.model_type = "minimax_m1",
         .architecture = "minimax-01",
         .fits = scales_residuals_alike,
         .keys = set_minimax},
        {.model_type = "falcon_h1",
         .architecture = "falcon-h1",
         .fits = multiplies_nothing,
         .keys = set_states},
        {.model_type = "nemotron_h",
         .architecture = "nemotron_h_moe",
         .fits = has_experts,
         .keys = set_nemotron},
        {.model_type = "nemotron_h", .architecture = "nemotron_h", .keys = set_nemotron},
        {.model_type = "mamba", .architecture = "mamba", .keys = set_selective},
        {.model_type = "falcon_mamba",
         .architecture = "mamba",
         .fits = has_one_epsilon,
         .keys = set_selective},
        {.model_type = "jamba", .architecture = "jamba", .keys = set_jamba},
        {.model_type = "mamba2", .architecture = "mamba2", .keys = set_states},
        {.model_type = "lfm2", .architecture = "lfm2", .keys = set_lfm2},
        {.model_type = "lfm2_moe", .architecture = "lfm2moe", .keys = set_lfm2_moe},
        {.model_type = "qwen3_next", .architecture = "qwen3next", .ahead = true, .keys = set_delta},
        {.model_type = "qwen3_5_text",
         .architecture = "qwen35",
         .tiles_heads = true,
         .ahead = true,
         .keys = set_delta_and_axes},
        {.model_type = "qwen3_5_moe_text",
         .architecture = "qwen35moe",
         .tiles_heads = true,
         .ahead = true,
         .keys = set_delta_and_axes},
    };
    return families;
}

std::optional<TiledHeads> tiled_heads(Role role, const Recurrence& shape) {
    switch (role) {
    case Role::mixer_in:
    case Role::mixer_taps:
        return TiledHeads{shape.v_channel(), shape.value_dim};
    case Role::mixer_gate:
        return TiledHeads{0, shape.value_dim};
    case Role::mixer_beta:
    case Role::mixer_step:
    case Role::mixer_step_bias:
    case Role::mixer_decay:
        return TiledHeads{};
    case Role::mixer_out:
        return TiledHeads{0, shape.value_dim, true};
    default:
        return std::nullopt;
    }
}

uint64_t TiledHeads::in_folder(uint64_t place, const Recurrence& shape) const {
    if (place < first) return place;
    const uint64_t head = (place - first) / size, of_group = shape.heads / shape.groups;
    return first + (head % shape.groups * of_group + head / shape.groups) * size + (place - first) % size;
}

uint64_t TiledHeads::in_gguf(uint64_t place, const Recurrence& shape) const {
    if (place < first) return place;
    const uint64_t head = (place - first) / size, of_group = shape.heads / shape.groups;
    return first + (head % of_group * shape.groups + head / of_group) * size + (place - first) % size;
}

}  // namespace scoria::conversion
