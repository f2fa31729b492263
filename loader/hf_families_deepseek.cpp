// DeepSeek and those who took over its experts, or its latent attention: one row per family.
#include "hf_families.h"

#include "fail.h"
#include "family_attention.h"
#include "family_parts.h"
#include "recurrent_layers.h"

#include <algorithm>
#include <cmath>

namespace scoria {
namespace {

using Layers = WindowRule::Layers;

constexpr Routing softmax_experts{};
constexpr Routing deepseek_v3_experts{
    .score = Routing::Score::sigmoid, .renormalise = true, .choice_bias = true, .group_by_top2 = true};
constexpr Routing dots_experts{.score = Routing::Score::sigmoid, .choice_bias = true, .group_by_top2 = true};
constexpr Routing mistral4_experts{.renormalise = true, .group_by_top2 = true};

/// What the class takes for a field that is left out.
struct DeepSeekDefaults {
    uint32_t shared, groups, groups_used, dense;
    double scale;
};
constexpr DeepSeekDefaults deepseek_v2{2, 1, 1, 0, 1.0}, deepseek_v3{1, 8, 4, 3, 2.5},
    glm4_moe{1, 1, 1, 1, 1.0}, glm4_moe_lite{1, 1, 1, 1, 1.8}, solar_open{1, 1, 1, 0, 1.0},
    dots1{0, 1, 1, 0, 1.0}, deepseek_v1{0, 1, 1, 0, 1.0}, bailing{1, 8, 4, 0, 2.5},
    exaone_moe{1, 1, 1, 1, 2.5}, afmoe{2, 1, 1, 1, 1.0}, sarvam{1, 1, 1, 1, 2.5}, mistral4{1, 1, 1, 0, 1.0},
    hy_v3{1, 1, 1, 1, 2.826}, glm_moe_dsa{1, 1, 1, 3, 2.5}, kimi_linear{1, 1, 1, 1, 2.446},
    bailing_hybrid{1, 8, 4, 2, 2.5}, mimo{0, 1, 1, 1, 1.0};

void read_deepseek_experts(Reading& r, const DeepSeekDefaults& defaults) {
    const Settings& s = r.settings;
    const char* shared_name = s.has("num_shared_experts") ? "num_shared_experts" : "n_shared_experts";
    const char* groups_name = s.has("num_expert_group") ? "num_expert_group" : "n_group";
    for (Layer& layer : r.architecture.layers) {
        Routing& routing = layer.feed_forward.routing;
        if (routing.experts == 0) continue;
        const auto size = [&](const char* name, uint64_t most, uint32_t otherwise, uint32_t least) {
            return s.size(name, most, s.is_null(name) ? least : otherwise, least);
        };
        routing.scale = s.number("routed_scaling_factor", defaults.scale);
        routing.renormalise = s.flag("moe_renormalize", routing.renormalise);
        routing.shared_size =
            columns_of(s, shared_name, size(shared_name, 1 << 10, defaults.shared, 0), routing.size);
        routing.groups = size(groups_name, routing.experts, defaults.groups, 1);
        routing.groups_used = size("topk_group", routing.groups, defaults.groups_used, 1);
        if (routing.experts % routing.groups != 0) s.wrong(groups_name, "a divisor of the number of experts");
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

void check_groups(const Reading& r) {
    for (const Layer& layer : r.architecture.layers) {
        const Routing& routing = layer.feed_forward.routing;
        if (uint64_t{routing.used} * routing.groups > uint64_t{routing.experts} * routing.groups_used)
            r.settings.wrong("num_experts_per_tok", "no more than the chosen groups hold");
    }
}

void finish_deepseek(Reading& r, const DeepSeekDefaults& defaults) {
    check_groups(r);
    const Routing& routing = r.architecture.layers.back().feed_forward.routing;
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

constexpr IndexerKeys index_keys{"index_n_heads", "index_head_dim", "index_topk", "indexer_types"};

void adjust_deepseek_v32(Reading& r) {
    adjust_deepseek_v3<deepseek_v3>(r);
    expect_flag(r.settings, "indexer_rope_interleave", false, false);
    use_indexer(r, index_keys, RopePairs::halves, std::vector<bool>(r.architecture.layers.size(), true));
}

/// GLM-5: layers may see the keys that one before them chose, as a list says, a pattern of F and S, or every
/// how many do not.
void adjust_glm_moe_dsa(Reading& r) {
    const Settings& s = r.settings;
    adjust_deepseek_v3<glm_moe_dsa>(r);
    expect_flag(s, "indexer_rope_interleave", true, true);
    std::vector<bool> full =
        full_indexers(r.architecture.layers.size(), s.size("index_topk_freq", most_layers, 1),
                      s.size("index_skip_topk_offset", most_layers, 2, 0));
    const nlohmann::json* pattern = s.find("index_topk_pattern");
    const bool listed = s.has(index_keys.full), spelt = pattern && pattern->is_string();
    std::vector<std::string> types = s.texts(listed || spelt ? index_keys.full : "index_topk_pattern");
    if (!listed && spelt)
        for (const char type : pattern->get<std::string>()) types.push_back(type == 'F' ? "full" : "shared");
    if (!types.empty()) full.clear();
    for (const std::string& type : types) {
        if (type != "full" && type != "shared") s.wrong(index_keys.full, "full or shared in every place");
        full.push_back(type == "full");
    }
    use_indexer(r, index_keys, RopePairs::interleaved, full);
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
    s.size("num_shared_experts", 1 << 10, 1);  // of 0 its class makes one as wide as a dense layer
    adjust_like_deepseek<hy_v3>(r);
    for (Layer& layer : r.architecture.layers)
        if (Routing& routing = layer.feed_forward.routing; routing.experts != 0)
            routing.scale = s.number("router_scaling_factor", hy_v3.scale);
}

void adjust_sarvam(Reading& r) {
    for (const char* name : {"use_qkv_bias", "use_bias"}) expect_flag(r.settings, name, false, false);
    adjust_glm4_moe<sarvam, true>(r);
}

/// DeepSeekMoE (Dai et al. 2024), before latent attention.
void adjust_deepseek_v1(Reading& r) {
    expect_text(r.settings, "scoring_func", "softmax");
    expect_text(r.settings, "topk_method", "greedy");
    adjust_like_deepseek<deepseek_v1>(r);
}

/// Ling and Ring: of version 2 scores are sigmoids, and half a head rotates.
void adjust_bailing(Reading& r) {
    const Settings& s = r.settings;
    const std::vector<std::string> classes = s.texts("architectures");
    const bool second = std::ranges::find(classes, "BailingMoeV2ForCausalLM") != classes.end();
    expect_text(s, "score_function", second ? "sigmoid" : "softmax");
    expect_text(s, "router_type", "topN");
    expect_flag(s, "norm_head", false, false);
    expect_flag(s, "norm_softmax", false, false);
    expect_flag(s, "use_rmsnorm", true, true);
    expect_flag(s, "moe_router_enable_expert_bias", second, second);
    expect_flag(s, "use_sliding_window", false, false);
    for (const char* ignored :
         {"router_dtype", "sliding_window", "max_window_layers", "mtp_loss_scaling_factor"})
        s.understood(ignored);
    if (second)
        adjust_glm4_moe<bailing, true>(r);
    else
        adjust_glm4_moe<deepseek_v1, false>(r);
    for (Layer& layer : r.architecture.layers) {
        Routing& routing = layer.feed_forward.routing;
        if (second || routing.experts == 0) continue;
        routing.score = Routing::Score::softmax;
        routing.choice_bias = routing.group_by_top2 = false;
    }
}

void adjust_dots1(Reading& r) {
    expect_text(r.settings, "scoring_func", "noaux_tc");
    adjust_like_deepseek<dots1>(r);
}

/// The layers that its linear_attn_config or layer_types names have latent attention without positions, the
/// others a delta rule that decays by key (Kimi Team 2025).
void adjust_kimi_linear(Reading& r) {
    const Settings& s = r.settings;
    Architecture& a = r.architecture;
    const Settings published = s.section("linear_attn_config");
    const auto size = [&](const char* name, const char* newer, uint64_t most, uint32_t otherwise,
                          uint32_t least) {
        const uint32_t said = s.size(newer, most, otherwise, least);
        return published.size(name, most, said, least);
    };
    Recurrence delta = delta_by_key(a.norm.epsilon);
    delta.taps = size("short_conv_kernel_size", "linear_conv_kernel_dim", most_taps, 4, 2);
    delta.heads = delta.groups = size("num_heads", "linear_num_heads", 1 << 16, 32, 1);
    delta.key_dim = delta.value_dim = delta.gate_rank = delta.step_rank =
        size("head_dim", "linear_head_dim", most_state_dim, 128, 1);
    check_heads(s, "linear_attn_config", delta);

    std::vector<bool> recurs = recurrent_layers(s, a.layers.size());
    const std::vector<double> with_keys = published.numbers("full_attn_layers"),
                              listed = published.numbers("kda_layers");
    if (!s.has("layer_types"))
        for (size_t i = 0; i < recurs.size(); ++i) {
            const auto has = [&](const std::vector<double>& layers) {  // numbered from 1 on
                return std::ranges::find(layers, double(i + 1)) != layers.end();
            };
            recurs[i] = has(listed);
            if (recurs[i] == has(with_keys))
                s.wrong("linear_attn_config", "each layer in one of its two lists");
        }
    expect_text(s, "hidden_act", "silu");  // which its convolutions have too
    expect_flag(s, "mla_use_nope", true, true);
    expect_text(s, "moe_router_activation_func", "sigmoid");
    expect_flag(s, "use_grouped_topk", true, true);
    if (s.size("moe_layer_freq", most_layers, 1) != 1) s.wrong("moe_layer_freq", "1");
    for (const char* other : {"rope_scaling", "rope_theta", "head_dim"}) s.understood(other);
    adjust_deepseek(r, kimi_linear);
    finish_deepseek(r, kimi_linear);
    use_recurrence(a, recurs, delta);
}

/// Ling 3: every layer_group_size-th layer has latent attention with a gate for each head, and so have those
/// behind the last whole group; the others a delta rule that decays by key, each step bounded.
void adjust_bailing_hybrid(Reading& r) {
    const Settings& s = r.settings;
    Architecture& a = r.architecture;
    Recurrence delta = delta_by_key(a.norm.epsilon);
    delta.taps = s.size("short_conv_kernel_size", most_taps, 4, 2);
    delta.heads = delta.groups = a.attention().heads;
    // transformers saves head_dim as that of what rotates.
    delta.key_dim = delta.value_dim =
        s.size("linear_head_dim", most_state_dim, s.size("head_dim", most_state_dim, 128));
    for (const char* again : {"linear_num_heads", "linear_conv_kernel_dim"}) s.understood(again);
    if (s.flag("kda_safe_gate", true)) delta.bound = read_bound(s, "kda_lower_bound", -5);
    check_heads(s, "num_attention_heads", delta);
    std::vector<bool> recurs = recurrent_layers(s, a.layers.size());
    const uint32_t group = s.size("layer_group_size", most_layers, 6);
    if (!s.has("layer_types"))
        for (size_t i = 0; i < recurs.size(); ++i)
            recurs[i] = (i + 1) % group != 0 && i < recurs.size() / group * group;
    expect_text(s, "hidden_act", "silu");  // which its convolutions have too
    expect_flag(s, "no_kda_lora", true, true);
    expect_text(s, "gated_attention_proj_granularity_type", "head_wise");
    expect_text(s, "score_function", "sigmoid");
    for (const char* limits : {"expert_swiglu_limit_list", "share_expert_swiglu_limit_list"})
        if (const nlohmann::json* list = s.find(limits);
            list &&
            std::ranges::any_of(*list, [](const auto& limit) { return !limit.is_null() && limit != 0; }))
            s.wrong(limits, "none, as transformers' class");
    for (const char* other : {"mtp_loss_scaling_factor", "head_dim", "router_dtype", "kda_lower_bound"})
        s.understood(other);
    for (Layer& layer : a.layers) layer.attention.output_gate = Attention::OutputGate::heads;
    adjust_deepseek(r, bailing_hybrid);
    finish_deepseek(r, bailing_hybrid);
    use_recurrence(a, recurs, delta);
}

/// Layers with a window have twice the key heads, and sinks; heads of v are narrower than those of k, and
/// multiplied (Xiaomi 2026). Published configs list windows and experts by other names.
void adjust_mimo(Reading& r) {
    const Settings& s = r.settings;
    Architecture& a = r.architecture;
    const char *windows = "hybrid_layer_pattern", *routed = "moe_layer_freq";
    const std::vector<double> windowed = layer_numbers(s, windows, a.layers.size()),
                              sparse = layer_numbers(s, routed, a.layers.size());
    const uint32_t dense = s.size(Field::feed_forward, most_size),
                   window = s.has("sliding_window_size") ? s.size("sliding_window_size", most_size) + 1
                                                         : s.size(Field::window, most_size, 129),
                   heads = s.size(Field::kv_heads, most_heads),
                   more = s.size("swa_num_key_value_heads", most_heads, 2 * heads);
    if (more != 2 * heads) s.wrong("swa_num_key_value_heads", "twice num_key_value_heads");
    for (size_t i = 0; i < a.layers.size(); ++i) {
        Attention& attention = a.layers[i].attention;
        const bool rule = windowed.empty() ? i != 0 && (i + 1) % 6 != 0 : windowed[i] != 0;
        attention.sinks = s.has("layer_types") ? attention.window != 0 : rule;
        attention.window = attention.sinks ? window : 0;
        if (attention.sinks) set_heads(s, more, attention.head_dim, attention);
        if (!s.has("mlp_layer_types") && (sparse.empty() ? i == 0 : sparse[i] == 0))
            make_dense(a.layers[i], dense);
        a.layers[i].attention_out =
            s.is_null("attention_value_scale") ? 1 : s.number("attention_value_scale", 0.707);
    }
    read_deepseek_experts(r, mimo);
    check_groups(r);
    for (const char* type : {"full_attention", "sliding_attention"}) {  // all rotates where these do not say
        const Settings rope = s.section("rope_parameters").section(type);
        if (s.has("rope_parameters") && !rope.has("partial_rotary_factor"))
            rope.wrong("partial_rotary_factor", "a share of a head");
    }
    set_value_dim(s, "v_head_dim", s.size("v_head_dim", 1 << 12, 128), a);
    for (const auto& [name, same] : {std::pair{"swa_head_dim", "head_dim"},
                                     {"swa_v_head_dim", "v_head_dim"},
                                     {"swa_num_attention_heads", "num_attention_heads"}})
        if (const nlohmann::json* own = s.find(name), *other = s.find(same); own && other && *own != *other)
            s.wrong(name, cat(same, "'s number"));
    expect_text(s, "scoring_func", "sigmoid");
    expect_text(s, "topk_method", "noaux_tc");
    expect_flag(s, "add_full_attention_sink_bias", false, false);
    expect_flag(s, "add_swa_attention_sink_bias", true, true);
    for (const char* other : {"attention_chunk_size", "hybrid_block_size"}) s.understood(other);
}

/// What its published config says beside what its class reads.
void adjust_minimax(Reading& r) {
    expect_text(r.settings, "scoring_func", "sigmoid");
    expect_text(r.settings, "qk_norm_type", "per_layer");
    expect_flag(r.settings, "use_qk_norm", true, true);
    expect_flag(r.settings, "use_routing_bias", true, true);
    expect_flag(r.settings, "norm_topk_prob", true, true);
    for (const double full : r.settings.numbers("attn_type_list"))
        if (full != 1) r.settings.wrong("attn_type_list", "attention in all layers");
    for (const char* ignored :
         {"layernorm_full_attention_beta", "layernorm_linear_attention_beta", "layernorm_mlp_beta",
          "mlp_intermediate_size", "mtp_transformer_layers", "num_mtp_modules", "shared_moe_mode", "use_mtp"})
        r.settings.understood(ignored);
}

}  // namespace

std::span<const Family> deepseek_families() {
    static const Family families[] = {
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
        {.name = "deepseek_v32",
         .tensors = {hf::indexer, hf::deepseek, hf::shared_experts, hf::experts, hf::frame, hf::attention,
                     hf::gated},
         .o_bias = attention_bias,
         .pairs = RopePairs::interleaved,
         .window = {Layers::indexed},
         .routing = &deepseek_v3_experts,
         .adjust = adjust_deepseek_v32},
        {.name = "glm_moe_dsa",
         .tensors = {hf::indexer, hf::deepseek, hf::shared_experts, hf::experts, hf::frame, hf::attention,
                     hf::gated},
         .o_bias = attention_bias,
         .pairs = RopePairs::interleaved,
         .window = {Layers::indexed},
         .routing = &deepseek_v3_experts,
         .adjust = adjust_glm_moe_dsa},
        {.name = "sarvam_mla",
         .tensors = {hf::deepseek, hf::shared_experts, hf::experts, hf::frame, hf::attention, hf::gated},
         .o_bias = attention_bias,
         .pairs = RopePairs::interleaved,
         .routing = &deepseek_v3_experts,
         .adjust = adjust_deepseek_v3<sarvam>},
        {.name = "kimi_linear",
         .tensors = {hf::kimi_linear, hf::mixtral, hf::deepseek, hf::frame, hf::attention, hf::gated},
         .o_bias = attention_bias,
         .rope = false,
         .routing = &deepseek_v3_experts,
         .recurrence = RecurrenceKind::delta,
         .adjust = adjust_kimi_linear},
        {.name = "bailing_hybrid",
         .tensors = {hf::bailing_hybrid, hf::sarvam, hf::shared_experts, hf::experts, hf::frame, hf::gated},
         .pairs = RopePairs::interleaved,
         .rope_base = 6e6,
         .routing = &deepseek_v3_experts,
         .recurrence = RecurrenceKind::delta,
         .adjust = adjust_bailing_hybrid},
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
        {.name = "sarvam_moe",
         .tensors = {hf::sarvam, hf::shared_experts, hf::experts, hf::frame, hf::attention, hf::gated},
         .qkv_bias = attention_bias,
         .qk_norm = QkNorm::Group::head,
         .rope_base = 8e6,
         .rotates_part = true,
         .routing = &deepseek_v3_experts,
         .adjust = adjust_sarvam},
        {.name = "deepseek",
         .tensors = {hf::shared_experts, hf::experts, hf::frame, hf::attention, hf::gated},
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .routing = &softmax_experts,
         .adjust = adjust_deepseek_v1},
        {.name = "deepseek_ocr2_text",
         .tensors = {hf::shared_experts, hf::experts, hf::frame, hf::attention, hf::gated},
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .feed_forward_bias = mlp_bias,
         .routing = &softmax_experts,
         .adjust = adjust_deepseek_v1},
        {.name = "bailing_moe",
         .tensors = {hf::sarvam, hf::shared_experts, hf::experts, hf::frame, hf::attention, hf::gated},
         .qkv_bias = by_flag("use_qkv_bias", false),
         .o_bias = by_flag("use_bias", false),
         .qk_norm = QkNorm::Group::head,
         .rotates_part = true,
         .routing = &deepseek_v3_experts,
         .adjust = adjust_bailing},
        {.name = "hy_v3",
         .tensors = {hf::hy_v3, hf::shared_experts, hf::experts, hf::frame, hf::attention, hf::gated},
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .qk_norm = QkNorm::Group::head,
         .rope_base = 11158840,
         .feed_forward_bias = mlp_bias,
         .routing = &deepseek_v3_experts,
         .adjust = adjust_hy_v3},
        {.name = "afmoe",
         .tensors = {hf::afmoe, hf::shared_experts, hf::experts, hf::frame, hf::attention, hf::gated},
         .placement = NormPlacement::sandwich,
         .qk_norm = QkNorm::Group::head,
         .full_layers = Family::FullLayers::rest,
         .window = {.layers = WindowRule::Layers::not_every, .every = 4, .otherwise = 1024},
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
         .rotates_part = true,
         .routing = &deepseek_v3_experts,
         .adjust = adjust_like_deepseek<solar_open>},
        {.name = "exaone_moe",
         .tensors = {hf::shared_experts, hf::experts, hf::frame, hf::attention, hf::gated, hf::qk_norms},
         .qk_norm = QkNorm::Group::head,
         .full_layers = Family::FullLayers::rest_beside_windows,
         .window = {.layers = Layers::not_every, .every = 4, .otherwise = 4096},
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
         .window = {.layers = Layers::from, .first = 62, .otherwise = 4096},
         .routing = &dots_experts,
         .adjust = adjust_dots1},
        {.name = "mimo_v2_flash",
         .tensors = {hf::sinks, hf::shared_experts, hf::experts, hf::frame, hf::attention, hf::gated},
         .qkv_bias = attention_bias,
         .rope_base = 5e6,
         .local_rope_base = 1e4,
         .rotary = 0.334,
         .window = {.layers = Layers::all, .otherwise = 129},
         .routing = &deepseek_v3_experts,
         .adjust = adjust_mimo},
        {.name = "minimax_m2",
         .tensors = {hf::minimax, hf::mixtral, hf::experts, hf::frame, hf::attention, hf::qk_norms},
         .qk_norm = QkNorm::Group::projection,
         .rope_base = 5e6,
         .rotates_part = true,
         .routing = &deepseek_v3_experts,
         .adjust = adjust_minimax},
    };
    return families;
}

}  // namespace scoria
