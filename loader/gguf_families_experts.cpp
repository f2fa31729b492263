// Mixtures of experts in GGUF files: see gguf_families.cpp.
#include "family_attention.h"
#include "family_parts.h"
#include "gguf_families.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace scoria {
namespace {

using Layers = WindowRule::Layers;
using enum Layout;
using gguf::common, gguf::experts, gguf::post_attention_norm;

#define LAYER "blk.#."
constexpr TensorRow afmoe[] = {
    {Role::attention_gate, LAYER "attn_gate.weight"},
};
constexpr TensorRow granite_swa[] = {
    {Role::shared_gate, LAYER "ffn_up_shexp.weight", gate_up},
    {Role::shared_up, LAYER "ffn_up_shexp.weight", gate_up},
};
constexpr TensorRow hy_v3[] = {
    {Role::router_choice_bias, LAYER "exp_probs_b"},
};
constexpr TensorRow sinks[] = {
    {Role::sinks, LAYER "attn_sinks.weight"},
};
constexpr TensorRow grok[] = {
    {Role::attention_post_norm, LAYER "attn_output_norm.weight"},
    {Role::feed_forward_post_norm, LAYER "layer_output_norm.weight"},
};
constexpr TensorRow dbrx[] = {
    {Role::feed_forward_norm, LAYER "attn_output_norm.weight"},
};
#undef LAYER

constexpr Routing softmax_experts{};
constexpr Routing renormalised_experts{.renormalise = true};
constexpr Routing gated_shared_experts{.shared_gate = true};
constexpr Routing sigmoid_experts{
    .score = Routing::Score::sigmoid, .renormalise = true, .choice_bias = true, .group_by_top2 = true};
constexpr Routing ernie_experts{.renormalise = true, .choice_bias = true};
constexpr Routing cohere_experts{.score = Routing::Score::sigmoid};
constexpr Routing early_experts{.score = Routing::Score::sigmoid, .renormalise = true, .early = true};
constexpr Routing llama4_experts{.score = Routing::Score::sigmoid, .scales_input = true};
constexpr Routing phimoe_experts{.score = Routing::Score::softmax_near, .margin = 0.02f};
constexpr Routing granite_experts{.score = Routing::Score::softmax_chosen};
constexpr Routing gpt_oss_experts{.score = Routing::Score::softmax_chosen,
                                  .router_bias = true,
                                  .bias = true,
                                  .clamp = {.limit = 7, .slope = 1.702f, .offset = 1}};

/// Where the file does not say, the shared expert is as wide as a dense layer would be.
void adjust_shared(Reading& r) {
    if (r.settings.has(Field::shared_size)) return;
    const uint32_t size = r.settings.size(Field::feed_forward, most_size);
    for (Layer& layer : r.architecture.layers)
        if (Routing& routing = layer.feed_forward.routing; routing.experts != 0) routing.shared_size = size;
}

/// The first files of Qwen1.5-MoE say neither size: those that are chosen have it together.
void adjust_qwen2_moe(Reading& r) {
    adjust_shared(r);
    if (r.settings.has(Field::expert_size)) return;
    for (Layer& layer : r.architecture.layers)
        if (Routing& routing = layer.feed_forward.routing; routing.experts != 0)
            routing.size = std::max(1u, routing.size / routing.used);
}

void adjust_softmax(Reading& r) { gguf::read_routing(r, false); }
void adjust_sigmoid(Reading& r) { gguf::read_routing(r, true); }

void adjust_afmoe(Reading& r) {
    adjust_sigmoid(r);
    for (Layer& layer : r.architecture.layers) layer.attention.output_gate = Attention::OutputGate::elements;
}

/// Of every four layers the first sees all, where the file lists none; a gate for each head, or for each of
/// its elements, which its rows tell.
void adjust_laguna(Reading& r) {
    adjust_sigmoid(r);
    Architecture& a = r.architecture;
    for (const char* of_windows : {"rope.dimension_count_swa", "rope.freq_base_swa"})  // there may be none
        r.settings.understood(of_windows);
    const char* pattern = "attention.sliding_window_pattern";
    const nlohmann::json* listed = r.settings.find(pattern);
    const uint32_t every = listed && listed->is_array() ? 0 : r.settings.size(pattern, most_layers, 4);
    for (size_t i = 0; i < a.layers.size(); ++i) {
        Attention& attention = a.layers[i].attention;
        if (every != 0 && r.settings.has(Field::window))
            attention.window = i % every == 0 ? 0 : r.settings.size(Field::window, most_size);
        attention.gate_activation = Activation::softplus;
        const StoredTensor* gate = r.catalog.find(tensor_name("blk.#.attn_gate.weight", int32_t(i)));
        const bool by_elements = gate && gate->shape.front() != attention.heads;
        attention.output_gate = by_elements ? Attention::OutputGate::elements : Attention::OutputGate::heads;
        Routing& routing = a.layers[i].feed_forward.routing;
        if (routing.experts != 0 && !r.settings.has(Field::shared_size)) routing.shared_size = routing.size;
    }
}

/// The larger of its models have norms of q and k.
void adjust_glm4_moe(Reading& r) {
    adjust_sigmoid(r);
    if (r.catalog.find("blk.0.attn_q_norm.weight") != nullptr) return;
    for (Layer& layer : r.architecture.layers) layer.attention.qk_norm.group = QkNorm::Group::none;
}

void adjust_ernie_moe(Reading& r) {
    const uint32_t size = r.settings.size(Field::feed_forward, most_size),
                   step = r.settings.size("interleave_moe_layer_step", most_layers, 1);
    gguf::read_routing(r, false);
    for (size_t i = 0; i < r.architecture.layers.size(); ++i)
        if ((i + 1) % step != 0) make_dense(r.architecture.layers[i], size);
}

void use_sinks(Reading& r) {
    for (Layer& layer : r.architecture.layers) layer.attention.sinks = true;
}

void adjust_granite_swa(Reading& r) {
    gguf::adjust_granite(r);
    use_sinks(r);
}

/// Softmax is over the chosen alone, and what experts and the shared one find is averaged.
void adjust_cohere2moe(Reading& r) {
    Architecture& a = r.architecture;
    a.logit_scale = r.settings.number("logit_scale", 0.0625);
    if (r.settings.has("attention.layer_norm_rms_epsilon")) a.norm.kind = NormKind::rms;
    adjust_sigmoid(r);
    for (Layer& layer : a.layers) {
        Routing& routing = layer.feed_forward.routing;
        if (routing.experts == 0) continue;
        if (routing.score == Routing::Score::softmax) routing.score = Routing::Score::softmax_chosen;
        if (routing.shared_size != 0) layer.feed_forward_out = 0.5f;
    }
}

/// Of every four layers the first sees all, where there is a window.
void adjust_smallthinker(Reading& r) {
    adjust_sigmoid(r);
    if (!r.settings.has(Field::window) || r.settings.has("attention.sliding_window_pattern")) return;
    const uint32_t window = r.settings.size(r.settings.name_of(Field::window), most_size, {}, 0);
    for (size_t i = 0; i < r.architecture.layers.size(); ++i)
        r.architecture.layers[i].attention.window = i % 4 == 0 ? 0 : window;
}

/// No key tells which layers have no experts.
void make_unrouted_dense(Reading& r) {
    const uint32_t size = r.settings.size(Field::feed_forward, most_size);
    for (size_t i = 0; i < r.architecture.layers.size(); ++i)
        if (!layer_has(r, "blk.#.ffn_gate_inp.weight", i)) make_dense(r.architecture.layers[i], size);
}

void adjust_hy_v3(Reading& r) {
    adjust_sigmoid(r);
    make_unrouted_dense(r);
}

/// Layers whose tensors have sinks have them; heads of v are narrower than those of k, and multiplied.
void adjust_mimo2(Reading& r) {
    adjust_sigmoid(r);
    make_unrouted_dense(r);
    for (size_t i = 0; i < r.architecture.layers.size(); ++i) {
        Layer& layer = r.architecture.layers[i];
        layer.attention.sinks = layer_has(r, "blk.#.attn_sinks.weight", i);
        layer.attention_out = r.settings.number("attention.value_scale", 1);
    }
}

/// What the file does not say is as Scout and Maverick have it; Maverick, of 128 experts, norms no heads.
void adjust_llama4(Reading& r) {
    const Settings& keys = r.settings;
    Architecture& a = r.architecture;
    constexpr uint32_t chunk = 8192, experts_of_maverick = 128;
    if (keys.has(Field::window) && keys.size(keys.name_of(Field::window), most_size, {}, 0) != chunk)
        keys.wrong(keys.name_of(Field::window), "none, or 8192");
    const uint32_t step = keys.size("interleave_moe_layer_step", most_layers),
                   dense = keys.size(Field::feed_forward, most_size);
    const std::vector<bool> rotating = rotating_layers(keys, 4, a.layers.size());
    see_chunks(rotating, chunk, a);
    grow_unrotated(0.1, chunk, a);
    if (a.routing().experts != experts_of_maverick) norm_lengths(rotating, r);
    for (size_t i = 0; i < a.layers.size(); ++i) {
        Routing& routing = a.layers[i].feed_forward.routing;
        routing.shared_size = routing.size;
        routing.scale = keys.number("expert_weights_scale", 1);
        if ((i + 1) % step != 0 || routing.experts == 0) make_dense(a.layers[i], dense);
    }
}

/// Without these keys layers would be computed otherwise in silence.
void expect(Reading& r, std::initializer_list<const char*> names) {
    for (const char* name : names)
        if (!r.settings.has(name)) r.settings.wrong(name, "a value");
}

/// A clamp for each layer, by a list or one number for all; none where it is 0, or the file has none.
void read_clamps(Reading& r, const char* name, bool activated, GluClamp& (*clamp_of)(FeedForward&)) {
    const nlohmann::json* value = r.settings.find(name);
    if (value == nullptr) return;
    std::vector<Layer>& layers = r.architecture.layers;
    const std::vector<double> limits = value->is_array()
                                           ? layer_numbers(r.settings, name, layers.size())
                                           : std::vector(layers.size(), r.settings.positive(name));
    for (size_t i = 0; i < limits.size(); ++i) {
        if (!std::isfinite(limits[i]) || limits[i] < 0) r.settings.wrong(name, "numbers of 0 or more");
        clamp_of(layers[i].feed_forward) = {.limit = static_cast<float>(limits[i]), .activated = activated};
    }
}
GluClamp& clamp_of_experts(FeedForward& feed_forward) { return feed_forward.routing.clamp; }
GluClamp& clamp_of_all(FeedForward& feed_forward) { return feed_forward.clamp; }

void adjust_step35(Reading& r) {
    expect(r, {"attention.sliding_window", "attention.sliding_window_pattern"});
    adjust_sigmoid(r);
    make_unrouted_dense(r);
    r.settings.understood("moe_every_n_layers");  // the router's tensors tell
    gguf::read_clamps(r);
    for (size_t i = 0; i < r.architecture.layers.size(); ++i)
        if (layer_has(r, "blk.#.attn_gate.weight", i))
            r.architecture.layers[i].attention.output_gate = Attention::OutputGate::heads;
}

void adjust_maple(Reading& r) {
    expect(r, {"attention.sliding_window", "attention.sliding_window_pattern", "swiglu_clamp_exp"});
    adjust_softmax(r);
    read_clamps(r, "swiglu_clamp_exp", false, clamp_of_experts);
}

/// Where there is a window, what was asked is seen beside it, which is not computed.
void adjust_ocr(Reading& r) {
    r.settings.refuse(std::array{"attention.sliding_window"});
    adjust_softmax(r);
}

/// What the file does not say is as Grok-1 has it, which caps no scores of its router, whatever the converter
/// wrote. Grok-2 has a feed-forward beside the experts, which nothing here computes, and is refused by the
/// temperature of its attention.
void adjust_grok(Reading& r) {
    const Settings& s = r.settings;
    Architecture& a = r.architecture;
    a.embedding_scale = s.number("embedding_scale", 78.38367176906169);
    a.logit_scale = s.number("logit_scale", 0.5773502691896257);
    s.understood("router_logit_softcapping");
    for (Layer& layer : a.layers) {
        layer.attention.scale = s.number("attention.output_scale", 0.08838834764831845);
        layer.attention.soft_cap = s.number("attn_logit_softcapping", 30);
    }
}

/// As its folders have it where they do not say.
void adjust_phimoe(Reading& r) {
    if (r.settings.size(Field::experts_used, most_size) != 2)
        r.settings.wrong(r.settings.name_of(Field::experts_used), "2");
}

}  // namespace

