// Mixtures of experts: one row per family.
#include "hf_families.h"

#include "fail.h"
#include "family_attention.h"
#include "family_parts.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace scoria {
namespace {

using Layers = WindowRule::Layers;

constexpr TensorRow laguna_rows[] = {
    {Role::attention_gate, "model.layers.#.self_attn.g_proj.weight"},
    {Role::q_norm, "model.layers.#.self_attn.q_norm.weight"},
    {Role::k_norm, "model.layers.#.self_attn.k_norm.weight"},
    {Role::router_choice_bias, "model.layers.#.mlp.experts.e_score_correction_bias"},
};

#define LAYER "model.layers.#."
constexpr TensorRow aria_rows[] = {
    {Role::router, LAYER "mlp.router.weight"},
    {Role::expert_gate, LAYER "mlp.experts.fc1.weight", Layout::experts_gate_up_halves},
    {Role::expert_up, LAYER "mlp.experts.fc1.weight", Layout::experts_gate_up_halves},
    {Role::expert_down, LAYER "mlp.experts.fc2.weight", Layout::experts_transposed},
};
constexpr TensorRow flint_rows[] = {
    {Role::sinks, LAYER "self_attn.softmax_offset"},
};
constexpr TensorRow step_rows[] = {
    {Role::attention_gate, LAYER "self_attn.g_proj.weight"},
    {Role::q_norm, LAYER "self_attn.q_norm.weight", Layout::plus_one},
    {Role::k_norm, LAYER "self_attn.k_norm.weight", Layout::plus_one},
    {Role::router, LAYER "moe.gate.weight"},
    {Role::router_choice_bias, LAYER "moe.router_bias"},
    {Role::expert_gate, LAYER "moe.gate_proj.weight"},
    {Role::expert_up, LAYER "moe.up_proj.weight"},
    {Role::expert_down, LAYER "moe.down_proj.weight"},
    {Role::shared_gate, LAYER "share_expert.gate_proj.weight"},
    {Role::shared_up, LAYER "share_expert.up_proj.weight"},
    {Role::shared_down, LAYER "share_expert.down_proj.weight"},
};
#undef LAYER
#define BLOCK "transformer.blocks.#."
constexpr TensorRow dbrx_rows[] = {
    {Role::token_embedding, "transformer.wte.weight"},
    {Role::output_norm, "transformer.norm_f.weight"},
    {Role::output, "lm_head.weight"},
    {Role::attention_norm, BLOCK "norm_attn_norm.norm_1.weight"},
    {Role::q, BLOCK "norm_attn_norm.attn.Wqkv.weight", Layout::qkv},
    {Role::k, BLOCK "norm_attn_norm.attn.Wqkv.weight", Layout::qkv},
    {Role::v, BLOCK "norm_attn_norm.attn.Wqkv.weight", Layout::qkv},
    {Role::o, BLOCK "norm_attn_norm.attn.out_proj.weight"},
    {Role::feed_forward_norm, BLOCK "norm_attn_norm.norm_2.weight"},
    {Role::router, BLOCK "ffn.router.layer.weight"},
    {Role::expert_gate, BLOCK "ffn.experts.mlp.w1"},
    {Role::expert_up, BLOCK "ffn.experts.mlp.v1"},
    {Role::expert_down, BLOCK "ffn.experts.mlp.w2", Layout::experts_transposed},
};
#undef BLOCK

constexpr Routing softmax_experts{};
constexpr Routing laguna_experts{
    .score = Routing::Score::sigmoid, .renormalise = true, .choice_bias = true, .group_by_top2 = true};
constexpr Routing renormalised_experts{.renormalise = true};
constexpr Routing sigmoid_experts{.score = Routing::Score::sigmoid, .renormalise = true};
constexpr Routing step_experts{
    .score = Routing::Score::sigmoid, .renormalise = true, .choice_bias = true, .group_by_top2 = true};
constexpr Routing gated_shared_experts{.shared_size = 5632, .shared_gate = true};
constexpr Routing gpt_oss_experts{.score = Routing::Score::softmax_chosen,
                                  .router_bias = true,
                                  .bias = true,
                                  .clamp = {.limit = 7, .slope = 1.702f, .offset = 1}};

constexpr Routing granite_experts{.score = Routing::Score::softmax_chosen};
constexpr Routing ernie_experts{.renormalise = true, .choice_bias = true};

constexpr Routing cohere_experts{.score = Routing::Score::softmax_chosen, .renormalise = true};
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
        routing.clamp.limit = static_cast<float>(r.settings.positive("swiglu_limit", 7.0));
        routing.clamp.slope = static_cast<float>(r.settings.positive("swiglu_alpha", 1.702));
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

/// Experts as wide as intermediate_size says, dense layers before them as another field does.
void adjust_cohere2_moe(Reading& r) {
    const Settings& s = r.settings;
    Architecture& a = r.architecture;
    expect_layer_types(s);
    a.logit_scale = s.number("logit_scale", 0.0625);
    if (s.has("rms_norm_eps")) {
        a.norm.kind = NormKind::rms;
        a.norm.epsilon = s.number("rms_norm_eps", 0);
        s.understood("layer_norm_eps");
    }
    const std::string by = s.text("expert_selection_fn", "softmax"),
                      joins = s.text("shared_expert_combination_strategy", "average");
    if (by != "softmax" && by != "sigmoid") s.wrong("expert_selection_fn", "softmax or sigmoid");
    if (joins != "average" && joins != "sum") s.wrong("shared_expert_combination_strategy", "average or sum");
    const uint32_t shared = s.size("num_shared_experts", 1 << 10, 0, 0),
                   size = s.size(Field::feed_forward, most_size),
                   dense = s.size("prefix_dense_intermediate_size", most_size, size),
                   first = s.size("first_k_dense_replace", most_layers, 0, 0);
    const uint32_t pattern = s.size("prefix_dense_sliding_window_pattern", most_layers, 1);
    if (!s.has("mlp_layer_types")) make_first_dense(a, first, dense);
    for (Layer& layer : a.layers) {
        Routing& routing = layer.feed_forward.routing;
        if (routing.experts == 0) {
            make_dense(layer, dense);
            if (pattern != 1) s.wrong("prefix_dense_sliding_window_pattern", "1");
            continue;
        }
        if (by == "sigmoid") routing.score = Routing::Score::sigmoid;
        routing.shared_size = columns_of(s, "num_shared_experts", shared, size);
        if (shared != 0 && joins == "average") layer.feed_forward_out = 0.5f;
    }
    for (const char* told : {"sliding_window_pattern", "rope_scaling"}) s.understood(told);
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
    expect_flag(s, "norm_topk_prob", true, true);
    constexpr double none = 1e-9;  // below which no sum of chosen scores lies
    if (s.positive("moe_norm_min", 1e-12) > none) s.wrong("moe_norm_min", "1e-12");
    for (const char* ignored : {"moe_capacity", "moe_gate", "moe_use_aux_free"}) s.understood(ignored);
}

/// Layers may have heads of their own number; the first alone has no experts, where the file does not say.
void adjust_laguna(Reading& r) {
    const Settings& s = r.settings;
    Architecture& a = r.architecture;
    const nlohmann::json* gating = s.find("gating");
    const bool by_elements = gating && *gating == "per-element";
    if (gating && !by_elements && *gating != true && *gating != "per-head")
        s.wrong("gating", "true, per-head or per-element");
    for (std::string type : s.texts("gating_types")) {
        std::ranges::replace(type, '_', '-');
        if (type != (by_elements ? "per-element" : "per-head")) s.wrong("gating_types", "what gating says");
    }
    if (!s.has("rope_parameters")) s.wrong("rope_parameters", "those of full_attention");
    const char* each = "num_attention_heads_per_layer";
    const std::vector<double> heads = s.numbers(each);
    check_length(s, each, heads.size(), a.layers.size(), "numbers");
    for (size_t i = 0; i < a.layers.size(); ++i) {
        Attention& attention = a.layers[i].attention;
        if (!heads.empty()) {
            if (!(heads[i] >= 1 && heads[i] <= most_heads && heads[i] == std::floor(heads[i])))
                s.wrong(each, "whole numbers from 1 on");
            attention.heads = static_cast<uint32_t>(heads[i]);
            set_heads(s, attention.kv_heads, attention.head_dim, attention);
        }
        attention.output_gate = by_elements ? Attention::OutputGate::elements : Attention::OutputGate::heads;
        attention.gate_activation = Activation::softplus;
        if (!s.has("layer_types")) attention.window = 0;
        Routing& routing = a.layers[i].feed_forward.routing;
        if (routing.experts == 0) continue;
        routing.scale = s.number("moe_routed_scaling_factor", 1.0);
        if (routing.shared_size == 0) routing.shared_size = 512;
    }
    if (!s.has("mlp_layer_types")) make_first_dense(a, 1, s.size(Field::feed_forward, most_size));
    s.refuse(std::array{"moe_apply_router_weight_on_input", "moe_router_logit_softcapping"});
}

/// Its sections of attention and of experts are among the other fields here (hf_text_part.cpp).
void adjust_dbrx(Reading& r) {
    const Settings& s = r.settings;
    const char* norm = "moe_normalize_expert_weights";
    const bool normed = !s.is_null(norm);
    if (s.positive(norm, 1.0) != 1) s.wrong(norm, "1, or null");
    const Settings activation = s.section("ffn_act_fn");
    const Activation named = activation_named(activation, "name", activation.text("name", "silu"));
    for (Layer& layer : r.architecture.layers) {
        layer.feed_forward.activation = named;
        layer.feed_forward.routing.renormalise = normed;
    }
    for (const char* of_training : {"moe_jitter_eps", "moe_loss_weight", "uniform_expert_assignment"})
        s.understood(of_training);
}

/// Experts are as wide as intermediate_size says, the one that all tokens pass as several.
void adjust_aria(Reading& r) {
    const uint32_t shared = r.settings.size("moe_num_shared_experts", 1 << 10, 2, 0);
    for (const char* of_training : {"moe_aux_loss_coeff", "moe_z_loss_coeff"})
        r.settings.understood(of_training);
    for (Layer& layer : r.architecture.layers) {
        Routing& routing = layer.feed_forward.routing;
        routing.shared_size = columns_of(r.settings, "moe_num_shared_experts", shared, routing.size);
    }
}

/// The first two layers have no experts, and they, the last one and every fourth see all, where the file does
/// not say.
void adjust_flint(Reading& r) {
    const Settings& s = r.settings;
    Architecture& a = r.architecture;
    const uint32_t dense = s.size(Field::feed_forward, most_size);
    for (size_t i = 0; i < a.layers.size(); ++i) {
        Layer& layer = a.layers[i];
        layer.attention.sinks = true;
        if (!s.has("layer_types") && (i < 2 || i % 4 == 1 || i + 1 == a.layers.size()))
            layer.attention.window = 0;
        if (!s.has("mlp_only_layers") && i < 2) make_dense(layer, dense);
    }
}

/// Limits of activated gates and of ups, one for each layer; null or 0: none.
void read_limits(const Settings& s, const char* name, std::vector<Layer>& layers,
                 GluClamp& (*clamp_of)(FeedForward&)) {
    const nlohmann::json* list = s.find(name);
    if (list == nullptr) return;
    if (!list->is_array() || list->size() < layers.size()) s.wrong(name, "a number, or null, of each layer");
    for (size_t i = 0; i < layers.size(); ++i) {
        const nlohmann::json& limit = (*list)[i];
        constexpr double most = std::numeric_limits<float>::max();
        if (!limit.is_null() && (!limit.is_number() || limit < 0 || limit > most))
            s.wrong(name, "numbers of 0 or more");
        clamp_of(layers[i].feed_forward) = {.limit = limit.is_null() ? 0 : limit.get<float>(),
                                            .activated = true};
    }
}

/// Layers with a window have heads of their own number; a gate for each head (StepFun 2026). hf_text_part.cpp
/// brings published configs to the form that transformers saves.
void adjust_step(Reading& r) {
    const Settings& s = r.settings;
    Architecture& a = r.architecture;
    expect_layer_types(s);
    expect_activation(r, Activation::silu);
    for (const char* name :
         {"use_moe", "norm_expert_weight", "use_moe_router_bias", "use_head_wise_attn_gate", "zero_centered"})
        expect_flag(s, name, true, true);
    expect_text(s, "moe_router_activation", "sigmoid");
    expect_text(s, "att_impl_type", "GQA");
    s.refuse(std::array{"use_rope_layers", "sink"});
    for (const char* told : {"need_fp32_gate", "moe_layer_offset", "moe_every_n_layer", "use_qk_norm",
                             "mtp_layer_types", "mtp_mlp_layer_types"})
        s.understood(told);
    const uint32_t heads = a.attention().heads,
                   windowed = s.size("num_sliding_attention_heads", most_heads, heads);
    s.understood("per_layer_config");  // which says that again
    const uint32_t shared = s.size("share_expert_dim", most_size, 1280);
    for (Layer& layer : a.layers) {
        Attention& attention = layer.attention;
        if (attention.window != 0) {
            attention.heads = windowed;
            set_heads(s, attention.kv_heads, attention.head_dim, attention);
        }
        attention.output_gate = Attention::OutputGate::heads;
        if (s.has("query_pre_attn_scalar"))
            attention.scale = float(1 / std::sqrt(s.positive("query_pre_attn_scalar")));
        Routing& routing = layer.feed_forward.routing;
        if (routing.experts == 0) continue;
        routing.scale = s.number("moe_router_scaling_factor", 1);
        routing.shared_size = shared;
    }
    if (!s.has("mlp_layer_types")) make_first_dense(a, 3, s.size(Field::feed_forward, most_size));
    read_limits(s, "swiglu_limits", a.layers, [](FeedForward& f) -> GluClamp& { return f.routing.clamp; });
    read_limits(s, "swiglu_limits_shared", a.layers, [](FeedForward& f) -> GluClamp& { return f.clamp; });
}

}  // namespace

