// Hugging Face folders: the families by model_type, and how config.json becomes an Architecture.
#pragma once

#include "families.h"
#include "rope_scaling.h"

namespace scoria {

std::span<const Family> hugging_face_families();
// Its parts.
std::span<const Family> llama_families();  // pre-norm, RMS, SwiGLU, RoPE, and what grew from it
std::span<const Family> gemma_families();
std::span<const Family> gpt_families();              // learned positions, ALiBi, parallel blocks
std::span<const Family> expert_families();           // mixtures of experts
std::span<const Family> deepseek_families();         // those of DeepSeek and its kin
std::span<const Family> encoder_families();          // BERT and its kin
std::span<const Family> rotary_encoder_families();   // those whose heads rotate
std::span<const Family> encoder_decoder_families();  // T5, BART and their kin
std::span<const Family> recurrent_families();        // some layers of which are no attention
std::span<const Family> mamba_families();            // no layer of which is
std::span<const Family> lightning_families();
std::span<const Family> reformer_families();
std::span<const Family> own_families();  // the fixtures' own references

// Helpers of rows.
/// Errors: unsupported, where a field has not the one value that this build computes.
void expect_flag(const Settings& settings, const char* name, bool expected, bool otherwise);
void expect_text(const Settings& settings, const char* name, const char* expected);
/// Errors: bad_file, where the file names another, which its class does not read.
void expect_activation(const Reading& reading, Activation activation);
/// Errors: bad_file, where the file does not list what each layer is.
void expect_layer_types(const Settings& settings);
/// That alone: classes that choose the layers with a window as no rule here does.
void adjust_listed_layers(Reading& reading);
/// What published configs of Hunyuan say beside what their classes read. Errors: unsupported, as above.
void check_hunyuan(const Settings& settings);
/// Every token sees all others; `head` is the tensor that only a masked language model has.
void make_encoder(Reading& reading, const char* head, bool head_bias);
/// Longformer's masks and projections, of both Longformer and LED.
void use_global_tokens(const Settings& settings, Architecture& encoder);
inline constexpr Bias attention_bias = by_flag("attention_bias", false),
                      mlp_bias = by_flag("mlp_bias", false), use_bias = by_flag("use_bias", false);
/// Granite's multipliers.
void adjust_granite(Reading& reading);
/// Those, sinks, and windows but in every fourth layer from the first on, where the file does not say.
void adjust_granite_swa(Reading& reading);

/// The rotary positions that config.json tells, under its newer names (rope_parameters) or older ones
/// (rope_theta, rope_scaling): none, one, or one for full layers and one for windowed ones.
std::vector<RopeSettings> read_hugging_face_ropes(const Family& family, const Settings& settings,
                                                  const Architecture& architecture);

/// Fields of config.json that change no result, or not with this value.
bool is_harmless_field(std::string_view name, const nlohmann::json& value);

// Tensor names that families share; hf_tensors*.cpp.
namespace hf {
extern const std::span<const TensorRow> frame, frame_plus_one, attention, qk_norms, hunyuan_qk_norms,
    stablelm_qk_norms, fused_qkv, gated, fused_gate_up, starcoder2, phi, glm4, gemma2, gemma3n, gemma4, olmo2,
    mixtral, kimi_linear, llama4, afmoe, hy_v3, sarvam, bailing_hybrid, experts, granite_shared, granite_moe,
    hyperclovax, minimax, ernie_moe, hunyuan_moe, shared_experts, deepseek, indexer, gpt_oss, sinks, bitnet,
    apertus, exaone, bert_head, roberta_head, gpt2, gpt_bigcode, gpt1, gpt_neo, gptj, bloom_like, gpt_neox,
    persimmon, opt, mpt, mamba2;
}  // namespace hf

}  // namespace scoria
