// See conversion_keys.h.
#include "conversion_keys.h"

#include "fail.h"
#include "families.h"

#include <algorithm>
#include <cmath>

namespace scoria::conversion {
namespace {

void set_rope(const RopeSettings& rope, double magnitude, Keys& keys) {
    // Hunyuan's alpha is another base.
    const double power = rope.alpha > 0 ? std::pow(rope.alpha, rope.width / (rope.width - 2.0)) : 1;
    keys.set("rope.freq_base", rope.base * power);
    keys.set("rope.dimension_count", rope.width);
    switch (rope.scaling) {
    case RopeScaling::none:
    case RopeScaling::llama3:
    case RopeScaling::proportional:  // a tensor of divisors
        break;
    case RopeScaling::dynamic:
        if (rope.alpha == 0)
            fail(Status::unsupported, "quantize",
                 "rope_type: GGUF has no name for dynamic, whose frequencies follow the length of the text");
        break;
    case RopeScaling::linear:
        keys.set("rope.scaling.type", "linear");
        keys.set("rope.scaling.factor", rope.factor);
        break;
    case RopeScaling::yarn:
        keys.set("rope.scaling.type", "yarn");
        keys.set("rope.scaling.factor", rope.factor);
        keys.set("rope.scaling.original_context_length", rope.original_length);
        if (rope.beta_fast != 32) keys.set("rope.scaling.yarn_beta_fast", rope.beta_fast);
        if (rope.beta_slow != 1) keys.set("rope.scaling.yarn_beta_slow", rope.beta_slow);
        break;
    case RopeScaling::longrope:  // two tensors of divisors
        keys.set("rope.scaling.original_context_length", rope.original_length);
        keys.set("rope.scaling.attn_factor", magnitude);
        break;
    }
}

void set_experts(const Routing& routing, Keys& keys) {
    keys.set("expert_count", routing.experts);
    keys.set("expert_used_count", routing.used);
    keys.set("expert_feed_forward_length", routing.size);
}

}  // namespace

void set_shared_keys(const Described& model, Keys& keys) {
    const Architecture& a = model.architecture;
    const Attention& attention = a.attention();
    const Attention cached = kernel_attention(attention);
    const Routing& routing = a.routing();
    keys.set("block_count", static_cast<uint32_t>(a.own_layers()));
    keys.set("context_length", a.context);
    keys.set("embedding_length", a.hidden);
    keys.set("feed_forward_length", model.feed_forward);
    keys.set("attention.head_count", attention.heads);
    keys.set("attention.head_count_kv", cached.kv_heads);
    if (attention.heads != 0) {
        keys.set("attention.key_length", cached.head_dim);
        keys.set("attention.value_length",
                 attention.latent.kv_rank ? attention.latent.kv_rank : cached.v_head_dim());
    }
    keys.set(a.norm.kind == NormKind::rms ? "attention.layer_norm_rms_epsilon"
                                          : "attention.layer_norm_epsilon",
             double{a.norm.epsilon});
    keys.set("vocab_size", a.vocab);
    uint32_t window = 0;
    for (const Layer& layer : a.layers) window = std::max(window, layer.attention.window);
    if (window != 0) keys.set("attention.sliding_window", window);
    if (attention.clip > 0) keys.set("attention.clamp_kqv", double{attention.clip});
    if (attention.soft_cap > 0) keys.set("attn_logit_softcapping", double{attention.soft_cap});
    if (a.logit_soft_cap > 0) keys.set("final_logit_softcapping", double{a.logit_soft_cap});
    if (routing.experts != 0) set_experts(routing, keys);
    if (!model.ropes.empty()) set_rope(model.ropes.front(), a.ropes.front().magnitude, keys);
    if (model.ropes.size() > 1) keys.set("rope.freq_base_swa", model.ropes[1].base);
}

void set_shared_expert(const Described& model, Keys& keys) {
    keys.set("expert_shared_feed_forward_length", model.architecture.routing().shared_size);
}

void set_granite(const Described& model, Keys& keys) {
    const Architecture& a = model.architecture;
    keys.set("embedding_scale", double{a.embedding_scale});
    keys.set("residual_scale", double{a.residual_scale});
    keys.set("attention.scale", double{a.attention().scale});
    keys.set("logit_scale", 1 / double{a.logit_scale});
}

void set_logit_scale(const Described& model, Keys& keys) {
    keys.set("logit_scale", double{model.architecture.logit_scale});
}

void set_choice(const Routing& routing, Keys& keys) {
    keys.set("expert_weights_scale", double{routing.scale});
    keys.set("expert_weights_norm", routing.renormalise);
    keys.set("expert_group_count", routing.groups);
    keys.set("expert_group_used_count", routing.groups_used);
}

void set_deepseek_experts(const Described& model, Keys& keys) {
    const std::vector<Layer>& layers = model.architecture.layers;
    const auto dense = std::ranges::count_if(
        layers, [](const Layer& layer) { return layer.feed_forward.routing.experts == 0; });
    keys.set("leading_dense_block_count", static_cast<uint32_t>(dense));
    const Routing& routing = layers.back().feed_forward.routing;
    if (routing.experts == 0) return;
    keys.set("expert_shared_count", routing.shared_size / routing.size);
    keys.set("expert_gating_func", routing.score == Routing::Score::sigmoid ? 2u : 1u);
    set_choice(routing, keys);
}

void set_granite_shared(const Described& model, Keys& keys) {
    set_granite(model, keys);
    const uint32_t shared = model.architecture.routing().shared_size;
    if (shared != 0) keys.set("expert_shared_feed_forward_length", shared);
}

void set_rotating(const Described& model, Keys& keys) {
    std::vector<bool> rotating;
    for (const Layer& layer : model.architecture.layers) rotating.push_back(layer.attention.rope >= 0);
    if (std::ranges::find(rotating, false) != rotating.end()) keys.set("attention.rope_pattern", rotating);
}

void set_windowed(const Described& model, Keys& keys) {
    std::vector<bool> windowed;
    for (const Layer& layer : model.architecture.layers) windowed.push_back(layer.attention.window != 0);
    if (std::ranges::find(windowed, true) != windowed.end())
        keys.set("attention.sliding_window_pattern", windowed);
}

void set_deepseek(const Described& model, Keys& keys) {
    const Attention& attention = model.architecture.attention();
    const Latent& latent = attention.latent;
    keys.set("attention.kv_lora_rank", latent.kv_rank);
    if (latent.q_rank != 0) keys.set("attention.q_lora_rank", latent.q_rank);
    keys.set("attention.key_length_mla", attention.head_dim);
    keys.set("attention.value_length_mla", latent.value_dim);
    if (model.ropes.empty())
        keys.set("rope.dimension_count", latent.rope_dim);
    else if (const RopeSettings& rope = model.ropes.front(); rope.mscale_all)
        keys.set("rope.scaling.yarn_log_multiplier", 0.1 * *rope.mscale_all);
    set_deepseek_experts(model, keys);
}

void set_heads_by_layer(const Described& model, Keys& keys) {
    std::vector<uint32_t> heads;
    for (const Layer& layer : model.architecture.layers) heads.push_back(layer.attention.kv_heads);
    keys.set("attention.head_count_kv", heads);
}

void set_columns_by_layer(const Described& model, Keys& keys) {
    std::vector<uint32_t> sizes;
    for (const Layer& layer : model.architecture.layers) {
        const FeedForward& feed_forward = layer.feed_forward;
        sizes.push_back(feed_forward.routing.apart ? feed_forward.routing.shared_size : feed_forward.size);
    }
    keys.set("feed_forward_length", sizes);
}

}  // namespace scoria::conversion
