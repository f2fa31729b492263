// Hugging Face folders: every decoder fixture under both forms of config.json, and folders that lie.
#include "fail.h"
#include "model.h"
#include "role_shapes.h"
#include "test_env.h"

#include <doctest/doctest.h>

using namespace scoria;
using namespace scoria::test;

namespace {

/// Each weight that the architecture has is there, in its shape, and can be read to its end.
void check_weights(const Model& model) {
    size_t wanted = 0;
    for (const RoleRule& rule : role_rules()) {
        const size_t count = rule.of_layer ? model.architecture.layers.size() : 1;
        for (size_t i = 0; i < count; ++i) {
            const RoleShape shape = rule.shape(model.architecture, model.architecture.layers[i], i);
            if (shape.rows == 0) continue;
            ++wanted;
            const WeightRef ref{rule.role, rule.of_layer ? static_cast<int32_t>(i) : -1};
            CAPTURE(role_name(ref.role));
            CAPTURE(ref.layer);
            const auto found = model.weights.find(ref);
            REQUIRE(found != model.weights.end());
            CHECK(found->second.rows == shape.rows);
            CHECK(found->second.cols == shape.cols);
            std::vector<std::byte> bytes(found->second.bytes());
            model.tensors->read(found->second, 0, bytes);
        }
    }
    CHECK(model.weights.size() == wanted);
}

}  // namespace

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
