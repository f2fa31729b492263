// Mixtures of experts: one row per family.
#include "hf_families.h"

namespace scoria {
namespace {

using Layers = WindowRule::Layers;

constexpr Routing softmax_experts{};
constexpr Routing renormalised_experts{.renormalise = true};
constexpr Routing gated_shared_experts{.shared_gate = true};
constexpr Routing gpt_oss_experts{.score = Routing::Score::softmax_chosen,
                                  .router_bias = true,
                                  .bias = true,
                                  .clamp = 7,
                                  .gate_slope = 1.702f};

void adjust_gpt_oss(Reading& r) {
    for (Layer& layer : r.architecture.layers) {
        Routing& routing = layer.feed_forward.routing;
        layer.attention.sinks = true;
        routing.clamp = static_cast<float>(r.settings.positive("swiglu_limit", 7.0));
        routing.gate_slope = static_cast<float>(r.settings.positive("swiglu_alpha", 1.702));
    }
}

/// The expert that all tokens pass is as wide as the others.
void adjust_hunyuan_moe(Reading& r) {
    for (Layer& layer : r.architecture.layers)
        layer.feed_forward.routing.shared_size = layer.feed_forward.routing.size;
}

}  // namespace

std::span<const Family> expert_families() {
    static const Family families[] = {
        {.name = "mixtral",
         .tensors = {hf::mixtral, hf::experts, hf::frame, hf::attention},
         .rope_base = 1e6,
         .window = {Layers::all},
         .routing = &renormalised_experts},
        {.name = "qwen2_moe",
         .tensors = {hf::experts, hf::frame, hf::attention, hf::gated},
         .qkv_bias = by_flag("qkv_bias", true),
         .window = {Layers::from, 0, "use_sliding_window"},
         .routing = &gated_shared_experts},
        {.name = "qwen3_moe",
         .tensors = {hf::experts, hf::frame, hf::attention, hf::gated, hf::qk_norms},
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .qk_norm = QkNorm::Group::head,
         .window = {Layers::all, 0, "use_sliding_window"},
         .routing = &softmax_experts},
        {.name = "olmoe",
         .tensors = {hf::experts, hf::frame, hf::attention, hf::qk_norms},
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .qk_norm = QkNorm::Group::projection,
         .clips = true,
         .routing = &softmax_experts},
        {.name = "gpt_oss",
         .tensors = {hf::gpt_oss, hf::frame, hf::attention},
         .qkv_bias = by_flag("attention_bias", true),
         .o_bias = by_flag("attention_bias", true),
         .rope_base = 150000,
         .window = {Layers::not_every, 2},
         .routing = &gpt_oss_experts,
         .adjust = adjust_gpt_oss},
        {.name = "hunyuan_v1_moe",
         .tensors = {hf::hunyuan_moe, hf::experts, hf::frame, hf::attention, hf::hunyuan_qk_norms},
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .qk_norm = QkNorm::Group::head,
         .qk_norm_after_rope = true,
         .routing = &renormalised_experts,
         .adjust = adjust_hunyuan_moe},
    };
    return families;
}

}  // namespace scoria
