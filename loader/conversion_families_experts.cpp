// Mixtures of experts: see conversion_families.h.
#include "conversion_families.h"

#include "families.h"

#include <algorithm>

namespace scoria::conversion {
namespace {

void set_hunyuan_experts(const Described& model, Keys& keys) {
    set_shared_expert(model, keys);
    keys.set("expert_shared_count", 1u);
}

void set_ernie_experts(const Described& model, Keys& keys) {
    const std::vector<Layer>& layers = model.architecture.layers;
    const auto sparse = [](const Layer& layer) { return layer.feed_forward.routing.experts != 0; };
    const auto first = std::ranges::find_if(layers, sparse);
    if (first == layers.end()) return;
    const auto next = std::find_if(first + 1, layers.end(), sparse);
    const auto place = static_cast<uint32_t>(first - layers.begin());
    // Every step-th layer from the first one on; one alone is the last one of its step.
    const auto step = next != layers.end() ? static_cast<uint32_t>(next - first) : place + 1;
    keys.set("interleave_moe_layer_step", step);
    keys.set("leading_dense_block_count", place);
    keys.set("expert_shared_count",
             first->feed_forward.routing.shared_size / first->feed_forward.routing.size);
}

void set_granite_swa(const Described& model, Keys& keys) {
    set_granite_shared(model, keys);
    set_windowed(model, keys);
    set_rotating(model, keys);
}

void set_hy_v3(const Described& model, Keys& keys) {
    const Routing& routing = model.architecture.routing();
    set_shared_expert(model, keys);
    keys.set("expert_gating_func", 2u);
    keys.set("expert_weights_scale", double{routing.scale});
    keys.set("expert_weights_norm", routing.renormalise);
}

/// Every how many layers one has experts.
uint32_t expert_step(const Architecture& a) {
    const auto routes = [](const Layer& layer) { return layer.feed_forward.routing.experts != 0; };
    return uint32_t(std::ranges::find_if(a.layers, routes) - a.layers.begin()) + 1;
}

/// Of a dense layer, where it is not that of experts.
void set_dense_size(const Described& model, Keys& keys) {
    for (const Layer& layer : model.architecture.layers)
        if (const uint32_t size = layer.feed_forward.size; size != 0) keys.set("feed_forward_length", size);
}

void set_llama4(const Described& model, Keys& keys) {
    keys.set("interleave_moe_layer_step", expert_step(model.architecture));
    set_dense_size(model, keys);
}

void set_bailing(const Described& model, Keys& keys) {
    set_deepseek_experts(model, keys);
    set_shared_expert(model, keys);
}

void set_cohere2_moe(const Described& model, Keys& keys) {
    const Architecture& a = model.architecture;
    set_logit_scale(model, keys);
    set_windowed(model, keys);
    set_deepseek_experts(model, keys);
    set_dense_size(model, keys);
    if (a.routing().score == Routing::Score::softmax_chosen) keys.set("expert_gating_func", 1u);
}

void set_exaone_moe(const Described& model, Keys& keys) {
    set_windowed(model, keys);
    set_deepseek_experts(model, keys);
}

void set_laguna(const Described& model, Keys& keys) {
    const Architecture& a = model.architecture;
    set_windowed(model, keys);
    set_deepseek_experts(model, keys);
    set_shared_expert(model, keys);
    set_dense_size(model, keys);
    std::vector<uint32_t> heads;
    for (const Layer& layer : a.layers) heads.push_back(layer.attention.heads);
    keys.set("attention.head_count", heads);
    if (model.ropes.size() > 1) keys.set("rope.dimension_count_swa", model.ropes[1].width);
}

void set_step(const Described& model, Keys& keys) {
    const Architecture& a = model.architecture;
    set_laguna(model, keys);
    set_heads_by_layer(model, keys);
    keys.set("rope.dimension_count", model.ropes.back().width);  // of which layers without a window turn half
    std::vector<float> experts, all;
    for (const Layer& layer : a.layers) {
        experts.push_back(layer.feed_forward.routing.clamp.limit);
        all.push_back(layer.feed_forward.clamp.limit);
    }
    const FeedForward& first = a.layers.front().feed_forward;
    if (first.routing.clamp.activated) keys.set("swiglu_clamp_exp", experts);
    if (first.clamp.activated) keys.set("swiglu_clamp_shexp", all);
}

/// Sparse attention, of which llama.cpp has two architectures.
void set_indexer(const Described& model, Keys& keys) {
    const Architecture& a = model.architecture;
    const Indexer& indexer = a.layers.front().attention.indexer;
    set_deepseek(model, keys);
    keys.set("attention.indexer.head_count", indexer.heads);
    keys.set("attention.indexer.key_length", indexer.head_dim);
    keys.set("attention.indexer.top_k", indexer.top);
}

void set_shared_indexer(const Described& model, Keys& keys) {
    set_indexer(model, keys);
    std::vector<bool> full;
    for (const Layer& layer : model.architecture.layers) full.push_back(!layer.attention.indexer.shared);
    keys.set("attention.indexer.types", full);
}

void set_mimo(const Described& model, Keys& keys) {
    const Architecture& a = model.architecture;
    set_windowed(model, keys);
    set_heads_by_layer(model, keys);
    set_choice(a.routing(), keys);
    set_dense_size(model, keys);
    if (const float scale = a.layers.front().attention_out; scale != 1)
        keys.set("attention.value_scale", double{scale});
}

void set_mistral4(const Described& model, Keys& keys) {
    set_deepseek(model, keys);
    keys.set("attention.temperature_scale", model.ropes.front().query_growth);
}

/// Dense layers come first, and what experts and a shared one find is averaged.
bool averages_after_dense(const Architecture& a) {
    bool routed = false;
    for (const Layer& layer : a.layers) {
        const Routing& routing = layer.feed_forward.routing;
        if (routing.experts == 0 ? routed : routing.shared_size != 0 && layer.feed_forward_out == 1)
            return false;
        routed = routing.experts != 0;
    }
    return true;
}

bool scores_by_sigmoid(const Architecture& a) { return a.routing().score == Routing::Score::sigmoid; }
bool has_one_base(const Architecture& a) { return a.ropes.size() <= 1; }
bool turns_half(const Architecture& a) {
    return a.ropes.size() == 2 && 2 * a.ropes[0].width == a.ropes[1].width;
}
bool renormalises(const Architecture& a) { return a.routing().renormalise; }

/// Keys for the rest there are none.
bool is_llama4_as_published(const Architecture& a) {
    constexpr uint32_t chunk = 8192;
    if (a.ropes.size() != 2 || a.ropes[1].query_growth != 0.1 || a.ropes[1].growth_length != chunk)
        return false;
    const uint32_t step = expert_step(a);
    for (size_t i = 0; i < a.layers.size(); ++i) {
        const Layer& layer = a.layers[i];
        const Attention& attention = layer.attention;
        const bool rotates = (i + 1) % 4 != 0, routes = (i + 1) % step == 0;
        const bool normed = attention.qk_norm.group != QkNorm::Group::none;
        if (attention.rope != (rotates ? 0 : 1) || normed != (rotates && a.routing().experts != 128) ||
            attention.mask != (rotates ? Mask::fixed_block : Mask::causal) ||
            (rotates && attention.stride != chunk) || (layer.feed_forward.routing.experts != 0) != routes)
            return false;
    }
    return true;
}

/// Nor for another margin.
bool is_phimoe_as_published(const Architecture& a) { return a.routing().margin == 0.02f; }

bool scales_embedding(const Architecture& a) { return a.embedding_scale != 1; }

}  // namespace

std::span<const ConversionFamily> expert_conversions() {
    static constexpr ConversionFamily families[] = {
        {.model_type = "mixtral", .architecture = "llama"},
        {.model_type = "dbrx", .architecture = "dbrx", .fits = renormalises},
        {.model_type = "llama4_text",
         .architecture = "llama4",
         .fits = is_llama4_as_published,
         .keys = set_llama4},
        {.model_type = "phimoe", .architecture = "phimoe", .fits = is_phimoe_as_published},
        {.model_type = "deepseek", .architecture = "deepseek", .keys = set_deepseek_experts},
        {.model_type = "deepseek_ocr2_text", .architecture = "deepseek2-ocr", .keys = set_deepseek_experts},
        {.model_type = "bailing_moe",
         .architecture = "bailingmoe2",
         .fits = scores_by_sigmoid,
         .fused_qkv = true,
         .keys = set_bailing},
        {.model_type = "bailing_moe", .architecture = "bailingmoe", .keys = set_deepseek_experts},
        {.model_type = "sarvam_moe", .architecture = "bailingmoe2", .fused_qkv = true, .keys = set_bailing},
        {.model_type = "cohere2_moe",
         .architecture = "cohere2moe",
         .fits = averages_after_dense,
         .keys = set_cohere2_moe},
        {.model_type = "hy_v3", .architecture = "hy_v3", .keys = set_hy_v3},
        {.model_type = "mellum", .architecture = "mellum", .fits = renormalises, .keys = set_windowed},
        {.model_type = "granite_swa",
         .architecture = "granite_swa",
         .fits = has_one_base,
         .keys = set_granite_swa},
        {.model_type = "granitemoe_swa",
         .architecture = "granite_swa",
         .fits = has_one_base,
         .keys = set_granite_swa},
        {.model_type = "mistral4", .architecture = "mistral4", .keys = set_mistral4, .lacks = lacks_q_rank},
        {.model_type = "ernie4_5_moe", .architecture = "ernie4_5-moe", .keys = set_ernie_experts},
        {.model_type = "qwen2_moe", .architecture = "qwen2moe", .keys = set_shared_expert},
        {.model_type = "qwen3_moe", .architecture = "qwen3moe"},
        {.model_type = "granitemoehybrid",
         .architecture = "granitemoe",
         .fits = has_experts,
         .keys = set_granite_shared},
        {.model_type = "granitemoe", .architecture = "granitemoe", .keys = set_granite},
        {.model_type = "granitemoeshared", .architecture = "granitemoe", .keys = set_granite_shared},
        {.model_type = "olmoe", .architecture = "olmoe"},
        {.model_type = "hunyuan_v1_moe", .architecture = "hunyuan-moe", .keys = set_hunyuan_experts},
        {.model_type = "glm4_moe", .architecture = "glm4moe", .ahead = true, .keys = set_deepseek_experts},
        {.model_type = "glm4_moe_lite",
         .architecture = "deepseek2",
         .ahead = true,
         .keys = set_deepseek,
         .lacks = lacks_q_rank},
        {.model_type = "solar_open", .architecture = "glm4moe", .keys = set_deepseek_experts},
        {.model_type = "exaone_moe", .architecture = "exaone-moe", .keys = set_exaone_moe},
        {.model_type = "afmoe", .architecture = "afmoe", .fits = scales_embedding, .keys = set_exaone_moe},
        {.model_type = "laguna", .architecture = "laguna", .keys = set_laguna},
        {.model_type = "step3p5", .architecture = "step35", .fits = turns_half, .keys = set_step},
        {.model_type = "dots1", .architecture = "dots1", .keys = set_deepseek_experts},
        {.model_type = "mimo_v2_flash", .architecture = "mimo2", .keys = set_mimo},
        {.model_type = "minimax_m2", .architecture = "minimax-m2", .keys = set_deepseek_experts},
        {.model_type = "gpt_oss", .architecture = "gpt-oss"},
        {.model_type = "deepseek_v2",
         .architecture = "deepseek2",
         .keys = set_deepseek,
         .lacks = lacks_q_rank},
        {.model_type = "deepseek_v3",
         .architecture = "deepseek2",
         .ahead = true,
         .keys = set_deepseek,
         .lacks = lacks_q_rank},
        {.model_type = "deepseek_v32", .architecture = "deepseek32", .keys = set_indexer},
        {.model_type = "glm_moe_dsa", .architecture = "glm-dsa", .keys = set_shared_indexer},
        {.model_type = "sarvam_mla",
         .architecture = "deepseek2",
         .keys = set_deepseek,
         .lacks = lacks_q_rank},
    };
    return families;
}

}  // namespace scoria::conversion
