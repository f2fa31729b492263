// Mixtures of experts: one row per family.
#include "hf_families.h"

#include "fail.h"

#include <algorithm>
#include <cmath>

namespace scoria {
namespace {

using Layers = WindowRule::Layers;

constexpr Routing softmax_experts{};
constexpr Routing renormalised_experts{.renormalise = true};
constexpr Routing gated_shared_experts{.shared_size = 5632, .shared_gate = true};
constexpr Routing gpt_oss_experts{.score = Routing::Score::softmax_chosen,
                                  .router_bias = true,
                                  .bias = true,
                                  .clamp = 7,
                                  .gate_slope = 1.702f};

constexpr Routing deepseek_v3_experts{
    .score = Routing::Score::sigmoid, .renormalise = true, .choice_bias = true, .group_by_top2 = true};
constexpr Routing dots_experts{.score = Routing::Score::sigmoid, .choice_bias = true, .group_by_top2 = true};
constexpr Routing mistral4_experts{.renormalise = true, .group_by_top2 = true};
constexpr Routing granite_experts{.score = Routing::Score::softmax_chosen};
constexpr Routing ernie_experts{.renormalise = true, .choice_bias = true};

constexpr Routing llama4_experts{.score = Routing::Score::sigmoid, .scales_input = true};
constexpr Routing phimoe_experts{.score = Routing::Score::softmax_near};

/// Dense layers are of another size than experts; layers that rotate see chunks and norm q and k.
void adjust_llama4(Reading& r) {
    const Settings& s = r.settings;
    Architecture& a = r.architecture;
    const size_t layers = a.layers.size();
    const uint32_t dense = s.size("intermediate_size_mlp", most_size, 16384),
                   step = s.size("interleave_moe_layer_step", most_layers, 1);
    const std::vector<double> sparse = s.numbers("moe_layers");
    for (size_t i = 0; i < layers; ++i) {
        Routing& routing = a.layers[i].feed_forward.routing;
        routing.shared_size = routing.size;
        const bool is_sparse =
            s.has("moe_layers") ? std::ranges::find(sparse, double(i)) != sparse.end() : (i + 1) % step == 0;
        if (!is_sparse || routing.experts == 0) make_dense(a.layers[i], dense);
    }

    const std::vector<bool> rotating = rotating_layers(s, 4, layers);
    const char *name = "attention_chunk_size", *list = "layer_types";
    const uint32_t length = s.is_null(name) ? 0 : s.size(name, most_size, 8192);
    std::vector<bool> chunked = length == 0 ? std::vector<bool>(layers, false) : rotating;
    const std::vector<std::string> types = s.texts(list);
    if (!types.empty() && types.size() != layers) s.wrong(list, cat("types of ", layers, " layers"));
    for (size_t i = 0; i < types.size(); ++i) {
        chunked[i] = types[i] == "chunked_attention";
        if (!chunked[i] && types[i] != "full_attention")
            s.wrong(list, "chunked_attention or full_attention in every place");
        if (chunked[i] && length == 0) s.wrong(name, "positions of a chunk, which layer_types has");
    }
    see_chunks(chunked, length, a);
    if (s.flag("use_qk_norm", true)) norm_lengths(rotating, r);

    const char* tuned = "attn_temperature_tuning";  // 4 in the first configs
    const nlohmann::json* value = s.find(tuned);
    const double growth = s.positive("attn_scale", 0.1);
    const uint32_t floor = s.size("floor_scale", most_size, 8192);
    if (value && value->is_number() ? *value != 0 : s.flag(tuned, true)) grow_unrotated(growth, floor, a);
    s.understood("for_llm_compressor");
}

/// SparseMixer chooses two, whatever the file says; what jitters in training tells which scores are near.
void adjust_phimoe(Reading& r) {
    const Settings& s = r.settings;
    if (s.size(Field::experts_used, most_size, 2) != 2) s.wrong(s.name_of(Field::experts_used), "2");
    const nlohmann::json* jitter = s.find("router_jitter_noise");
    const double share = jitter && *jitter == 0 ? 0 : s.positive("router_jitter_noise", 0.01);
    for (Layer& layer : r.architecture.layers)
        layer.feed_forward.routing.margin = static_cast<float>(2 * share);
    s.understood("input_jitter_noise");
}

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
    if (r.settings.size("num_shared_expert", 1 << 10, 1) != 1) r.settings.wrong("num_shared_expert", "1");
    expect_flag(r.settings, "norm_topk_prob", true, true);
    check_hunyuan(r.settings);
    for (Layer& layer : r.architecture.layers)
        layer.feed_forward.routing.shared_size = layer.feed_forward.routing.size;
}

/// What the class takes for a field that is left out.
struct DeepSeekDefaults {
    uint32_t shared, groups, groups_used, dense;
    double scale;
};
constexpr DeepSeekDefaults deepseek_v2{2, 1, 1, 0, 1.0}, deepseek_v3{1, 8, 4, 3, 2.5},
    glm4_moe{1, 1, 1, 1, 1.0}, glm4_moe_lite{1, 1, 1, 1, 1.8}, solar_open{1, 1, 1, 0, 1.0},
    dots1{0, 1, 1, 0, 1.0}, exaone_moe{1, 1, 1, 1, 2.5}, afmoe{2, 1, 1, 1, 1.0}, sarvam{1, 1, 1, 1, 2.5},
    mistral4{1, 1, 1, 0, 1.0}, hy_v3{1, 1, 1, 1, 2.826};

void read_deepseek_experts(Reading& r, const DeepSeekDefaults& defaults) {
    const Settings& s = r.settings;
    const char* shared_name = s.has("num_shared_experts") ? "num_shared_experts" : "n_shared_experts";
    for (Layer& layer : r.architecture.layers) {
        Routing& routing = layer.feed_forward.routing;
        if (routing.experts == 0) continue;
        const auto size = [&](const char* name, uint64_t most, uint32_t otherwise, uint32_t least) {
            return s.size(name, most, s.is_null(name) ? least : otherwise, least);
        };
        routing.scale = s.number("routed_scaling_factor", defaults.scale);
        routing.shared_size =
            columns_of(s, shared_name, size(shared_name, 1 << 10, defaults.shared, 0), routing.size);
        routing.groups = size("n_group", routing.experts, defaults.groups, 1);
        routing.groups_used = size("topk_group", routing.groups, defaults.groups_used, 1);
        if (routing.experts % routing.groups != 0) s.wrong("n_group", "a divisor of the number of experts");
    }
}

/// What both versions have: latent attention, and YaRN's factor in the scale of scores (yarn_get_mscale).
void adjust_deepseek(Reading& r, const DeepSeekDefaults& defaults) {
    const Settings& s = r.settings;
    const uint32_t heads = r.architecture.layers.front().attention.heads;
    Latent latent;
    latent.kv_rank = s.size("kv_lora_rank", 1 << 16);
    if (s.has("q_lora_rank")) latent.q_rank = s.size("q_lora_rank", 1 << 16);
    latent.rope_dim = s.size("qk_rope_head_dim", 1 << 12);
    latent.value_dim = s.size("v_head_dim", 1 << 12);
    latent.epsilon = 1e-6f;  // whatever rms_norm_eps is
    latent.bias = s.flag("attention_bias", false);
    if (uint64_t{heads} * std::max(latent.kv_rank, latent.value_dim) > most_size)
        s.wrong("kv_lora_rank", "fewer than 2^28 rows for all heads");
    const uint32_t fixed = s.size("qk_nope_head_dim", 1 << 12);
    use_latent(r.architecture, latent, fixed + latent.rope_dim);
    s.understood("qk_head_dim");

    const Settings rope = s.section(s.has("rope_parameters") ? "rope_parameters" : "rope_scaling");
    const bool scaled = rope.text("rope_type", rope.text("type", "default")) != "default";
    if (scaled && rope.has("mscale_all_dim") && *rope.find("mscale_all_dim") != 0 &&
        rope.positive("factor") > 1) {
        const double magnitude =
            0.1 * rope.positive("mscale_all_dim") * std::log(rope.positive("factor")) + 1;
        set_scale(r.architecture, magnitude * magnitude / std::sqrt(double(fixed + latent.rope_dim)));
    }
    read_deepseek_experts(r, defaults);
}

void finish_deepseek(Reading& r, const DeepSeekDefaults& defaults) {
    const Routing& routing = r.architecture.layers.back().feed_forward.routing;
    if (uint64_t{routing.used} * routing.groups > uint64_t{routing.experts} * routing.groups_used)
        r.settings.wrong("num_experts_per_tok", "no more than the chosen groups hold");
    const uint32_t size = r.settings.size(Field::feed_forward, most_size, routing.size),
                   dense = r.settings.size("first_k_dense_replace", most_layers, defaults.dense, 0);
    if (!r.settings.has("mlp_layer_types")) make_first_dense(r.architecture, dense, size);
}

template <const DeepSeekDefaults& defaults> void adjust_like_deepseek(Reading& r) {
    read_deepseek_experts(r, defaults);
    finish_deepseek(r, defaults);
}

void adjust_glm4_moe_lite(Reading& r) {
    adjust_deepseek(r, glm4_moe_lite);
    finish_deepseek(r, glm4_moe_lite);
}

/// Latent attention before dense layers.
void adjust_youtu(Reading& r) {
    adjust_deepseek(r, deepseek_v3);
    r.settings.understood("embedding_initializer_range");
}

/// Latent attention before dense layers, with multipliers of depth and width (Hu et al. 2024, section 3).
void adjust_minicpm3(Reading& r) {
    const Settings& s = r.settings;
    Architecture& a = r.architecture;
    adjust_deepseek(r, deepseek_v3);
    const double layers = double(a.layers.size());
    a.embedding_scale = static_cast<float>(s.positive("scale_emb", 12.0));
    if (!s.is_null("scale_depth"))
        a.residual_scale = static_cast<float>(s.positive("scale_depth", 1.4) / std::sqrt(layers));
    if (!s.is_null("dim_model_base"))
        a.logit_scale = static_cast<float>(s.size("dim_model_base", most_size, 256) / double(a.hidden));
}

void adjust_mistral4(Reading& r) {
    expect_flag(r.settings, "rope_interleave", true, true);
    adjust_deepseek(r, mistral4);
    finish_deepseek(r, mistral4);
}

void adjust_deepseek_v2(Reading& r) {
    adjust_deepseek(r, deepseek_v2);
    expect_text(r.settings, "scoring_func", "softmax");
    const std::string method = r.settings.text("topk_method", "greedy");
    if (method != "greedy" && method != "group_limited_greedy")
        r.settings.wrong("topk_method", "greedy or group_limited_greedy");
    for (Layer& layer : r.architecture.layers) {
        Routing& routing = layer.feed_forward.routing;
        routing.renormalise = false;  // whatever norm_topk_prob is, as the reference
        if (method == "greedy") routing.groups = routing.groups_used = 1;
    }
    finish_deepseek(r, deepseek_v2);
}

template <const DeepSeekDefaults& defaults> void adjust_deepseek_v3(Reading& r) {
    adjust_deepseek(r, defaults);
    expect_text(r.settings, "scoring_func", "sigmoid");
    expect_text(r.settings, "topk_method", "noaux_tc");
    finish_deepseek(r, defaults);
}

template <const DeepSeekDefaults& defaults, bool normed> void adjust_glm4_moe(Reading& r) {
    adjust_like_deepseek<defaults>(r);
    if (r.settings.flag("use_qk_norm", normed)) return;
    for (Layer& layer : r.architecture.layers) layer.attention.qk_norm.group = QkNorm::Group::none;
}

void adjust_afmoe(Reading& r) {
    const Settings& s = r.settings;
    Architecture& a = r.architecture;
    expect_text(s, "score_func", "sigmoid");
    expect_flag(s, "route_norm", true, true);
    for (const char* name : {"num_expert_groups", "num_limited_groups"})
        if (s.size(name, 1 << 10, 1) != 1) s.wrong(name, "1");
    if (s.size("global_attn_every_n_layers", most_layers, 4) != 4 && !s.has("layer_types"))
        s.wrong("global_attn_every_n_layers", "4, or layer_types beside it");
    read_deepseek_experts(r, afmoe);
    for (Layer& layer : a.layers) {
        layer.attention.output_gate = Attention::OutputGate::elements;
        layer.feed_forward.routing.scale = s.number("route_scale", 1.0);
    }
    if (s.flag("mup_enabled", false)) a.embedding_scale = static_cast<float>(std::sqrt(double(a.hidden)));
    make_first_dense(a, s.size("num_dense_layers", most_layers, afmoe.dense, 0),
                     s.size(Field::feed_forward, most_size));
}

void adjust_hy_v3(Reading& r) {
    const Settings& s = r.settings;
    for (const char* other : {"enable_moe_fp32_combine", "moe_router_enable_expert_bias",
                              "enable_attention_fp32_softmax", "enable_lm_head_fp32"})
        s.understood(other);
    adjust_like_deepseek<hy_v3>(r);
    for (Layer& layer : r.architecture.layers)
        if (Routing& routing = layer.feed_forward.routing; routing.experts != 0)
            routing.scale = s.number("router_scaling_factor", hy_v3.scale);
}

void adjust_sarvam(Reading& r) {
    for (const char* name : {"use_qkv_bias", "use_bias"}) expect_flag(r.settings, name, false, false);
    adjust_glm4_moe<sarvam, true>(r);
}

void adjust_dots1(Reading& r) {
    expect_text(r.settings, "scoring_func", "noaux_tc");
    adjust_like_deepseek<dots1>(r);
}

/// What its published config says beside what its class reads.
void adjust_minimax(Reading& r) {
    expect_text(r.settings, "scoring_func", "sigmoid");
    expect_text(r.settings, "qk_norm_type", "per_layer");
    expect_flag(r.settings, "use_qk_norm", true, true);
    expect_flag(r.settings, "use_routing_bias", true, true);
    for (const double full : r.settings.numbers("attn_type_list"))
        if (full != 1) r.settings.wrong("attn_type_list", "attention in all layers");
    for (const char* ignored :
         {"layernorm_full_attention_beta", "layernorm_linear_attention_beta", "layernorm_mlp_beta",
          "mlp_intermediate_size", "mtp_transformer_layers", "num_mtp_modules", "shared_moe_mode", "use_mtp"})
        r.settings.understood(ignored);
}

/// Experts stand in every n-th layer of a range; the expert that all tokens pass is as wide as several.
void adjust_ernie_moe(Reading& r) {
    const Settings& s = r.settings;
    const auto layers = static_cast<uint32_t>(r.architecture.layers.size());
    const uint32_t step = s.size("moe_layer_interval", most_layers, 1),
                   start = s.size("moe_layer_start_index", most_layers, 1, 0);
    const nlohmann::json* last = s.find("moe_layer_end_index");
    const uint32_t end =
        last == nullptr || *last == -1 ? layers - 1 : s.size("moe_layer_end_index", most_layers, {}, 0);
    const uint32_t dense = s.size(Field::feed_forward, most_size),
                   shared = s.size("moe_num_shared_experts", 1 << 10, 2, 0);
    for (uint32_t i = 0; i < layers; ++i) {
        Layer& layer = r.architecture.layers[i];
        Routing& routing = layer.feed_forward.routing;
        routing.shared_size = columns_of(s, "moe_num_shared_experts", shared, routing.size);
        if ((i + 1) % step != 0 || i < start || i > end) make_dense(layer, dense);
    }
    for (const char* ignored : {"moe_capacity", "moe_gate", "moe_norm_min", "moe_use_aux_free"})
        s.understood(ignored);
}

}  // namespace

