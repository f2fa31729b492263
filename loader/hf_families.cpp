// The Llama line and Cohere's: one row per family. What they compute: the papers, and
// transformers' modeling files of the same names.
#include "hf_families.h"

#include "fail.h"
#include "family_attention.h"
#include "family_parts.h"
#include "feature_draft.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace scoria {
namespace {

using Layers = WindowRule::Layers;

constexpr Multipliers granite_multipliers{"embedding_multiplier", "residual_multiplier", "logits_scaling",
                                          "attention_multiplier"};

/// As Granite, but logits are multiplied, and scores by the usual where the file has no factor.
void adjust_hyperclovax(Reading& r) {
    read_multipliers(r, granite_multipliers, double{r.architecture.layers.front().attention.scale});
    r.architecture.logit_scale = r.settings.number("logits_scaling", 1);
    if (!r.settings.flag("use_post_norm", true)) r.architecture.placement = NormPlacement::pre;
}

/// Older names of its biases.
void adjust_internlm3(Reading& r) {
    for (const char* name : {"qkv_bias", "bias"}) expect_flag(r.settings, name, false, false);
}

void adjust_iquestcoder(Reading& r) { r.settings.refuse(std::array{"clip_qkv", "use_sliding_window"}); }

/// What its code computes beside is in no published model.
void adjust_nanbeige(Reading& r) {
    r.settings.refuse(std::array{"qk_layernorm", "emb_neighbor_num", "insert_ngram_layer_idx",
                                 "ngram_insert_all_layers", "enable_double_loop_split", "loop_middle_layers",
                                 "loop_share_kv", "enable_hyper_connection", "enable_mhc",
                                 "enable_h_res_identity", "enable_depth_attention", "loop_loss_weights"});
    repeat_layers(r.settings, "num_loops", "skip_loop_final_norm", r.architecture);
}

void adjust_stablelm(Reading& r) {
    if (r.settings.flag("qk_layernorm", false))
        for (Layer& layer : r.architecture.layers) {
            QkNorm& qk_norm = layer.attention.qk_norm;
            qk_norm.group = QkNorm::Group::head;
            qk_norm.own_weights = true;
            qk_norm.norm.bias = false;
        }
    if (r.settings.flag("use_parallel_residual", false)) r.architecture.placement = NormPlacement::parallel;
}

/// Its class has the window in all layers, whatever a list says.
void adjust_ministral3(Reading& r) {
    const uint32_t window = r.settings.size(r.settings.name_of(Field::window), most_size, 0, 0);
    for (const Layer& layer : r.architecture.layers)
        if (layer.attention.window != window)
            r.settings.wrong("layer_types", "one type, that of sliding_window");
}

void adjust_hunyuan(Reading& r) { check_hunyuan(r.settings); }

bool bends(const Layer& layer) { return layer.feed_forward.activation == Activation::xielu; }
constexpr LayerNumber apertus_numbers[] = {
    {"model.layers.#.mlp.act_fn.alpha_p", [](Layer& l) -> float& { return l.feed_forward.xielu.p; }, bends},
    {"model.layers.#.mlp.act_fn.alpha_n", [](Layer& l) -> float& { return l.feed_forward.xielu.n; }, bends},
};

/// What published configs say beside what the class reads.
void adjust_apertus(Reading& r) {
    expect_flag(r.settings, "qk_norm", true, true);
    for (const char* name : {"post_norm", "mlp_bias"}) expect_flag(r.settings, name, false, false);
    // Of version 1.5 tokens of images and sounds are read and not written.
    if (r.settings.has("output_vocab_size"))
        r.architecture.outputs = r.settings.size("output_vocab_size", r.architecture.vocab);
}

/// Command R+ norms its q and k heads, each with weights of its own.
void adjust_cohere(Reading& r) {
    r.architecture.logit_scale = r.settings.number("logit_scale", 0.0625);
    if (!r.settings.flag("use_qk_norm", false)) return;
    for (Layer& layer : r.architecture.layers) {
        layer.attention.qk_norm.group = QkNorm::Group::head;
        layer.attention.qk_norm.own_weights = true;
    }
}

/// Llama 3.2's of images: layers that see an image do nothing in a text, and the table has eight rows more
/// than there are logits.
void adjust_mllama(Reading& r) {
    const Settings& s = r.settings;
    Architecture& a = r.architecture;
    const char* list = "cross_attention_layers";
    for (const double index : s.numbers(list)) {
        if (!(index >= 0 && index < double(a.layers.size()) && index == std::floor(index)))
            s.wrong(list, "numbers of layers");
        Layer& layer = a.layers[size_t(index)];
        layer.attention = {};
        layer.feed_forward.size = 0;
    }
    a.outputs = a.vocab;
    a.vocab += 8;
}

}  // namespace

