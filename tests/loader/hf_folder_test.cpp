// Hugging Face folders: every decoder fixture under both forms of config.json, and folders that lie.
#include "fail.h"
#include "model.h"
#include "test_env.h"
#include "weight_check.h"

#include <doctest/doctest.h>

using namespace scoria;
using namespace scoria::test;

TEST_CASE("decoder fixtures open alike from both forms of config" * needs_fixtures()) {
    const char* names[] = {
        "llama1",
        "llama2",
        "llama3",
        "llama3.2-tied",
        "llama-linear-scaling",
        "llama-yarn",
        "yi",
        "smollm2",
        "mistral",
        "llama-dynamic-ntk",
        "qwen2",
        "qwen2.5-tied",
        "qwen3",
        "smollm3",
        "deepseek-67b",
        "granite",
        "softmax1",
        "phi3",
        "phi3-longrope",
        "phi4",
        "hunyuan-dense",
        "gpt1",
        "gpt2",
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
        "gpt3",
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
    };
    for (const char* name : names) {
        CAPTURE(name);
        const std::string folder = fixtures() + "/models/" + name;
        const Model model = open_model(folder);
        CHECK(model.name == name);
        CHECK(model.unused.empty());
        check_weights(model);
        const std::string legacy = folder + "/config.legacy.json";
        if (!std::filesystem::exists(legacy)) continue;
        CHECK(open_model(legacy).architecture == model.architecture);
    }
}