std::span<const Family> expert_families() {
    static const Family families[] = {
        {.name = "mixtral",
         .tensors = {hf::mixtral, hf::experts, hf::frame, hf::attention},
         .rope_base = 1e6,
         .window = {Layers::all},
         .routing = &renormalised_experts},
        {.name = "llama4_text",
         .tensors = {hf::llama4, hf::frame, hf::attention},
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .pairs = RopePairs::interleaved,
         .rope_base = 5e5,
         .no_rope_every = 4,
         .window = {Layers::chunked},
         .routing = &llama4_experts,
         .adjust = adjust_llama4},
        {.name = "phimoe",
         .tensors = {hf::mixtral, hf::experts, hf::frame, hf::attention},
         .norm = NormKind::layer,
         .norm_bias = true,
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .rope_base = 1e6,
         .window = {Layers::all},
         .routing = &phimoe_experts,
         .output_bias = by_flag("lm_head_bias", false),
         .adjust = adjust_phimoe},
        {.name = "qwen2_moe",
         .tensors = {hf::experts, hf::frame, hf::attention, hf::gated},
         .qkv_bias = by_flag("qkv_bias", true),
         .window = {Layers::odd_before, 0, "use_sliding_window"},
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
         .tensors = {hf::gpt_oss, hf::frame, hf::attention, hf::sinks},
         .qkv_bias = by_flag("attention_bias", true),
         .o_bias = by_flag("attention_bias", true),
         .rope_base = 150000,
         .rope_parameters = R"({"rope_type": "yarn", "factor": 32, "beta_fast": 32, "beta_slow": 1,
                               "truncate": false, "original_max_position_embeddings": 4096})",
         .window = {Layers::not_every, 2},
         .routing = &gpt_oss_experts,
         .adjust = adjust_gpt_oss},
        {.name = "deepseek_v2",
         .tensors = {hf::deepseek, hf::shared_experts, hf::experts, hf::frame, hf::attention, hf::gated},
         .o_bias = attention_bias,
         .pairs = RopePairs::interleaved,
         .feed_forward_bias = mlp_bias,
         .routing = &softmax_experts,
         .adjust = adjust_deepseek_v2},
        {.name = "deepseek_v3",
         .tensors = {hf::deepseek, hf::shared_experts, hf::experts, hf::frame, hf::attention, hf::gated},
         .o_bias = attention_bias,
         .pairs = RopePairs::interleaved,
         .routing = &deepseek_v3_experts,
         .adjust = adjust_deepseek_v3<deepseek_v3>},
        {.name = "sarvam_mla",
         .tensors = {hf::deepseek, hf::shared_experts, hf::experts, hf::frame, hf::attention, hf::gated},
         .o_bias = attention_bias,
         .pairs = RopePairs::interleaved,
         .routing = &deepseek_v3_experts,
         .adjust = adjust_deepseek_v3<sarvam>},
        {.name = "mistral4",
         .tensors = {hf::deepseek, hf::shared_experts, hf::experts, hf::frame, hf::attention, hf::gated},
         .o_bias = attention_bias,
         .pairs = RopePairs::interleaved,
         .routing = &mistral4_experts,
         .adjust = adjust_mistral4},
        {.name = "minicpm3",
         .tensors = {hf::deepseek, hf::frame, hf::attention, hf::gated},
         .o_bias = attention_bias,
         .adjust = adjust_minicpm3},
        {.name = "flex_olmo",
         .tensors = {hf::olmo2, hf::experts, hf::frame, hf::attention, hf::qk_norms},
         .placement = NormPlacement::output,
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .qk_norm = QkNorm::Group::projection,
         .rope_base = 5e5,
         .routing = &softmax_experts},
        {.name = "sarvam_moe",
         .tensors = {hf::sarvam, hf::shared_experts, hf::experts, hf::frame, hf::attention, hf::gated},
         .qkv_bias = attention_bias,
         .qk_norm = QkNorm::Group::head,
         .rope_base = 8e6,
         .routing = &deepseek_v3_experts,
         .adjust = adjust_sarvam},
        {.name = "hy_v3",
         .tensors = {hf::hy_v3, hf::shared_experts, hf::experts, hf::frame, hf::attention, hf::gated},
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .qk_norm = QkNorm::Group::head,
         .rope_base = 11158840,
         .feed_forward_bias = mlp_bias,
         .routing = &deepseek_v3_experts,
         .adjust = adjust_hy_v3},
        {.name = "mellum",
         .tensors = {hf::experts, hf::frame, hf::attention, hf::gated, hf::qk_norms},
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .qk_norm = QkNorm::Group::head,
         .rope_base = 5e5,
         .local_rope_base = 1e4,
         .window = {WindowRule::Layers::all},
         .routing = &renormalised_experts,
         .adjust = adjust_listed_layers},
        {.name = "afmoe",
         .tensors = {hf::afmoe, hf::shared_experts, hf::experts, hf::frame, hf::attention, hf::gated},
         .placement = NormPlacement::sandwich,
         .qk_norm = QkNorm::Group::head,
         .full_layers = Family::FullLayers::rest,
         .window = {WindowRule::Layers::not_every, 4},
         .routing = &deepseek_v3_experts,
         .adjust = adjust_afmoe},
        {.name = "glm4_moe",
         .tensors = {hf::shared_experts, hf::experts, hf::frame, hf::attention, hf::gated, hf::qk_norms},
         .qkv_bias = attention_bias,
         .qk_norm = QkNorm::Group::head,
         .rotary = 0.5,
         .routing = &deepseek_v3_experts,
         .adjust = adjust_glm4_moe<glm4_moe, false>},
        {.name = "glm4_moe_lite",
         .tensors = {hf::deepseek, hf::shared_experts, hf::experts, hf::frame, hf::attention, hf::gated},
         .o_bias = attention_bias,
         .pairs = RopePairs::interleaved,
         .routing = &deepseek_v3_experts,
         .adjust = adjust_glm4_moe_lite},
        {.name = "solar_open",
         .tensors = {hf::shared_experts, hf::experts, hf::frame, hf::attention},
         .qkv_bias = attention_bias,
         .rope_base = 1e6,
         .routing = &deepseek_v3_experts,
         .adjust = adjust_like_deepseek<solar_open>},
        {.name = "exaone_moe",
         .tensors = {hf::shared_experts, hf::experts, hf::frame, hf::attention, hf::gated, hf::qk_norms},
         .qk_norm = QkNorm::Group::head,
         .full_layers = Family::FullLayers::rest_beside_windows,
         .window = {Layers::not_every, 4},
         .routing = &deepseek_v3_experts,
         .adjust = adjust_like_deepseek<exaone_moe>},
        {.name = "youtu",
         .tensors = {hf::deepseek, hf::frame, hf::attention, hf::gated},
         .o_bias = attention_bias,
         .pairs = RopePairs::interleaved,
         .feed_forward_bias = mlp_bias,
         .adjust = adjust_youtu},
        {.name = "dots1",
         .tensors = {hf::shared_experts, hf::experts, hf::frame, hf::attention, hf::gated, hf::qk_norms},
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .qk_norm = QkNorm::Group::head,
         .window = {.layers = Layers::from, .first = 62},
         .routing = &dots_experts,
         .adjust = adjust_dots1},
        {.name = "minimax_m2",
         .tensors = {hf::minimax, hf::mixtral, hf::experts, hf::frame, hf::attention, hf::qk_norms},
         .qk_norm = QkNorm::Group::projection,
         .rope_base = 5e6,
         .routing = &deepseek_v3_experts,
         .adjust = adjust_minimax},
        {.name = "granitemoe",
         .tensors = {hf::granite_moe, hf::frame, hf::attention},
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .routing = &granite_experts,
         .adjust = adjust_granite},
        {.name = "granitemoeshared",
         .tensors = {hf::granite_moe, hf::frame, hf::attention},
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .routing = &granite_experts,
         .adjust = adjust_granite},
        {.name = "granitemoe_swa",
         .tensors = {hf::granite_moe, hf::sinks, hf::frame, hf::attention},
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .rope_by_layer = true,
         .window = {Layers::all},
         .routing = &granite_experts,
         .adjust = adjust_granite_swa},
        {.name = "ernie4_5_moe",
         .tensors = {hf::ernie_moe, hf::shared_experts, hf::experts, hf::frame, hf::attention, hf::gated},
         .qkv_bias = use_bias,
         .o_bias = use_bias,
         .pairs = RopePairs::interleaved,
         .rope_base = 5e5,
         .feed_forward_bias = use_bias,
         .routing = &ernie_experts,
         .output_bias = use_bias,
         .adjust = adjust_ernie_moe},
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