std::span<const Family> llama_families() {
    static const Family families[] = {
        {.name = "llama",
         .tensors = {hf::frame, hf::attention, hf::gated},
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .feed_forward_bias = mlp_bias},
        {.name = "mllama_text_model",
         .tensors = {hf::frame, hf::attention, hf::gated},
         .rope_base = 5e5,
         .adjust = adjust_mllama},
        {.name = "eagle3",
         .tensors = {hf::frame, hf::attention, hf::gated},
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .feed_forward_bias = mlp_bias,
         .adjust = read_feature_draft},
        {.name = "bitnet",
         .tensors = {hf::frame, hf::attention, hf::gated, hf::bitnet},
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .rope_base = 500000,
         .activation = Activation::relu_squared,
         .adjust = [](Reading& r) { norm_inside(r.architecture); }},
        {.name = "iquestcoder",
         .tensors = {hf::frame, hf::attention, hf::gated},
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .feed_forward_bias = mlp_bias,
         .adjust = adjust_iquestcoder},
        {.name = "nanbeige",
         .tensors = {hf::frame, hf::attention, hf::gated},
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .feed_forward_bias = mlp_bias,
         .adjust = adjust_nanbeige},
        {.name = "internlm3",
         .tensors = {hf::frame, hf::attention, hf::gated},
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .feed_forward_bias = mlp_bias,
         .adjust = adjust_internlm3},
        {.name = "mistral",
         .tensors = {hf::frame, hf::attention, hf::gated},
         .window = {.layers = Layers::all, .otherwise = 4096}},
        {.name = "ministral",
         .tensors = {hf::frame, hf::attention, hf::gated},
         .window = {.layers = Layers::all, .otherwise = 4096}},
        {.name = "ministral3",
         .tensors = {hf::frame, hf::attention, hf::gated},
         .rope_base = 1e6,
         .rope_parameters = R"({"rope_type": "yarn", "rope_theta": 1e6, "factor": 16, "beta_fast": 32,
             "beta_slow": 1, "mscale": 1, "mscale_all_dim": 1, "llama_4_scaling_beta": 0.1,
             "original_max_position_embeddings": 16384})",
         .window = {Layers::all},
         .adjust = adjust_ministral3},
        {.name = "arcee",
         .tensors = {hf::frame, hf::attention, hf::gated},
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .activation = Activation::relu_squared,
         .gated = false,
         .feed_forward_bias = mlp_bias},
        {.name = "seed_oss",
         .tensors = {hf::frame, hf::attention, hf::gated},
         .qkv_bias = by_flag("attention_bias", true),
         .o_bias = by_flag("attention_out_bias", false),
         .feed_forward_bias = mlp_bias},
        {.name = "helium",
         .tensors = {hf::frame, hf::attention, hf::gated},
         .qkv_bias = attention_bias,
         .pairs = RopePairs::interleaved,
         .rope_base = 1e5,
         .feed_forward_bias = mlp_bias},
        {.name = "ernie4_5",
         .tensors = {hf::frame, hf::attention, hf::gated},
         .qkv_bias = use_bias,
         .o_bias = use_bias,
         .pairs = RopePairs::interleaved,
         .rope_base = 5e5,
         .feed_forward_bias = use_bias},
        {.name = "qwen2",
         .tensors = {hf::frame, hf::attention, hf::gated},
         .qkv_bias = biased,
         .window = {.layers = Layers::from, .flag = "use_sliding_window", .otherwise = 4096}},
        {.name = "qwen3",
         .tensors = {hf::frame, hf::attention, hf::gated, hf::qk_norms},
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .qk_norm = QkNorm::Group::head,
         .window = {.layers = Layers::from, .flag = "use_sliding_window", .otherwise = 4096}},
        {.name = "smollm3",
         .tensors = {hf::frame, hf::attention, hf::gated},
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .rope_base = 2e6,
         .no_rope_every = 4,
         .window = {Layers::unrotated, 0, "use_sliding_window"},
         .feed_forward_bias = mlp_bias},
        {.name = "granite",
         .tensors = {hf::frame, hf::attention, hf::gated},
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .feed_forward_bias = mlp_bias,
         .adjust = adjust_granite},
        {.name = "granite_swa",
         .tensors = {hf::sinks, hf::frame, hf::attention, hf::gated},
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .rope_by_layer = true,
         .window = {.layers = Layers::all, .otherwise = 128},
         .feed_forward_bias = mlp_bias,
         .adjust = adjust_granite_swa},
        {.name = "apertus",
         .tensors = {hf::apertus, hf::frame, hf::attention, hf::gated, hf::qk_norms},
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .qk_norm = QkNorm::Group::head,
         .rope_base = 12e6,
         .rope_parameters = R"({"rope_type": "llama3", "rope_theta": 12e6, "factor": 8.0,
             "original_max_position_embeddings": 8192, "low_freq_factor": 1.0, "high_freq_factor": 4.0})",
         .activation = Activation::xielu,
         .gated = false,
         .layer_numbers = apertus_numbers,
         .adjust = adjust_apertus},
        {.name = "exaone",
         .tensors = {hf::frame, hf::attention, hf::gated, hf::exaone},
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .rope_base = 5e5,
         .feed_forward_bias = mlp_bias},
        {.name = "phi3",
         .tensors = {hf::fused_qkv, hf::fused_gate_up, hf::frame, hf::attention},
         .rotates_part = true,
         .window = {Layers::all}},
        {.name = "hunyuan_v1_dense",
         .tensors = {hf::frame, hf::attention, hf::gated, hf::hunyuan_qk_norms},
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .qk_norm = QkNorm::Group::head,
         .qk_norm_after_rope = true,
         .adjust = adjust_hunyuan},
        {.name = "hyperclovax",
         .tensors = {hf::hyperclovax, hf::frame, hf::attention, hf::gated},
         .placement = NormPlacement::sandwich,
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .feed_forward_bias = mlp_bias,
         .adjust = adjust_hyperclovax},
        {.name = "cwm",
         .tensors = {hf::frame, hf::attention, hf::gated},
         .rope_base = 1e6,
         .rope_parameters = R"({"rope_type": "llama3", "factor": 16, "low_freq_factor": 1,
                               "high_freq_factor": 4, "original_max_position_embeddings": 8192})",
         .window = {.layers = Layers::all, .otherwise = 8192},
         .feed_forward_bias = mlp_bias,
         .adjust = adjust_listed_layers},
        {.name = "jais2",
         .tensors = {hf::frame, hf::attention, hf::gated},
         .norm = NormKind::layer,
         .norm_bias = true,
         .qkv_bias = by_flag("attention_bias", true),
         .o_bias = by_flag("attention_bias", true),
         .activation = Activation::relu_squared,
         .gated = false,
         .feed_forward_bias = by_flag("mlp_bias", true)},
        {.name = "stablelm",
         .tensors = {hf::frame, hf::attention, hf::gated, hf::stablelm_qk_norms},
         .norm = NormKind::layer,
         .norm_bias = true,
         .qkv_bias = by_flag("use_qkv_bias", false),
         .rotary = 0.25,
         .adjust = adjust_stablelm},
        {.name = "starcoder2",
         .tensors = {hf::starcoder2, hf::frame, hf::attention},
         .norm = NormKind::layer,
         .norm_bias = true,
         .qkv_bias = by_flag("use_bias", true),
         .o_bias = by_flag("use_bias", true),
         .window = {Layers::all},
         .activation = Activation::gelu_tanh,
         .gated = false,
         .feed_forward_bias = by_flag("use_bias", true)},
        {.name = "nemotron",
         .tensors = {hf::frame_plus_one, hf::frame, hf::attention, hf::gated},
         .norm = NormKind::layer,
         .norm_bias = true,
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .rotary = 0.5,
         .activation = Activation::relu_squared,
         .gated = false,
         .feed_forward_bias = mlp_bias},
        {.name = "olmo",
         .tensors = {hf::frame, hf::attention, hf::gated},
         .norm = NormKind::layer,
         .norm_weight = false,
         .epsilon = 1e-5,
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .clips = true},
        {.name = "olmo2",
         .tensors = {hf::olmo2, hf::frame, hf::attention, hf::gated, hf::qk_norms},
         .placement = NormPlacement::output,
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .qk_norm = QkNorm::Group::projection},
        {.name = "olmo3",
         .tensors = {hf::olmo2, hf::frame, hf::attention, hf::gated, hf::qk_norms},
         .placement = NormPlacement::output,
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .qk_norm = QkNorm::Group::projection,
         .rope_base = 5e5,
         .local_rope_base = 5e5,
         .window = {.layers = Layers::not_every, .every = 4, .otherwise = 4096}},
        {.name = "exaone4",
         .tensors = {hf::olmo2, hf::frame, hf::attention, hf::gated, hf::qk_norms},
         .placement = NormPlacement::output,
         .qk_norm = QkNorm::Group::head,
         .full_layers = Family::FullLayers::rest_beside_windows,
         .window = {.layers = Layers::not_every, .every = 4, .otherwise = 4096}},
        {.name = "glm",
         .tensors = {hf::fused_gate_up, hf::frame, hf::attention},
         .qkv_bias = by_flag("attention_bias", true),
         .pairs = RopePairs::interleaved,
         .rotary = 0.5},
        {.name = "glm4",
         .tensors = {hf::glm4, hf::fused_gate_up, hf::frame, hf::attention},
         .placement = NormPlacement::sandwich,
         .qkv_bias = by_flag("attention_bias", true),
         .pairs = RopePairs::interleaved,
         .rotary = 0.5},
        {.name = "cohere",
         .tensors = {hf::frame, hf::attention, hf::gated, hf::qk_norms},
         .norm = NormKind::layer,
         .placement = NormPlacement::parallel,
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .pairs = RopePairs::interleaved,
         .rope_base = 5e5,
         .adjust = adjust_cohere},
        {.name = "cohere2",
         .tensors = {hf::frame, hf::attention, hf::gated, hf::qk_norms},
         .norm = NormKind::layer,
         .placement = NormPlacement::parallel,
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .pairs = RopePairs::interleaved,
         .full_layers = Family::FullLayers::rest,
         .window = {.layers = Layers::not_every, .every = 4, .otherwise = 4096},
         .adjust = adjust_cohere},
    };
    return families;
}

