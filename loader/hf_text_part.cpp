// See hf_text_part.h.
#include "hf_text_part.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <sstream>

namespace scoria {
namespace {

struct TextPart {
    std::string_view model_type;
    const char* family;
    const char* fields = "{}";  // of the class, JSON
};
#define GEMMA4                                                                                    \
    R"({"vocab_size": 262144, "vocab_size_per_layer_input": 262144, "hidden_size": 2304,)"        \
    R"("intermediate_size": 9216, "num_hidden_layers": 30, "num_attention_heads": 8,)"            \
    R"("num_key_value_heads": 4, "head_dim": 256, "global_head_dim": 512, "rms_norm_eps": 1e-6,)" \
    R"("rope_parameters": {"full_attention": {"rope_type": "proportional", "rope_theta": 1e6,)"   \
    R"("partial_rotary_factor": 0.25}, "sliding_attention": {"rope_type": "default"}},)"
constexpr const char *qwen2_vl = R"({"rope_theta": 1e6, "max_window_layers": 80})",
                     *aria = R"({"rms_norm_eps": 1e-6, "moe_num_experts": 8, "moe_topk": 2})";
// Their positions have several axes, all with the same position in a text.
constexpr TextPart parts[] = {
    {"qwen2_vl", "qwen2", qwen2_vl},
    {"qwen2_vl_text", "qwen2", qwen2_vl},
    {"qwen2_5_vl", "qwen2", qwen2_vl},
    {"qwen2_5_vl_text", "qwen2", qwen2_vl},
    {"qwen2_5_omni_text", "qwen2", R"({"rope_theta": 1e6, "sliding_window": 32768})"},
    {"qwen3_vl_text", "qwen3", R"({"rope_theta": 5e5})"},
    // GTE, before transformers had it.
    {"new", "gte", R"({"rope_theta": 1e4})"},
    {"mimo", "qwen2"},  // MiMo 7B; its layers behind the last guess further tokens
    {"qwen3_5", "qwen3_5_text"},
    {"qwen3_5_moe", "qwen3_5_moe_text"},
    {"qwen3_vl_moe_text", "qwen3_moe", R"({"norm_topk_prob": true, "rope_theta": 5e5})"},
    {"qwen3_omni_moe_text", "qwen3_moe", R"({"norm_topk_prob": true, "rope_theta": 1e6})"},
    {"glm4v_text", "glm4", R"({"attention_bias": true, "partial_rotary_factor": 1.0})"},
    {"glm4v_moe_text", "glm4_moe", R"({"attention_bias": true, "partial_rotary_factor": 0.5})"},
    {"glm_ocr_text", "glm4", R"({"attention_bias": false, "partial_rotary_factor": 1.0})"},
    {"apertus1p5_text", "apertus", R"({"vocab_size": 266752})"},
    {"aria_text", "aria_text", aria},
    {"aria_moe_lm", "aria_text", aria},
    {"phi4_multimodal", "phi3"},
    {"phi4mm", "phi3"},
    {"step3p5", "step3p5", R"({"rms_norm_eps": 1e-5})"},
    {"granite4_vision_text", "granite"},
    {"granite_docling_text", "granite",
     R"({"embedding_multiplier": 12.0, "logits_scaling": 4.0, "residual_multiplier": 0.263,
         "attention_multiplier": 0.015625, "tie_word_embeddings": true})"},
    {"hunyuan_vl", "hunyuan_v1_dense"},
    {"hunyuan_vl_text", "hunyuan_v1_dense"},
    {"deepseek_ocr2_text", "deepseek_ocr2_text", R"({"rms_norm_eps": 1e-6})"},
    {"paddleocr_vl_text", "ernie4_5", R"({"rope_interleave": false})"},
    {"mllama_text_model", "mllama_text_model",
     R"({"vocab_size": 128256, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 40,
         "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 131072,
         "rms_norm_eps": 1e-5, "cross_attention_layers": [3, 8, 13, 18, 23, 28, 33, 38]})"},
    {"gemma3_text", "gemma3_text",
     R"({"vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
         "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
         "max_position_embeddings": 131072, "rms_norm_eps": 1e-6, "sliding_window": 4096})"},
    {"gemma3n_text", "gemma3n_text",
     R"({"vocab_size": 262400, "vocab_size_per_layer_input": 262144, "hidden_size": 2048,
         "intermediate_size": 16384, "num_hidden_layers": 35, "num_attention_heads": 8, "num_key_value_heads": 2,
         "head_dim": 256, "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "sliding_window": 512,
         "hidden_size_per_layer_input": 256, "num_kv_shared_layers": 15, "final_logit_softcapping": 30.0})"},
    {"lfm3", "lfm3",
     R"({"rope_parameters": {"full_attention": {"rope_type": "proportional", "rope_theta": 1e6,
         "partial_rotary_factor": 0.5}, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}})"},
    {"gemma4_text", "gemma4_text",
     GEMMA4
     R"("max_position_embeddings": 131072, "sliding_window": 512, "hidden_size_per_layer_input": 256})"},
    {"gemma4_unified_text", "gemma4_text",
     GEMMA4 R"("max_position_embeddings": 262144, "sliding_window": 1024})"},
};
#undef GEMMA4