void gguf::read_clamps(Reading& r) {
    scoria::read_clamps(r, "swiglu_clamp_exp", true, clamp_of_experts);
    scoria::read_clamps(r, "swiglu_clamp_shexp", true, clamp_of_all);
}

void gguf::read_routing(Reading& r, bool by_sigmoid) {
    const Settings& keys = r.settings;
    constexpr uint32_t softmax_gating = 1, sigmoid_gating = 2;
    const uint32_t gating =
        keys.size("expert_gating_func", sigmoid_gating, by_sigmoid ? sigmoid_gating : softmax_gating);
    const bool shares =  // without the key their weights would be left out
        !keys.has(Field::shared_size) && any_layer_has(r, "blk.#.ffn_up_shexp.weight");
    const uint32_t shared =
        shares ? keys.size("expert_shared_count", 1 << 10) : keys.size("expert_shared_count", 1 << 10, 0, 0);
    for (Layer& layer : r.architecture.layers) {
        Routing& routing = layer.feed_forward.routing;
        routing.score = gating == sigmoid_gating ? Routing::Score::sigmoid : Routing::Score::softmax;
        routing.group_by_top2 = gating == sigmoid_gating;
        routing.scale = keys.number("expert_weights_scale", 1);
        routing.renormalise = keys.flag("expert_weights_norm", routing.renormalise);
        routing.groups = keys.size("expert_group_count", std::max(1u, routing.experts), 1);
        routing.groups_used = keys.size("expert_group_used_count", routing.groups, 1);
        if (routing.experts % routing.groups != 0)
            keys.wrong("expert_group_count", "a divisor of expert_count");
        const uint32_t shared_size = columns_of(keys, "expert_shared_count", shared, routing.size);
        if (!keys.has(Field::shared_size)) routing.shared_size = shared_size;
    }
    make_first_dense(r.architecture, keys.size("leading_dense_block_count", most_layers, 0, 0),
                     keys.size(Field::feed_forward, most_size));
    for (size_t i = 0; i < r.architecture.layers.size(); ++i)
        r.architecture.layers[i].feed_forward.routing.choice_bias =
            layer_has(r, "blk.#.exp_probs_b.bias", i) || layer_has(r, "blk.#.exp_probs_b", i);
}

