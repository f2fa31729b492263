// The families of Hugging Face folders, one row each. What they compute: the papers, and transformers'
// modeling files of the same names.
#include "hf_families.h"

#include "fail.h"

#include <cmath>

namespace scoria {
namespace {

using Layers = WindowRule::Layers;

constexpr Routing softmax_experts{};
constexpr Routing renormalised_experts{.renormalise = true};
constexpr Routing shared_gate_experts{.shared_gate = true};
constexpr Routing gpt_oss_experts{.score = Routing::Score::softmax_chosen,
                                  .router_bias = true,
                                  .bias = true,
                                  .clamp = 7,
                                  .gate_slope = 1.702f};

float number(const Settings& settings, const char* name, double otherwise) {
    return static_cast<float>(settings.positive(name, otherwise));
}

void set_scale(Architecture& architecture, double scale) {
    for (Layer& layer : architecture.layers) layer.attention.scale = static_cast<float>(scale);
}

/// A field that has one value which this build computes.
void expect_flag(const Settings& settings, const char* name, bool expected, bool otherwise) {
    if (settings.flag(name, otherwise) != expected)
        fail(Status::unsupported, settings.where(), settings.full_name(name), ": expected ",
             expected ? "true" : "false", ", got ", expected ? "false" : "true");
}

void adjust_granite(Reading& r) {
    r.architecture.embedding_scale = number(r.settings, "embedding_multiplier", 1);
    r.architecture.residual_scale = number(r.settings, "residual_multiplier", 1);
    r.architecture.logit_scale = static_cast<float>(1 / r.settings.positive("logits_scaling", 1.0));
    set_scale(r.architecture, r.settings.positive("attention_multiplier", 1.0));
}

/// "Attention is off by one" (Miller 2023): a sink of score 0, so exp(0) = 1 in the sum.
void adjust_softmax1(Reading& r) {
    expect_flag(r.settings, "softmax_plus_one", true, true);
    for (size_t i = 0; i < r.architecture.layers.size(); ++i) {
        Attention& attention = r.architecture.layers[i].attention;
        attention.sinks = true;
        r.synthesised[{Role::sinks, static_cast<int32_t>(i)}].assign(attention.heads, 0.0f);
    }
}

void adjust_smollm3(Reading& r) {
    if (!r.settings.has("layer_types")) expect_flag(r.settings, "use_sliding_window", false, false);
}

}  // namespace

std::span<const Family> hugging_face_families() {
    const Bias attention_bias = by_flag("attention_bias", false), mlp_bias = by_flag("mlp_bias", false);
    static const Family families[] = {
        {.name = "llama",
         .tensors = {hf::frame, hf::attention, hf::gated},
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .feed_forward_bias = mlp_bias},
        {.name = "mistral", .tensors = {hf::frame, hf::attention, hf::gated}, .window = {Layers::all}},
        {.name = "qwen2",
         .tensors = {hf::frame, hf::attention, hf::gated},
         .qkv_bias = biased,
         .window = {Layers::from, 0, "use_sliding_window"}},
        {.name = "qwen3",
         .tensors = {hf::frame, hf::attention, hf::gated, hf::qk_norms},
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .qk_norm = QkNorm::Group::head,
         .window = {Layers::from, 0, "use_sliding_window"}},
        {.name = "smollm3",
         .tensors = {hf::frame, hf::attention, hf::gated},
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .rope_base = 2e6,
         .no_rope_every = 4,
         .window = {Layers::all, 0, "use_sliding_window"},
         .feed_forward_bias = mlp_bias,
         .adjust = adjust_smollm3},
        {.name = "granite",
         .tensors = {hf::frame, hf::attention, hf::gated},
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .feed_forward_bias = mlp_bias,
         .adjust = adjust_granite},
        {.name = "softmax1", .tensors = {hf::own}, .adjust = adjust_softmax1},
        {.name = "phi3",
         .tensors = {hf::fused_qkv, hf::fused_gate_up, hf::frame, hf::attention},
         .window = {Layers::all}},
        {.name = "hunyuan_v1_dense",
         .tensors = {hf::frame, hf::attention, hf::gated, hf::hunyuan_qk_norms},
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .qk_norm = QkNorm::Group::head,
         .qk_norm_after_rope = true},
    };
    return families;
}

}  // namespace scoria