/// Step 3.5 as published: lists that go on for layers which guess further tokens, bases and shares of
/// rotation by layer where transformers has them by type, and its own names for the rest.
void name_step_fields(nlohmann::json& text) {
    using nlohmann::json;
    const auto take = [&](const char* name) {
        const json value = text.value(name, json());
        text.erase(name);
        return value;
    };
    const json types = text.value("layer_types", json()), count = text.value("num_hidden_layers", json());
    if (!types.is_array() || !count.is_number_unsigned() || count > types.size()) return;
    const auto layers = count.get<size_t>();
    const json all = text;
    for (const auto& [name, value] : all.items())
        if (value.is_array() && value.size() >= types.size())
            text[name] = json(value.begin(), value.begin() + std::ptrdiff_t(layers));
    if (!text.contains("rope_parameters")) {
        const json bases = take("rope_theta"), shares = take("partial_rotary_factors"),
                   scaling = take("rope_scaling");
        take("yarn_only_types");  // full_attention
        json& ropes = text["rope_parameters"] = json::object();
        for (size_t i = 0; i < layers; ++i) {
            if (!types[i].is_string() || ropes.contains(types[i].get<std::string>())) continue;
            json& rope = ropes[types[i].get<std::string>()] = {{"rope_type", "default"}};
            // A list that is too short is no number.
            for (const auto& [name, list] :
                 {std::pair{"rope_theta", &bases}, {"partial_rotary_factor", &shares}})
                if (!list->is_null()) rope[name] = i < list->size() && list->is_array() ? (*list)[i] : *list;
            if (types[i] == "full_attention" && scaling.is_object()) rope.update(scaling);
        }
    }
    if (text.value("attention_other_setting", json()).is_object())
        text["num_sliding_attention_heads"] =
            take("attention_other_setting").value("num_attention_heads", json());
    if (text.value("moe_layers_enum", json()).is_string()) {
        text["mlp_layer_types"] = json(layers, "dense");
        std::istringstream numbers(take("moe_layers_enum").get<std::string>());
        for (size_t layer; numbers >> layer; numbers.ignore())
            if (layer < layers) text["mlp_layer_types"][layer] = "sparse";
    }
}

/// GTE's fixed NTK-aware scaling, (base factor)^(-2i/width) / factor^(2/width), as a linear one of another
/// base. What it has besides stays, and is refused.
void name_fixed_ntk(nlohmann::json& text) {
    const auto scaling = text.find("rope_scaling");
    if (scaling == text.end() || !scaling->is_object() || scaling->size() != 2 ||
        (*scaling).value("type", nlohmann::json()) != "ntk")
        return;
    const auto number = [](const nlohmann::json& from, const char* name) {
        const auto found = from.find(name);
        return found != from.end() && found->is_number() ? found->get<double>() : 0.0;
    };
    const double factor = number(*scaling, "factor"), base = number(text, "rope_theta"),
                 width = number(text, "hidden_size") / number(text, "num_attention_heads");
    if (!(factor >= 1 && base > 0 && width >= 2)) return;
    text["rope_theta"] = base * factor;
    *scaling = {{"type", "linear"}, {"factor", std::pow(factor, 2 / width)}};
}

/// Of those that have a model_type in common with others and are computed otherwise.
std::string family_of(const nlohmann::json& config, std::string model_type) {
    const auto is = [&](const char* name, const nlohmann::json& value) {
        const auto found = config.find(name);
        return found != config.end() && *found == value;
    };
    if (config.contains("draft_vocab_size")) return "eagle3";
    if (model_type == "deepseek_v2" && is("use_mla", false)) return "deepseek_ocr2_text";
    if (model_type == "bert" && is("position_embedding_type", "alibi")) return "jina_bert_v2";
    if (model_type == "t5" && is("architectures", {"T5EncoderModel"})) return "t5_encoder";
    return model_type;
}

}  // namespace

nlohmann::json text_section(const nlohmann::json& config) {
    nlohmann::json text = config;
    // Qwen-Omni's is a part of a part; DeepSeek's of OCR does not say its type.
    for (const auto& [section, type] : {std::pair{"thinker_config", ""},
                                        {"language_config", "deepseek_v2"},
                                        {"llm_config", ""},
                                        {"text_config", ""}}) {
        const auto found = text.find(section);
        if (found == text.end() || !found->is_object()) continue;
        nlohmann::json inner = *found;
        if (*type && !inner.contains("model_type")) inner["model_type"] = type;
        for (const char* shared : {"tie_word_embeddings", "quantization_config"})
            if (text.contains(shared)) inner[shared] = text[shared];
        text = std::move(inner);
    }
    return text;
}