std::span<const Family> hugging_face_families() {
    static const std::vector<Family> families = [] {
        std::vector<Family> all;
        for (const auto part :
             {llama_families(), gemma_families(), gpt_families(), expert_families(), deepseek_families(),
              encoder_families(), rotary_encoder_families(), encoder_decoder_families(), recurrent_families(),
              mamba_families(), lightning_families(), reformer_families(), own_families()})
            all.insert(all.end(), part.begin(), part.end());
        return all;
    }();
    return families;
}

void adjust_granite(Reading& r) { read_multipliers(r, granite_multipliers, 1); }

void adjust_granite_swa(Reading& r) {
    adjust_granite(r);
    const uint32_t window = r.settings.size(Field::window, most_size, 128);
    const bool says = r.settings.has("layer_types");
    for (size_t i = 0; i < r.architecture.layers.size(); ++i) {
        Attention& attention = r.architecture.layers[i].attention;
        attention.sinks = true;
        if (!says) attention.window = i % 4 == 0 ? 0 : window;
    }
}

void expect_layer_types(const Settings& settings) {
    if (!settings.has("layer_types")) settings.wrong("layer_types", "a type of every layer");
}

void adjust_listed_layers(Reading& r) { expect_layer_types(r.settings); }

void check_hunyuan(const Settings& settings) {
    expect_flag(settings, "use_qk_norm", true, true);
    expect_flag(settings, "use_rotary_pos_emb", true, true);
    expect_flag(settings, "use_mixed_mlp_moe", true, true);
    for (const char* other : {"use_cla", "use_mla", "position_embedding_xdrope", "add_classification_head"})
        expect_flag(settings, other, false, false);
    for (const char* ignored :
         {"anyres_pooling_size", "capacity_factor", "cla_share_factor", "dense_list",
          "enable_lm_head_fp32", "im_newline_id",   "mask_init_id",     "norm_type",
          "num_media_embeds",    "org_vocab_size",  "pool_type",        "text_end_id",
          "text_start_id",       "video_end_id",    "video_start_id",   "vit_input_resolution",
          "vit_mapping_type",    "vit_norm_type",   "vit_patch",        "vit_token"})
        settings.understood(ignored);
}

void expect_flag(const Settings& settings, const char* name, bool expected, bool otherwise) {
    if (settings.flag(name, otherwise) != expected)
        fail(Status::unsupported, settings.where(), settings.full_name(name), ": expected ",
             expected ? "true" : "false", ", got ", expected ? "false" : "true");
}

void expect_activation(const Reading& r, Activation activation) {
    if (r.architecture.layers.front().feed_forward.activation != activation)
        r.settings.wrong(r.settings.name_of(Field::activation), "none, as its class has one of its own");
}

void expect_text(const Settings& settings, const char* name, const char* expected) {
    if (settings.text(name, expected) != expected)
        fail(Status::unsupported, settings.where(), settings.full_name(name), ": expected ", expected,
             ", got ", settings.text(name));
}

}  // namespace scoria