std::span<const Family> gguf_expert_families() {
    static const Family families[] = {
        {.name = "qwen2moe",
         .tensors = {common, experts},
         .qkv_bias = biased,
         .routing = &gated_shared_experts,
         .adjust = adjust_qwen2_moe},
        {.name = "qwen3moe",
         .tensors = {common, experts},
         .qkv_bias = if_present,
         .qk_norm = QkNorm::Group::head,
         .routing = &renormalised_experts},
        {.name = "qwen3vlmoe",
         .tensors = {common, experts},
         .qk_norm = QkNorm::Group::head,
         .routing = &renormalised_experts,
         .adjust = gguf::read_past_axes},
        {.name = "granitemoe",  // q and k permuted as for llama
         .tensors = {common, experts},
         .pairs = RopePairs::interleaved,
         .routing = &granite_experts,
         .adjust = gguf::adjust_granite},
        {.name = "glm4moe",
         .tensors = {post_attention_norm, common, experts},
         .qk_norm = QkNorm::Group::head,
         .rotary = 0.5,
         .routing = &sigmoid_experts,
         .adjust = adjust_glm4_moe},
        {.name = "dots1",
         .tensors = {common, experts},
         .qk_norm = QkNorm::Group::head,
         .routing = &sigmoid_experts,
         .adjust = adjust_sigmoid},
        {.name = "afmoe",
         .tensors = {afmoe, common, experts},
         .placement = NormPlacement::sandwich,
         .qk_norm = QkNorm::Group::head,
         .full_layers = Family::FullLayers::rest,
         .window = {Layers::not_every, 4},
         .routing = &sigmoid_experts,
         .root_embedding_scale = true,
         .adjust = adjust_afmoe},
        {.name = "laguna",
         .tensors = {afmoe, common, experts},
         .qk_norm = QkNorm::Group::head,
         .local_rope_base = 1e4,
         .window = {Layers::not_every, 4},
         .routing = &sigmoid_experts,
         .adjust = adjust_laguna},
        {.name = "exaone-moe",
         .tensors = {common, experts},
         .qk_norm = QkNorm::Group::head,
         .full_layers = Family::FullLayers::rest_beside_windows,
         .window = {Layers::not_every, 4},
         .routing = &sigmoid_experts,
         .adjust = adjust_sigmoid},
        {.name = "minimax-m2",
         .tensors = {common, experts},
         .qk_norm = QkNorm::Group::projection,
         .routing = &sigmoid_experts,
         .adjust = adjust_sigmoid},
        {.name = "ernie4_5-moe",
         .tensors = {common, experts},
         .pairs = RopePairs::interleaved,
         .routing = &ernie_experts,
         .adjust = adjust_ernie_moe},
        {.name = "hunyuan-moe",
         .tensors = {common, experts},
         .qk_norm = QkNorm::Group::head,
         .qk_norm_after_rope = true,
         .routing = &renormalised_experts,
         .adjust = adjust_shared},
        {.name = "olmoe",
         .tensors = {common, experts},
         .qk_norm = QkNorm::Group::projection,
         .clips = true,
         .routing = &softmax_experts},
        {.name = "dbrx",
         .tensors = {dbrx, common, experts},
         .norm = NormKind::layer,
         .clips = true,
         .routing = &renormalised_experts},
        {.name = "gpt-oss",
         .tensors = {sinks, post_attention_norm, common, experts},
         .qkv_bias = biased,
         .o_bias = biased,
         .window = {Layers::not_every, 2},
         .routing = &gpt_oss_experts,
         .adjust = use_sinks},
        {.name = "llama4",
         .tensors = {common, experts},
         .pairs = RopePairs::interleaved,
         .rope_base = 5e5,
         .no_rope_every = 4,
         .window = {Layers::chunked},
         .routing = &llama4_experts,
         .adjust = adjust_llama4},
        {.name = "phimoe",
         .tensors = {common, experts},
         .norm = NormKind::layer,
         .norm_bias = true,
         .window = {Layers::all},
         .routing = &phimoe_experts,
         .output_bias = if_present,
         .adjust = adjust_phimoe},
        {.name = "deepseek",  // DeepSeekMoE; q and k permuted as for llama, as Ling's of version 1
         .tensors = {common, experts},
         .pairs = RopePairs::interleaved,
         .routing = &softmax_experts,
         .adjust = adjust_softmax},
        {.name = "deepseek2-ocr",  // the part for texts, without latent attention
         .tensors = {common, experts},
         .rotates_whole = true,
         .routing = &softmax_experts,
         .adjust = adjust_ocr},
        {.name = "grok",
         .tensors = {grok, common, experts},
         .placement = NormPlacement::sandwich,
         .activation = Activation::gelu_tanh,
         .routing = &renormalised_experts,
         .adjust = adjust_grok},
        {.name = "bailingmoe",
         .tensors = {common, experts},
         .pairs = RopePairs::interleaved,
         .routing = &softmax_experts,
         .adjust = adjust_softmax},
        {.name = "bailingmoe2",
         .tensors = {common, experts},
         .qk_norm = QkNorm::Group::head,
         .rotary = 0.5,
         .routing = &sigmoid_experts,
         .adjust = adjust_sigmoid},
        {.name = "cohere2moe",
         .tensors = {common, experts},
         .norm = NormKind::layer,
         .placement = NormPlacement::parallel,
         .pairs = RopePairs::interleaved,
         .full_layers = Family::FullLayers::rest,
         .dense_rotate = true,
         .window = {Layers::not_every, 4},
         .routing = &cohere_experts,
         .adjust = adjust_cohere2moe},
        {.name = "smallthinker",
         .tensors = {common, experts},
         .full_layers = Family::FullLayers::rest_beside_windows,
         .window = {Layers::not_every, 4},
         .activation = Activation::relu,
         .routing = &early_experts,
         .adjust = adjust_smallthinker},
        {.name = "hy_v3",
         .tensors = {hy_v3, common, experts},
         .qk_norm = QkNorm::Group::head,
         .rope_base = 11158840,
         .routing = &sigmoid_experts,
         .adjust = adjust_hy_v3},
        {.name = "mellum",
         .tensors = {common, experts},
         .qk_norm = QkNorm::Group::head,
         .rope_base = 5e5,
         .local_rope_base = 5e5,
         .window = {Layers::not_every, 4},
         .routing = &renormalised_experts,
         .adjust = make_unrouted_dense},
        {.name = "mimo2",
         .tensors = {sinks, common, experts},
         .local_rope_base = 1e4,
         .window = {Layers::not_every},
         .routing = &sigmoid_experts,
         .adjust = adjust_mimo2},
        {.name = "step35",
         .tensors = {afmoe, common, experts},
         .qk_norm = QkNorm::Group::head,
         .local_rope_base = 1e4,
         .full_rotary = 0.5,
         .window = {Layers::not_every},
         .routing = &sigmoid_experts,
         .adjust = adjust_step35},
        {.name = "maple",
         .tensors = {common, experts},
         .qk_norm = QkNorm::Group::head,
         .full_layers = Family::FullLayers::rest,
         .window = {Layers::not_every},
         .routing = &renormalised_experts,
         .adjust = adjust_maple},
        {.name = "granite_swa",  // q and k permuted as for llama
         .tensors = {granite_swa, sinks, common, experts},
         .pairs = RopePairs::interleaved,
         .window = {Layers::not_every, 4},
         .routing = &granite_experts,
         .adjust = adjust_granite_swa},
    };
    return families;
}

}  // namespace scoria