nlohmann::json text_part(nlohmann::json config) {
    nlohmann::json text = text_section(config);
    // What a draft's layer is, in the form of speculators.
    if (const auto inner = text.find("transformer_layer_config"); inner != text.end() && inner->is_object())
        text.update(nlohmann::json(*inner));
    const auto type = text.find("model_type");
    if (type == text.end() || !type->is_string()) return config;
    *type = family_of(text, *type);
    if (*type == "step3p5") name_step_fields(text);
    if (*type == "new" || *type == "gte") name_fixed_ntk(text);
    if (*type == "dbrx")
        for (const char* section : {"attn_config", "ffn_config"}) {
            const nlohmann::json fields = text.value(section, nlohmann::json::object());
            text.erase(section);
            if (!fields.is_object()) continue;
            for (const auto& [name, value] : fields.items())
                if (!text.contains(name)) text[name] = value;
        }
    const auto part = std::ranges::find(parts, type->get<std::string_view>(), &TextPart::model_type);
    if (part == std::end(parts)) return text;
    text["model_type"] = part->family;
    // Of images and sounds, and of the latent attention that DeepSeek's parts for texts have not.
    for (const char* beside :
         {"vision_config", "vision_token_id", "audio_config", "audio_processor", "embd_layer",
          "img_processor", "speech_lora", "vision_lora", "sam_config", "use_mla", "kv_lora_rank",
          "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "lm_head", "rm_head"})
        text.erase(beside);
    const nlohmann::json fields = nlohmann::json::parse(part->fields);
    for (const auto& [name, value] : fields.items())
        if (!text.contains(name) || (text[name].is_null() && value.is_object())) text[name] = value;
    return text;
}

std::string text_part_name(std::string name) {
    // Encoders that call what they have in common with BERT or RoBERTa by their own names.
    constexpr std::pair<std::string_view, std::string_view> kin[] = {
        {"ernie.", "bert."},    {"electra.", "bert."},
        {"roformer.", "bert."}, {"data2vec_text.", "roberta."},
        {"new.", "gte."},       {"roberta_prelayernorm.", "roberta."}};
    for (const auto& [own, common] : kin)
        if (name.starts_with(own)) return std::string(common) + name.substr(own.size());
    // Of Phi-4, beside what images and sounds add to it.
    constexpr std::string_view base = ".base_layer.";
    if (const size_t at = name.find(base); at != name.npos) name.replace(at, base.size(), ".");
    constexpr std::string_view thinker = "thinker.";  // Qwen-Omni's, beside what talks
    if (name.starts_with(thinker)) name.erase(0, thinker.size());
    for (const std::string_view from :
         {"model.language_model.", "language_model.model.", "model.text_model."})
        if (name.starts_with(from)) return "model." + name.substr(from.size());
    constexpr std::string_view whole = "language_model.";
    for (const std::string_view part : {"lm_head.", "backbone."})
        if (name.starts_with(whole) && name.substr(whole.size()).starts_with(part))
            return name.substr(whole.size());
    return name;
}

bool has_other_parts(const nlohmann::json& config) {
    constexpr const char* sections[] = {"text_config",   "llm_config",    "language_config", "thinker_config",
                                        "vision_config", "audio_config",  "vision_lora",     "speech_lora",
                                        "embd_layer",    "img_processor", "audio_processor"};
    return std::ranges::any_of(sections, [&](const char* name) { return config.contains(name); });
}

bool is_of_images(std::string_view tensor) {
    constexpr std::string_view places[] = {"visual.",
                                           "vision_tower.",
                                           "vision_model.",
                                           "multi_modal_projector.",
                                           "embed_vision.",
                                           "vision_embedder.",
                                           "audio_tower.",
                                           "embed_audio.",
                                           "connector.",
                                           "mlp_AR.",
                                           "image_newline",
                                           "vit.",
                                           "sam_model.",
                                           "qwen2_model.",
                                           "projector.",
                                           "view_seperator",
                                           "talker.",
                                           "token2wav.",
                                           "code2wav.",
                                           "vision_encoder.",
                                           "aligner.",
                                           "vision_projection",
                                           "vision_adapter.",
                                           "vit_large_projector.",
                                           "vision_projector.",
                                           "mlp1.",
                                           "embed_tokens_extend."};
    const std::string_view inner = tensor.starts_with("model.") ? tensor.substr(6) : tensor;
    constexpr std::string_view adapters[] = {".lora_A.vision.", ".lora_B.vision.", ".lora_A.speech.",
                                             ".lora_B.speech."};  // of Phi-4
    return std::ranges::any_of(adapters, [&](auto part) { return tensor.find(part) != tensor.npos; }) ||
           std::ranges::any_of(places, [&](std::string_view place) { return inner.starts_with(place); });
}

}  // namespace scoria
