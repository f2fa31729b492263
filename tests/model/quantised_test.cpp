// Whole models of quantised weights: the layout of every type through loading, sharding, concatenation of
// q, k, v, interleaving of gate and up, and embedding look-up, against the reference.
#include "support/device.h"
#include "support/quantised_llama.h"
#include "validate/model_check.h"

#include "fail.h"
#include "loader/hf_builder.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

using namespace scoria;
using namespace scoria::test;

namespace {

void check(const std::filesystem::path& path) {
    const auto model = std::make_shared<const Model>(open_model(path));
    Engine engine(model, engine_options(Precision::strict));
    const std::vector<TokenId> ids{3, 50, 7, 99, 9};
    const validate::ModelCheck result = validate::check_model(engine, ids);
    CHECK(result.passed());
    if (result.first_diverging) {
        const validate::CheckResult& first = result.ops[*result.first_diverging];
        MESSAGE(first.op << " -> " << first.variant << ": NMSE " << first.nmse << ", " << first.detail);
    }
    CHECK(engine.device().validation_errors() == 0);
}
void check(const GgufFile& file) { check(TemporaryFile(file.bytes()).path()); }

/// A llama of 8-bit floats, each of whose blocks of 32 rows and columns has a scale.
HfFolder float8_llama() {
    constexpr uint64_t hidden = 128, kv = 64, size = 192, vocab = 100, block = 32;
    HfFolder folder;
    folder.config = {
        {"model_type", "llama"},
        {"vocab_size", vocab},
        {"hidden_size", hidden},
        {"num_hidden_layers", 1},
        {"num_attention_heads", 4},
        {"num_key_value_heads", 2},
        {"intermediate_size", size},
        {"max_position_embeddings", 64},
        {"rms_norm_eps", 1e-5},
        {"tie_word_embeddings", true},
        {"quantization_config", {{"quant_method", "fp8"}, {"weight_block_size", {block, block}}}}};
    std::mt19937 random(1);
    const auto add = [&](const std::string& name, uint64_t rows, uint64_t cols) {
        HfFolder::Tensor& codes = folder.tensors[name] = {"F8_E4M3", {rows, cols}, {}};
        for (uint64_t i = 0; i < rows * cols; ++i) codes.bytes += char(random() % 127 | (random() & 128));
        HfFolder::Tensor& scales =
            folder.tensors[name + "_scale_inv"] = {"F32", {rows / block, cols / block}, {}};
        for (uint64_t i = 0; i < rows / block * (cols / block); ++i) {
            const float scale = 1e-3f * float(1 + random() % 8) / std::sqrt(float(cols));
            scales.bytes.append(reinterpret_cast<const char*>(&scale), sizeof scale);
        }
    };
    folder.add("model.embed_tokens.weight", {vocab, hidden}, -6400);
    folder.add("model.norm.weight", {hidden}, 1);
    const std::string layer = "model.layers.0.";
    for (const char* norm : {"input_layernorm.weight", "post_attention_layernorm.weight"})
        folder.add(layer + norm, {hidden}, 1);
    add(layer + "self_attn.q_proj.weight", hidden, hidden);
    add(layer + "self_attn.k_proj.weight", kv, hidden);
    add(layer + "self_attn.v_proj.weight", kv, hidden);
    add(layer + "self_attn.o_proj.weight", hidden, hidden);
    add(layer + "mlp.gate_proj.weight", size, hidden);
    add(layer + "mlp.up_proj.weight", size, hidden);
    add(layer + "mlp.down_proj.weight", hidden, size);
    return folder;
}

}  // namespace

TEST_CASE("vulkan: models of quantised weights agree with the reference" * doctest::skip(floor_tier())) {
    using enum TensorType;
    SUBCASE("mixes as files have them") { check(mixed_llama()); }
    SUBCASE("8-bit floats as folders have them") { check(TemporaryFolder(float8_llama()).path()); }
    SUBCASE("a layer of every type") {
        if (!deep()) return;  // 28 pipelines
        std::vector<Mix> mixes;
        for (const TensorTypeInfo& info : gguf_types()) mixes.push_back(all_of(info.type));
        check(quantised_llama(mixes, mxfp4, iq4_xs));
    }
}
