// Goldens of the fixtures (MODELS.md, "Reference outputs") and the table of
// models that are run against them.
#pragma once

#include "model.h"
#include "safetensors.h"
#include "test_env.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace scoria::test {

/// fixtures/MODELS.md, "Tolerances": of a float32 path, in standard deviations of the logits.
constexpr double strict_error = 2e-3;

struct ModelFixture {
    std::string name, gguf, golden;  // the files under fixtures
    uint32_t window = 0;             // overrides every layer's, which GGUF cannot say for this family
    double golden_error = 1e-5;      // most the golden itself is off, in standard deviations
};

/// Each fails if one thing is wrong that the others do not show; a new
/// architecture adds its line. Goldens are float64 results rounded to float32:
/// off by 2^-24 of a value, and the largest values are below 10 standard
/// deviations, so 6e-7; Llama-3 frequencies are stored as float32, which adds
/// 1e-6. The golden beside mistral.gguf comes from transformers as it is, with
/// float32 rotary angles and norms: its error grows with the position, and
/// falls to a third if the angles are rounded alike.
inline const ModelFixture model_fixtures[] = {
    {"llama1: as many kv heads as heads", "gguf/llama1.gguf", "models/llama1/golden.safetensors"},
    {"llama3: grouped queries, Llama-3 scaling", "gguf/llama3.gguf", "models/llama3/golden.safetensors"},
    {"llama3.2-tied: tied embeddings", "gguf/llama3.2-tied.gguf", "models/llama3.2-tied/golden.safetensors"},
    {"llama-linear-scaling", "gguf/llama-linear-scaling.gguf",
     "models/llama-linear-scaling/golden.safetensors"},
    {"deepseek-67b: three layers", "gguf/deepseek-67b.gguf", "models/deepseek-67b/golden.safetensors"},
    {"smollm2: heads and hidden no powers of two", "gguf/smollm2.gguf", "models/smollm2/golden.safetensors"},
    {"mistral: heads * head_dim != hidden", "gguf/mistral.gguf", "gguf/mistral.golden.safetensors", 0, 5e-5},
    {"mistral with its window", "gguf/mistral.gguf", "models/mistral/golden.safetensors", 24},
    {"qwen2: biases, halves rotated", "gguf/qwen2.gguf", "models/qwen2/golden.safetensors"},
    {"qwen3: q and k norms", "gguf/qwen3.gguf", "models/qwen3/golden.safetensors"},
};

inline Model open_fixture(const ModelFixture& fixture) {
    Model model = open_model(fixtures() + "/" + fixture.gguf);
    if (fixture.window != 0)
        for (Layer& layer : model.architecture.layers) layer.attention.window = fixture.window;
    return model;
}

inline constexpr const char* golden_cases[] = {"short", "long"};

/// Token ids, stored as int64.
inline std::vector<TokenId> read_ids(const Safetensors& golden, const std::string& name) {
    const std::vector<int64_t> wide = golden.read<int64_t>(name);
    return {wide.begin(), wide.end()};
}

/// Prompts of fixtures/smollm2, shortest first.
struct RealPrompt {
    std::string name;
    bool quick;  // also outside the deep tier
};
inline const RealPrompt real_prompts[] = {
    {"raw-1", true},   {"raw-2", true},   {"chat-2", false},
    {"chat-1", false}, {"chat-3", false}, {"long", false},
};
inline constexpr uint32_t quick_greedy_tokens = 8;

/// The default model's file, or "" after saying why the test passes empty.
inline std::string real_model_or_message() {
    const std::string path = default_model();
    if (path.empty())
        MESSAGE("skipped: no default model; SCORIA_MODEL=PATH names one, `scoria "
                "pull smollm2` fetches it");
    return path;
}

}  // namespace scoria::test
