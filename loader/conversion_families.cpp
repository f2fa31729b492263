// See conversion_families.h: the table, and keys as llama.cpp's gguf-py/gguf/constants.py names them.
#include "conversion_families.h"

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

void set_shared_expert(const Described& model, Keys& keys) {
    keys.set("expert_shared_feed_forward_length", model.architecture.routing().shared_size);
}

void set_hunyuan_experts(const Described& model, Keys& keys) {
    set_shared_expert(model, keys);
    keys.set("expert_shared_count", 1u);
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

void set_parallel(const Described& model, Keys& keys) {
    const NormPlacement placement = model.architecture.placement;
    keys.set("use_parallel_residual",
             placement == NormPlacement::parallel || placement == NormPlacement::parallel_2);
}

/// The slopes of ALiBi end at 2^-8.
void set_alibi(const Described&, Keys& keys) { keys.set("attention.max_alibi_bias", 8.0); }

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

void set_granite_shared(const Described& model, Keys& keys) {
    set_granite(model, keys);
    const uint32_t shared = model.architecture.routing().shared_size;
    if (shared != 0) keys.set("expert_shared_feed_forward_length", shared);
}

void set_ministral3(const Described& model, Keys& keys) {
    const RopeSettings& rope = model.ropes.front();
    if (rope.mscale_all) keys.set("rope.scaling.yarn_log_multiplier", *rope.mscale_all);
    if (rope.query_growth != 0) keys.set("attention.temperature_scale", rope.query_growth);
}

/// Which layers rotate, where not all do.
void set_rotating(const Described& model, Keys& keys) {
    std::vector<bool> rotating;
    for (const Layer& layer : model.architecture.layers) rotating.push_back(layer.attention.rope >= 0);
    if (std::ranges::find(rotating, false) != rotating.end()) keys.set("attention.rope_pattern", rotating);
}

/// Which layers have the window.
void set_windowed(const Described& model, Keys& keys) {
    std::vector<bool> windowed;
    for (const Layer& layer : model.architecture.layers) windowed.push_back(layer.attention.window != 0);
    if (std::ranges::find(windowed, true) != windowed.end())
        keys.set("attention.sliding_window_pattern", windowed);
}

/// Key/value heads of every layer, 0 where it has no attention.
void set_heads_by_layer(const Described& model, Keys& keys) {
    std::vector<uint32_t> heads;
    for (const Layer& layer : model.architecture.layers) heads.push_back(layer.attention.kv_heads);
    keys.set("attention.head_count_kv", heads);
}

/// Columns of the feed-forward that all tokens pass.
void set_columns_by_layer(const Described& model, Keys& keys) {
    std::vector<uint32_t> sizes;
    for (const Layer& layer : model.architecture.layers) {
        const FeedForward& feed_forward = layer.feed_forward;
        sizes.push_back(feed_forward.routing.apart ? feed_forward.routing.shared_size : feed_forward.size);
    }
    keys.set("feed_forward_length", sizes);
}

uint32_t sharing_layers(const Architecture& a) {
    return uint32_t(
        std::ranges::count_if(a.layers, [](const Layer& l) { return l.attention.kv_layer >= 0; }));
}

void set_gemma3n(const Described& model, Keys& keys) {
    const Architecture& a = model.architecture;
    std::vector<float> cuts;
    for (const Layer& layer : a.layers) cuts.push_back(layer.feed_forward.gate_cut);
    set_windowed(model, keys);
    set_columns_by_layer(model, keys);
    keys.set("altup.active_idx", uint32_t{0});
    keys.set("altup.num_inputs", a.alternating.count);
    keys.set("attention.shared_kv_layers", sharing_layers(a));
    keys.set("embedding_length_per_layer_input", a.per_layer);
    keys.set("activation_sparsity_scale", cuts);
}

void set_apertus(const Described& model, Keys& keys) {
    std::vector<float> p, n;
    for (const Layer& layer : model.architecture.layers) {
        p.push_back(layer.feed_forward.xielu.p);
        n.push_back(layer.feed_forward.xielu.n);
    }
    keys.set_global("xielu.alpha_p", p);
    keys.set_global("xielu.alpha_n", n);
    keys.set_global("xielu.beta", std::vector<float>(p.size(), 0.5f));
    keys.set_global("xielu.eps", std::vector<float>(p.size(), -1e-6f));
}

void set_gemma4(const Described& model, Keys& keys) {
    const Architecture& a = model.architecture;
    set_windowed(model, keys);
    set_heads_by_layer(model, keys);
    set_columns_by_layer(model, keys);
    keys.set("attention.shared_kv_layers", sharing_layers(a));
    keys.set("embedding_length_per_layer_input", a.per_layer);
    for (const bool windowed : {false, true})
        for (const char* name : {"attention.key_length", "attention.value_length"})
            keys.set(cat(name, windowed ? "_swa" : ""), head_dim_of(a, windowed));
    keys.set("rope.dimension_count_swa", model.ropes.back().width);
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

void set_deepseek(const Described& model, Keys& keys) {
    const std::vector<Layer>& layers = model.architecture.layers;
    const Latent& latent = layers.front().attention.latent;
    keys.set("attention.kv_lora_rank", latent.kv_rank);
    if (latent.q_rank != 0) keys.set("attention.q_lora_rank", latent.q_rank);
    keys.set("attention.key_length_mla", layers.front().attention.head_dim);
    keys.set("attention.value_length_mla", latent.value_dim);
    if (const RopeSettings& rope = model.ropes.front(); rope.mscale_all)
        keys.set("rope.scaling.yarn_log_multiplier", 0.1 * *rope.mscale_all);
    set_deepseek_experts(model, keys);
}

void set_mistral4(const Described& model, Keys& keys) {
    set_deepseek(model, keys);
    keys.set("attention.temperature_scale", model.ropes.front().query_growth);
}

/// A window counts both sides; every n-th layer from the first on has none.
void set_modern_bert(const Described& model, Keys& keys) {
    const std::vector<Layer>& layers = model.architecture.layers;
    const auto full = [](const Layer& layer) { return layer.attention.window == 0; };
    const auto windowed = std::ranges::find_if_not(layers, full);
    keys.set("attention.causal", false);
    if (windowed == layers.end()) return;
    keys.set("attention.sliding_window", 2 * (windowed->attention.window - 1));
    const auto next = std::find_if(windowed, layers.end(), full);
    keys.set("attention.sliding_window_pattern", static_cast<uint32_t>(next - layers.begin()));
}

void set_bert(const Described&, Keys& keys) { keys.set("attention.causal", false); }

/// Readers take the window from every layer but each sixth; it counts both sides.
void set_gemma_embedding(const Described& model, Keys& keys) {
    set_windowed(model, keys);
    set_bert(model, keys);
    for (const Layer& layer : model.architecture.layers)
        if (const uint32_t window = layer.attention.window; window != 0)
            keys.set("attention.sliding_window", 2 * (window - 1));
}

/// The blocks counted are the encoder's; the context is what files say whose config.json names none.
void set_t5(const Described& model, Keys& keys) {
    const Architecture& a = model.architecture;
    keys.set("context_length", 512u);
    keys.set("block_count", static_cast<uint32_t>(a.encoder.front().layers.size()));
    keys.set("decoder_block_count", static_cast<uint32_t>(a.layers.size()));
    keys.set("decoder_start_token_id", a.decoder_start);
    keys.set("attention.layer_norm_epsilon", double{a.norm.epsilon});  // under both names
    keys.set("attention.relative_buckets_count", model.buckets);
}

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

void set_delta(const Described& model, Keys& keys) {
    set_states(model, keys);
    std::vector<bool> recurs;
    for (const Layer& layer : model.architecture.layers) recurs.push_back(layer.attention.heads == 0);
    const auto every = static_cast<size_t>(std::ranges::find(recurs, false) - recurs.begin()) + 1;
    keys.set("full_attention_interval", static_cast<uint32_t>(every));
    bool regular = true;
    for (size_t i = 0; i < recurs.size(); ++i) regular = regular && recurs[i] == ((i + 1) % every != 0);
    if (!regular) keys.set("attention.recurrent_layers", recurs);
    if (model.architecture.routing().shared_size != 0) set_shared_expert(model, keys);
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

bool is_recurrent(const Architecture& a) { return a.recurrent(); }
bool scales_embedding(const Architecture& a) { return a.embedding_scale != 1; }
/// Multipliers would have to go into weights, and norms come after gates.
bool multiplies_nothing(const Architecture& a) {
    const Layer& layer = a.layers.front();
    const Recurrence& r = layer.recurrence;
    return a.embedding_scale == 1 && a.logit_scale == 1 && layer.attention_out == 1 &&
           layer.recurrence_out == 1 && layer.feed_forward_out == 1 && layer.feed_forward.gate_scale == 1 &&
           r.gate_scale == 1 && r.step_scale == 1 && !r.scales_channels() && !r.norm_first;
}
bool sees_both_sides(const Architecture& a) { return a.bidirectional(); }
bool is_tied(const Architecture& a) { return a.tied_embeddings; }
bool has_experts(const Architecture& a) { return a.routing().experts != 0; }

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

bool lacks_q_rank(const Architecture& a, std::string_view name) {
    return a.layers.front().attention.latent.q_rank == 0 && name == "blk.#.attn_q_b.weight";
}

/// The second norm of Falcon 40B.
bool lacks_second_norm(const Architecture& a, std::string_view name) {
    return a.placement != NormPlacement::parallel_2 && name.starts_with("blk.#.attn_norm_2");
}

constexpr ConversionFamily families[] = {
    {.model_type = "llama", .architecture = "llama"},
    {.model_type = "iquestcoder", .architecture = "llama"},
    {.model_type = "internlm3", .architecture = "llama"},
    {.model_type = "mistral", .architecture = "llama"},
    {.model_type = "ministral", .architecture = "llama"},
    {.model_type = "mixtral", .architecture = "llama"},
    {.model_type = "llama4_text",
     .architecture = "llama4",
     .fits = is_llama4_as_published,
     .keys = set_llama4},
    {.model_type = "phimoe", .architecture = "phimoe", .fits = is_phimoe_as_published},
    {.model_type = "deepseek", .architecture = "deepseek", .keys = set_deepseek_experts},
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
    {.model_type = "ministral3", .architecture = "mistral3", .keys = set_ministral3},
    {.model_type = "arcee", .architecture = "arcee"},
    {.model_type = "seed_oss", .architecture = "seed_oss"},
    {.model_type = "bitnet", .architecture = "bitnet", .fits = is_tied},
    {.model_type = "ernie4_5", .architecture = "ernie4_5"},
    {.model_type = "ernie4_5_moe", .architecture = "ernie4_5-moe", .keys = set_ernie_experts},
    {.model_type = "qwen2", .architecture = "qwen2"},
    {.model_type = "qwen2_moe", .architecture = "qwen2moe", .keys = set_shared_expert},
    {.model_type = "qwen3", .architecture = "qwen3"},
    {.model_type = "qwen3_moe", .architecture = "qwen3moe"},
    {.model_type = "smollm3", .architecture = "smollm3"},
    {.model_type = "granite", .architecture = "granite", .keys = set_granite},
    {.model_type = "granitemoehybrid",
     .architecture = "granitehybrid",
     .fits = is_recurrent,
     .keys = set_granite_hybrid},
    {.model_type = "granitemoehybrid",
     .architecture = "granitemoe",
     .fits = has_experts,
     .keys = set_granite_shared},
    {.model_type = "granitemoehybrid", .architecture = "granite", .keys = set_granite},
    {.model_type = "falcon_h1", .architecture = "falcon-h1", .fits = multiplies_nothing, .keys = set_states},
    {.model_type = "nemotron_h", .architecture = "nemotron_h_moe", .fits = has_experts, .keys = set_nemotron},
    {.model_type = "nemotron_h", .architecture = "nemotron_h", .keys = set_nemotron},
    {.model_type = "lfm2", .architecture = "lfm2", .keys = set_lfm2},
    {.model_type = "lfm2_moe", .architecture = "lfm2moe", .keys = set_lfm2_moe},
    {.model_type = "qwen3_next", .architecture = "qwen3next", .keys = set_delta},
    {.model_type = "qwen3_5_text", .architecture = "qwen35", .tiles_heads = true, .keys = set_delta_and_axes},
    {.model_type = "qwen3_5_moe_text",
     .architecture = "qwen35moe",
     .tiles_heads = true,
     .keys = set_delta_and_axes},
    {.model_type = "granitemoe", .architecture = "granitemoe", .keys = set_granite},
    {.model_type = "granitemoeshared", .architecture = "granitemoe", .keys = set_granite_shared},
    {.model_type = "phi", .architecture = "phi2"},
    {.model_type = "phi3", .architecture = "phi3", .fused_qkv = true},
    {.model_type = "gemma", .architecture = "gemma"},
    {.model_type = "gemma2", .architecture = "gemma2"},
    {.model_type = "gemma3_text",
     .architecture = "gemma-embedding",
     .fits = sees_both_sides,
     .embeds = true,
     .dense = true,
     .keys = set_gemma_embedding},
    {.model_type = "gemma3_text", .architecture = "gemma3"},
    {.model_type = "gemma3n_text", .architecture = "gemma3n", .keys = set_gemma3n},
    {.model_type = "gemma4_text", .architecture = "gemma4", .keys = set_gemma4},
    {.model_type = "cohere", .architecture = "command-r", .keys = set_logit_scale},
    {.model_type = "cohere2", .architecture = "cohere2", .keys = set_logit_scale},
    {.model_type = "olmo", .architecture = "olmo"},
    {.model_type = "olmo2", .architecture = "olmo2"},
    {.model_type = "olmo3", .architecture = "olmo2", .keys = set_windowed},
    {.model_type = "apertus", .architecture = "apertus", .keys = set_apertus},
    {.model_type = "exaone", .architecture = "exaone"},
    {.model_type = "exaone4", .architecture = "exaone4", .keys = set_windowed},
    {.model_type = "olmoe", .architecture = "olmoe"},
    {.model_type = "glm", .architecture = "chatglm"},
    {.model_type = "glm4", .architecture = "glm4"},
    {.model_type = "hunyuan_v1_dense", .architecture = "hunyuan-dense"},
    {.model_type = "hunyuan_v1_moe", .architecture = "hunyuan-moe", .keys = set_hunyuan_experts},
    {.model_type = "glm4_moe", .architecture = "glm4moe", .keys = set_deepseek_experts},
    {.model_type = "glm4_moe_lite", .architecture = "deepseek2", .keys = set_deepseek, .lacks = lacks_q_rank},
    {.model_type = "solar_open", .architecture = "glm4moe", .keys = set_deepseek_experts},
    {.model_type = "exaone_moe", .architecture = "exaone-moe", .keys = set_exaone_moe},
    {.model_type = "afmoe", .architecture = "afmoe", .fits = scales_embedding, .keys = set_exaone_moe},
    {.model_type = "dots1", .architecture = "dots1", .keys = set_deepseek_experts},
    {.model_type = "minimax_m2", .architecture = "minimax-m2", .keys = set_deepseek_experts},
    {.model_type = "gpt_oss", .architecture = "gpt-oss"},
    {.model_type = "deepseek_v2", .architecture = "deepseek2", .keys = set_deepseek, .lacks = lacks_q_rank},
    {.model_type = "deepseek_v3", .architecture = "deepseek2", .keys = set_deepseek, .lacks = lacks_q_rank},
    {.model_type = "sarvam_mla", .architecture = "deepseek2", .keys = set_deepseek, .lacks = lacks_q_rank},
    {.model_type = "gpt2", .architecture = "gpt2", .fused_qkv = true},
    {.model_type = "gpt_bigcode", .architecture = "starcoder", .fused_qkv = true},
    {.model_type = "gpt_neox", .architecture = "gptneox", .fused_qkv = true, .keys = set_parallel},
    {.model_type = "bloom", .architecture = "bloom", .fused_qkv = true},
    {.model_type = "mpt", .architecture = "mpt", .fused_qkv = true, .keys = set_alibi},
    {.model_type = "falcon", .architecture = "falcon", .fused_qkv = true, .lacks = lacks_second_norm},
    {.model_type = "starcoder2", .architecture = "starcoder2"},
    {.model_type = "stablelm", .architecture = "stablelm", .keys = set_parallel},
    {.model_type = "nemotron", .architecture = "nemotron"},
    {.model_type = "jais2", .architecture = "jais2"},
    {.model_type = "t5", .architecture = "t5", .keys = set_t5},
    {.model_type = "mt5", .architecture = "t5", .keys = set_t5},
    {.model_type = "bert", .architecture = "bert", .embeds = true, .keys = set_bert},
    {.model_type = "roberta", .architecture = "bert", .embeds = true, .keys = set_bert},
    {.model_type = "xlm-roberta", .architecture = "bert", .embeds = true, .keys = set_bert},
    {.model_type = "nomic_bert",
     .architecture = "nomic-bert",
     .fused_qkv = true,
     .embeds = true,
     .keys = set_bert},
    {.model_type = "jina_bert_v2", .architecture = "jina-bert-v2", .embeds = true, .keys = set_bert},
    {.model_type = "jina_embeddings_v3", .architecture = "jina-bert-v3", .embeds = true, .keys = set_bert},
    {.model_type = "eurobert", .architecture = "eurobert", .embeds = true, .keys = set_bert},
    {.model_type = "llama_bidirec", .architecture = "llama-embed", .embeds = true, .keys = set_bert},
    {.model_type = "modernbert",
     .architecture = "modern-bert",
     .fused_qkv = true,
     .embeds = true,
     .keys = set_modern_bert},
};

}  // namespace

std::span<const ConversionFamily> conversion_families() { return families; }

const ConversionFamily* conversion_family(const Architecture& folder) {
    const auto found = std::ranges::find_if(families, [&](const ConversionFamily& family) {
        return family.model_type == folder.family && (family.fits == nullptr || family.fits(folder));
    });
    return found == std::end(families) ? nullptr : found;
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

void set_shared_keys(const Described& model, Keys& keys) {
    const Architecture& a = model.architecture;
    const Attention& attention = a.attention();
    const Attention cached = kernel_attention(attention);
    const Routing& routing = a.routing();
    keys.set("block_count", static_cast<uint32_t>(a.layers.size()));
    keys.set("context_length", a.context);
    keys.set("embedding_length", a.hidden);
    keys.set("feed_forward_length", model.feed_forward);
    keys.set("attention.head_count", attention.heads);
    keys.set("attention.head_count_kv", cached.kv_heads);
    keys.set("attention.key_length", cached.head_dim);
    keys.set("attention.value_length", attention.latent.kv_rank ? attention.latent.kv_rank : cached.head_dim);
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

}  // namespace scoria::conversion
