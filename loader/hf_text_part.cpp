// See hf_text_part.h.
#include "hf_text_part.h"

#include <algorithm>
#include <array>
#include <iterator>

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
// Their positions have several axes, all with the same position in a text.
constexpr TextPart parts[] = {
    {"qwen2_vl", "qwen2"},
    {"qwen2_vl_text", "qwen2"},
    {"qwen2_5_vl", "qwen2"},
    {"qwen2_5_vl_text", "qwen2"},
    {"qwen3_vl_text", "qwen3"},
    {"mimo", "qwen2"},  // MiMo 7B; its layers behind the last guess further tokens
    {"qwen3_5", "qwen3_5_text"},
    {"qwen3_5_moe", "qwen3_5_moe_text"},
    {"qwen3_vl_moe_text", "qwen3_moe", R"({"norm_topk_prob": true})"},
    {"glm4v_text", "glm4", R"({"attention_bias": true, "partial_rotary_factor": 1.0})"},
    {"glm4v_moe_text", "glm4_moe", R"({"attention_bias": true, "partial_rotary_factor": 0.5})"},
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
    {"gemma4_text", "gemma4_text",
     GEMMA4
     R"("max_position_embeddings": 131072, "sliding_window": 512, "hidden_size_per_layer_input": 256})"},
    {"gemma4_unified_text", "gemma4_text",
     GEMMA4 R"("max_position_embeddings": 262144, "sliding_window": 1024})"},
};
#undef GEMMA4

/// Of those that have a model_type in common with others and are computed otherwise.
std::string family_of(const nlohmann::json& config, std::string model_type) {
    const auto is = [&](const char* name, const nlohmann::json& value) {
        const auto found = config.find(name);
        return found != config.end() && *found == value;
    };
    if (config.contains("draft_vocab_size")) return "eagle3";
    if (model_type == "bert" && is("position_embedding_type", "alibi")) return "jina_bert_v2";
    if (model_type == "t5" && is("architectures", {"T5EncoderModel"})) return "t5_encoder";
    return model_type;
}

}  // namespace

nlohmann::json text_part(nlohmann::json config) {
    nlohmann::json text = config;
    if (const auto inner = config.find("text_config"); inner != config.end() && inner->is_object()) {
        text = *inner;
        for (const char* shared : {"tie_word_embeddings", "quantization_config"})
            if (config.contains(shared)) text[shared] = config[shared];
    }
    // What a draft's layer is, in the form of speculators.
    if (const auto inner = text.find("transformer_layer_config"); inner != text.end() && inner->is_object())
        text.update(nlohmann::json(*inner));
    const auto type = text.find("model_type");
    if (type == text.end() || !type->is_string()) return config;
    *type = family_of(text, *type);
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
    for (const char* of_images : {"vision_config", "vision_token_id"}) text.erase(of_images);
    const nlohmann::json fields = nlohmann::json::parse(part->fields);
    for (const auto& [name, value] : fields.items())
        if (!text.contains(name)) text[name] = value;
    return text;
}

std::string text_part_name(std::string name) {
    // Encoders that call what they have in common with BERT or RoBERTa by their own names.
    constexpr std::pair<std::string_view, std::string_view> kin[] = {{"ernie.", "bert."},
                                                                     {"electra.", "bert."},
                                                                     {"roformer.", "bert."},
                                                                     {"data2vec_text.", "roberta."},
                                                                     {"roberta_prelayernorm.", "roberta."}};
    for (const auto& [own, common] : kin)
        if (name.starts_with(own)) return std::string(common) + name.substr(own.size());
    for (const std::string_view from :
         {"model.language_model.", "language_model.model.", "model.text_model."})
        if (name.starts_with(from)) return "model." + name.substr(from.size());
    constexpr std::string_view head = "language_model.lm_head.";
    return name.starts_with(head) ? name.substr(head.size() - std::string_view("lm_head.").size()) : name;
}

bool is_of_images(std::string_view tensor) {
    constexpr std::array<std::string_view, 11> places = {
        "visual.",       "vision_tower.",    "vision_model.", "multi_modal_projector.",
        "embed_vision.", "vision_embedder.", "audio_tower.",  "embed_audio.",
        "connector.",    "mlp_AR.",          "image_newline"};
    const std::string_view inner = tensor.starts_with("model.") ? tensor.substr(6) : tensor;
    return std::ranges::any_of(places, [&](std::string_view place) { return inner.starts_with(place); });
}

}  // namespace scoria
