// The parts of config.json that all Hugging Face families share: rotary positions under their newer and older
// names, and the fields that change no result.
#include "hf_families.h"

#include "fail.h"
#include "family_attention.h"
#include "rope_scaling.h"

#include <algorithm>
#include <cmath>

namespace scoria {
namespace {

RopeScaling read_scaling(const Settings& rope, const Settings& config) {
    struct Row {
        const char* name;
        RopeScaling scaling;
    };
    constexpr Row rows[] = {{"default", RopeScaling::none},      {"linear", RopeScaling::linear},
                            {"dynamic", RopeScaling::dynamic},   {"xdrope", RopeScaling::dynamic},
                            {"llama3", RopeScaling::llama3},     {"yarn", RopeScaling::yarn},
                            {"longrope", RopeScaling::longrope}, {"su", RopeScaling::longrope},
                            {"mrope", RopeScaling::none},        {"proportional", RopeScaling::proportional}};
    const std::string older = rope.text("type", "default"), name = rope.text("rope_type", older);
    std::string known;
    for (const Row& row : rows) {
        if (name == row.name) return row.scaling;
        known += cat(known.empty() ? "" : ", ", row.name);
    }
    fail(Status::unsupported, config.where(), rope.full_name("rope_type"), ": expected one of ", known,
         ", got ", name);
}

/// Leading elements of a head that rotate, by the share of it that the file names.
uint32_t read_share(const Family& family, const Settings& rope, const Settings& config, uint32_t head_dim) {
    if (config.has("qk_rope_head_dim")) {
        const uint32_t width = config.size("qk_rope_head_dim", 1 << 12);
        const double whole = double(width) + config.size("qk_nope_head_dim", 1 << 12);
        const double said = rope.positive("partial_rotary_factor", 1.0);
        if (said != 1 && std::abs(said * whole - width) >= 1)
            rope.wrong("partial_rotary_factor", "qk_rope_head_dim's share of a head");
        return width;
    }
    double share = family.rotary;
    for (const char* name : {"rotary_pct", "partial_rotary_factor"}) share = config.positive(name, share);
    share = rope.positive("partial_rotary_factor", share);
    if (share > 1) rope.wrong("partial_rotary_factor", "at most 1");
    if (share != 1 && family.rotary == 1 && !family.rotates_part &&
        rope.text("rope_type", rope.text("type")) != "proportional")
        (rope.has("partial_rotary_factor") ? rope : config)
            .wrong("partial_rotary_factor", "1, as its class rotates whole heads");
    return static_cast<uint32_t>(head_dim * share);
}

/// The same, or a number of elements.
uint32_t read_width(const Family& family, const Settings& rope, const Settings& config, uint32_t head_dim) {
    const uint32_t width = read_share(family, rope, config, head_dim);
    const char* name = "rotary_dim";
    const uint32_t said = config.size(name, head_dim, width, 0);
    if (said != width && !family.rotates_part) config.wrong(name, cat(width));
    return said;
}

/// `rope`: the newer rope_parameters or the older rope_scaling.
RopeSettings read_rope(const Family& family, const Settings& rope, const Settings& config, uint32_t head_dim,
                       double base) {
    RopeSettings settings;
    settings.scaling = read_scaling(rope, config);
    const bool swap = config.flag("rope_interleave",
                                  config.flag("rope_interleaved", family.pairs == RopePairs::interleaved));
    if (swap && family.pairs == RopePairs::halves) config.wrong("rope_interleave", "none, or false");
    settings.pairs = swap ? RopePairs::interleaved : RopePairs::halves;
    settings.width = read_width(family, rope, config, head_dim);
    if (settings.scaling == RopeScaling::proportional) {
        settings.rotating = settings.width / 2 * 2;
        settings.width = head_dim;
    }
    settings.base = rope.positive("rope_theta", base);
    const uint32_t length = config.size(Field::context, most_size, family.context);
    const char* original = "original_max_position_embeddings";
    settings.original_length =  // the reference asks in this order
        config.size(original, most_size, rope.size(original, most_size, length));
    if (settings.scaling == RopeScaling::proportional)
        settings.factor = rope.positive("factor", 1.0);
    else if (settings.scaling == RopeScaling::longrope)
        settings.factor = rope.positive("factor", double(length) / settings.original_length);
    else if (settings.scaling != RopeScaling::none)
        settings.factor = rope.positive("factor");
    else
        rope.understood("factor");
    if (settings.scaling == RopeScaling::llama3) {
        settings.low_factor = rope.positive("low_freq_factor");
        settings.high_factor = rope.positive("high_freq_factor");
    }
    // The references read these for the scaling that has them and ignore them for the others.
    settings.beta_fast = rope.positive("beta_fast", settings.beta_fast);
    settings.beta_slow = rope.positive("beta_slow", settings.beta_slow);
    settings.truncate = rope.flag("truncate", true);
    for (auto [name, value] :
         {std::pair("mscale", &settings.mscale), {"mscale_all_dim", &settings.mscale_all}})
        if (const nlohmann::json* given = rope.find(name); given != nullptr && *given != 0)
            *value = rope.positive(name);
    const bool has_magnitude =
        settings.scaling == RopeScaling::yarn || settings.scaling == RopeScaling::longrope;
    if (rope.has("attention_factor") && has_magnitude) settings.magnitude = rope.positive("attention_factor");
    const char *near = "short_mscale", *far = "long_mscale";  // of short sequences, and of long ones
    if (rope.has(near) || rope.has(far)) {
        settings.magnitude = rope.positive(near);
        if (rope.positive(far) != *settings.magnitude) rope.wrong(far, "short_mscale's number");
        if (settings.scaling != RopeScaling::longrope) rope.wrong(near, "none but of longrope");
    }
    if (rope.has("alpha") && settings.scaling == RopeScaling::dynamic)
        settings.alpha = rope.positive("alpha");
    const std::vector<double> short_divisors = rope.numbers("short_factor"),
                              long_divisors = rope.numbers("long_factor");
    if (settings.scaling == RopeScaling::longrope) {
        settings.short_divisors = short_divisors;
        settings.long_divisors = long_divisors;
    }
    const char* growth = "llama_4_scaling_beta";
    if (const nlohmann::json* given = rope.find(growth); given != nullptr && *given != 0)
        settings.query_growth = rope.positive(growth);
    for (const char* other :
         {"max_position_embeddings", "mrope_section", "mrope_interleaved", "interleaved", "xdrope_section"})
        rope.understood(other);
    rope.refuse_unknown();
    return settings;
}

bool is_by_layer_type(const nlohmann::json* parameters) {
    return parameters != nullptr && parameters->is_object() && parameters->contains("full_attention");
}

}  // namespace

std::vector<RopeSettings> read_hugging_face_ropes(const Family& family, const Settings& config,
                                                  const Architecture& architecture) {
    if (!family.rope) return {};
    const uint32_t head_dim = head_dim_of(architecture, false);
    const double base = config.positive(config.has("rotary_emb_base")     ? "rotary_emb_base"
                                        : config.has("global_rope_theta") ? "global_rope_theta"
                                                                          : "rope_theta",
                                        family.rope_base);
    if (is_by_layer_type(config.find("rope_parameters"))) {
        const Settings all = config.section("rope_parameters");
        const double local = family.local_rope_base > 0 ? family.local_rope_base : base;
        std::vector<RopeSettings> ropes = {
            read_rope(family, all.section("full_attention"), config, head_dim, base),
            read_rope(family, all.section("sliding_attention"), config, head_dim_of(architecture, true),
                      local)};
        config.understood("rope_local_base_freq");
        all.refuse_unknown();
        return ropes;
    }
    const char* name = config.has("rope_parameters") ? "rope_parameters" : "rope_scaling";
    const Settings otherwise(config.format(), config.where(), std::string(name) + ".",
                             nlohmann::json::parse(family.rope_parameters));
    std::vector<RopeSettings> ropes = {
        read_rope(family, config.has(name) ? config.section(name) : otherwise, config, head_dim, base)};
    // One for each base that layers have (assign_ropes).
    if (const std::vector<double> bases = rope_bases(family, config); !bases.empty()) {
        const RopeSettings first = ropes.front();
        ropes.assign(bases.size(), first);
        for (size_t i = 0; i < bases.size(); ++i) ropes[i].base = bases[i];
    }
    if (family.local_rope_base > 0) {
        const Settings unscaled(config.format(), config.where(), "", nlohmann::json::object());
        ropes.push_back(read_rope(family, unscaled, config, head_dim_of(architecture, true),
                                  config.positive(config.has("local_rope_theta") ? "local_rope_theta"
                                                  : config.has("swa_rope_theta") ? "swa_rope_theta"
                                                                                 : "rope_local_base_freq",
                                                  family.local_rope_base)));
    }
    return ropes;
}

bool is_harmless_field(std::string_view name, const nlohmann::json& value) {
    constexpr std::string_view names[] = {"_name_or_path",
                                          "adapter",
                                          "add_bos_token",
                                          "architectures",
                                          "aux_loss_alpha",
                                          "ep_size",
                                          "seq_aux",
                                          "num_nextn_predict_layers",
                                          "num_mtp_layers",
                                          "mtp_layer_types",
                                          "mtp_mlp_layer_types",
                                          "attention_softmax_in_fp32",
                                          "attn_implementation",
                                          "auto_map",
                                          "cache_implementation",
                                          "chunk_size_feed_forward",
                                          "classifier_dropout",
                                          "dtype",
                                          "embedding_fraction",
                                          "eod_token_id",
                                          "gradient_checkpointing",
                                          "head_type",
                                          "id2label",
                                          "im_end_id",
                                          "im_start_id",
                                          "init_config",
                                          "init_device",
                                          "init_std",
                                          "initial_context_length",
                                          "initializer_factor",
                                          "initializer_range",
                                          "is_decoder",
                                          "is_encoder_decoder",
                                          "is_llama_config",
                                          "label2id",
                                          "language_model",
                                          "mask_token_id",
                                          "masked_softmax_fusion",
                                          "max_length",
                                          "max_sequence_length",
                                          "model_max_length",
                                          "model_type",
                                          "n_ctx",
                                          "n_special",
                                          "offset_alibi",
                                          "order_of_interleaved_layers",
                                          "output_attentions",
                                          "output_hidden_states",
                                          "output_past",
                                          "output_router_logits",
                                          "pad_id",
                                          "position_embedding_type",
                                          "predict_special_tokens",
                                          "prefix",
                                          "pretraining_tp",
                                          "problem_type",
                                          "reorder_and_upcast_attn",
                                          "return_dict",
                                          "router_aux_loss_coef",
                                          "router_jitter_noise",
                                          "skip_bias_add",
                                          "summary_activation",
                                          "summary_proj_to_labels",
                                          "summary_type",
                                          "summary_use_proj",
                                          "task_specific_params",
                                          "tokenizer_class",
                                          "tokenizer_name",
                                          "torch_dtype",
                                          "transformers.js_config",
                                          "transformers_version",
                                          "use_cache",
                                          "use_embedding_sharing",
                                          "use_gated_activation",
                                          "use_parallel_block",
                                          "use_parallel_embedding",
                                          "verbose"};
    // Of generation, which older files told here, of training, and of heads and towers that are not run.
    constexpr std::string_view elsewhere[] = {"_attn_implementation_autoset",
                                              "_commit_hash",
                                              "_num_labels",
                                              "bad_words_ids",
                                              "begin_suppress_tokens",
                                              "bias_dropout_fusion",
                                              "directionality",
                                              "diversity_penalty",
                                              "do_sample",
                                              "early_stopping",
                                              "encoder_no_repeat_ngram_size",
                                              "exponential_decay_length_penalty",
                                              "extra_pos_embeddings",
                                              "finetuning_task",
                                              "force_bos_token_to_be_generated",
                                              "init_method",
                                              "length_penalty",
                                              "logits_to_keep",
                                              "min_length",
                                              "no_repeat_ngram_size",
                                              "normalize_embedding",
                                              "num_beam_groups",
                                              "num_beams",
                                              "num_labels",
                                              "num_return_sequences",
                                              "output_projection",
                                              "output_scores",
                                              "pooler_fc_size",
                                              "pooler_num_attention_heads",
                                              "pooler_num_fc_layers",
                                              "pooler_size_per_head",
                                              "pooler_type",
                                              "pruned_heads",
                                              "remove_invalid_values",
                                              "repetition_penalty",
                                              "return_dict_in_generate",
                                              "save_step",
                                              "sbert_ce_default_activation_function",
                                              "scale_attention_softmax_in_fp32",
                                              "sentence_transformers",
                                              "suppress_tokens",
                                              "temperature",
                                              "tf_legacy_loss",
                                              "top_k",
                                              "top_p",
                                              "torchscript",
                                              "typical_p",
                                              "unsloth_fixed",
                                              "unsloth_version",
                                              "use_bfloat16",
                                              "xla_device"};
    struct Usual {
        std::string_view name;
        const char* value;  // JSON
    };
    constexpr Usual usual[] = {
        {"mlp_type", "\"default\""},
        {"norm_type", "\"layer_norm\""},
        {"rotary", "true"},
        {"moe_layer_freq", "1"},
        {"num_experts", "1"},
        {"scale_attn_weights", "true"},
        {"use_parallel_embedding", "true"},
        {"attention_mode", "\"longformer\""},
        {"rotary_scaling_factor", "1.0"},
        {"full_attn_mod", "1"},
        {"interpolate_factor", "1"},
    };
    for (const Usual& field : usual)
        if (field.name == name) return value.dump() == field.value;
    for (const std::string_view ending : {"_token_id", "_pdrop"})
        if (name.ends_with(ending)) return true;
    const auto is_in = [&](const auto& list) { return std::ranges::find(list, name) != std::end(list); };
    return name.find("dropout") != name.npos || name.find("layerdrop") != name.npos || is_in(names) ||
           is_in(elsewhere);
}

}  // namespace scoria
