// The decoders and encoder-decoders of fixtures/models that open; a new family adds its line.
#pragma once

#include "test_env.h"

#include <span>
#include <string>
#include <vector>

namespace scoria::test {

/// Those, or the one that $SCORIA_ONLY names.
inline std::vector<std::string> chosen(std::span<const char* const> all) {
    const std::string only = variable("SCORIA_ONLY");
    if (!only.empty()) return {only};
    return {all.begin(), all.end()};
}

inline constexpr const char* decoder_fixtures[] = {
    "llama1",
    "llama2",
    "llama3",
    "llama3.2-tied",
    "llama-linear-scaling",
    "llama-dynamic-ntk",
    "llama-yarn",
    "yi",
    "deepseek-67b",
    "smollm2",
    "smollm3",
    "mistral",
    "qwen2",
    "qwen2.5-tied",
    "qwen3",
    "granite",
    "softmax1",
    "phi3",
    "phi3-longrope",
    "phi4",
    "hunyuan-dense",
    "gpt1",
    "gpt2",
    "gpt3",
    "gpt-neo",
    "gpt-j",
    "gpt-neox",
    "opt",
    "opt-350m-style",
    "bloom",
    "falcon-7b-style",
    "falcon2-11b-style",
    "falcon-rw-style",
    "mpt",
    "imagegpt",
    "starcoder2",
    "stablelm",
    "phi",
    "palm",
    "lamda",
    "nemotron",
    "olmo",
    "olmo2",
    "glm4",
    "gemma",
    "gemma2",
    "gemma3-text",
    "cohere",
    "cohere-plus",
    "cohere2",
    "mixtral",
    "qwen2-moe",
    "qwen3-moe",
    "olmoe",
    "gpt-oss",
    "hunyuan-moe",
    "hunyuan-large",
    "sparse-strided",
    "sparse-fixed",
    "image-transformer",
    "reformer",
    "prefix-lm",
    "gopher",
    "transformer-xl",
    "compressive-transformer",
    "shaw-relative",
    "deepseek-v2",
    "deepseek-v2-lite",
    "deepseek-v3",
};

inline constexpr const char* encoder_decoder_fixtures[] = {
    "t5", "t5-v1.1", "mt5", "bart", "marian", "led", "transformer-original"};

/// Of all decoders and encoder-decoders: those named, in the quick tier and on slow drivers.
inline std::vector<std::string> decoders_or(std::span<const char* const> few) {
    if (!deep() || slow_driver()) return chosen(few.first(few_models() ? 1 : few.size()));
    std::vector<const char*> all(std::begin(decoder_fixtures), std::end(decoder_fixtures));
    all.insert(all.end(), std::begin(encoder_decoder_fixtures), std::end(encoder_decoder_fixtures));
    return chosen(all);
}

}  // namespace scoria::test