std::span<const Family> expert_families() {
    static const Family families[] = {
        {.name = "mixtral",
         .tensors = {hf::mixtral, hf::experts, hf::frame, hf::attention},
         .rope_base = 1e6,
         .window = {Layers::all},
         .routing = &renormalised_experts},
        {.name = "dbrx",
         .tensors = {dbrx_rows},
         .norm = NormKind::layer,
         .epsilon = 1e-5,
         .clips = true,
         .routing = &renormalised_experts,
         .adjust = adjust_dbrx},
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
         .window = {.layers = Layers::odd_before, .flag = "use_sliding_window", .otherwise = 4096},
         .routing = &gated_shared_experts},
        {.name = "qwen3_moe",
         .tensors = {hf::experts, hf::frame, hf::attention, hf::gated, hf::qk_norms},
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .qk_norm = QkNorm::Group::head,
         .window = {.layers = Layers::all, .flag = "use_sliding_window", .otherwise = 4096},
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
         .window = {.layers = Layers::not_every, .every = 2, .otherwise = 128},
         .routing = &gpt_oss_experts,
         .adjust = adjust_gpt_oss},
        {.name = "flex_olmo",
         .tensors = {hf::olmo2, hf::experts, hf::frame, hf::attention, hf::qk_norms},
         .placement = NormPlacement::output,
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .qk_norm = QkNorm::Group::projection,
         .rope_base = 5e5,
         .routing = &softmax_experts},
        {.name = "cohere2_moe",
         .tensors = {hf::shared_experts, hf::experts, hf::frame, hf::attention, hf::gated},
         .norm = NormKind::layer,
         .placement = NormPlacement::parallel,
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .pairs = RopePairs::interleaved,
         .full_layers = Family::FullLayers::rest,
         .dense_rotate = true,
         .window = {.layers = Layers::all, .otherwise = 4096},
         .routing = &cohere_experts,
         .adjust = adjust_cohere2_moe},
        {.name = "mellum",
         .tensors = {hf::experts, hf::frame, hf::attention, hf::gated, hf::qk_norms},
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .qk_norm = QkNorm::Group::head,
         .rope_base = 5e5,
         .local_rope_base = 1e4,
         .rotates_part = true,
         .window = {.layers = WindowRule::Layers::all, .otherwise = 1024},
         .routing = &renormalised_experts,
         .adjust = adjust_listed_layers},
        {.name = "laguna",
         .tensors = {laguna_rows, hf::shared_experts, hf::experts, hf::frame, hf::attention, hf::gated},
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .qk_norm = QkNorm::Group::head,
         .rope_base = 5e5,
         .local_rope_base = 1e4,
         .rotates_part = true,
         .window = {.layers = Layers::all, .otherwise = 512},
         .routing = &laguna_experts,
         .adjust = adjust_laguna},
        {.name = "aria_text",
         .tensors = {aria_rows, hf::shared_experts, hf::frame, hf::attention},
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .feed_forward_bias = mlp_bias,
         .routing = &granite_experts,
         .adjust = adjust_aria},
        {.name = "flint",
         .tensors = {flint_rows, hf::experts, hf::frame, hf::attention, hf::gated, hf::qk_norms},
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .qk_norm = QkNorm::Group::head,
         .full_layers = Family::FullLayers::rest,
         .window = {.layers = Layers::all, .otherwise = 513},
         .routing = &sigmoid_experts,
         .adjust = adjust_flint},
        {.name = "step3p5",
         .tensors = {step_rows, hf::frame_plus_one, hf::frame, hf::attention, hf::gated},
         .qk_norm = QkNorm::Group::head,
         .local_rope_base = 1e4,
         .rotates_part = true,
         .window = {Layers::all},
         .routing = &step_experts,
         .adjust = adjust_step},
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
         .window = {.layers = Layers::all, .otherwise = 128},
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
