// Whole models of quantised weights: the layout of every type through loading, sharding, concatenation of
// q, k, v, interleaving of gate and up, and embedding look-up, against the reference.
#include "loader/gguf_builder.h"
#include "support/device.h"
#include "validate/model_check.h"
#include "validate/weight_check.h"

#include "fail.h"

#include <doctest/doctest.h>

using namespace scoria;
using namespace scoria::test;

namespace {

/// Types of a layer's matrices.
struct Mix {
    TensorType q, k, v, o, gate, up, down;
};
Mix all_of(TensorType type) { return {type, type, type, type, type, type, type}; }

void add_random(GgufFile& file, const std::string& name, TensorType type, uint32_t rows, uint32_t cols) {
    const std::vector<std::byte> blocks = validate::random_blocks(type, rows, cols, file.tensors.size());
    file.tensors[name] = {{cols, rows},
                          static_cast<uint32_t>(type),
                          std::string(reinterpret_cast<const char*>(blocks.data()), blocks.size())};
}

/// A llama of hidden 256 with a layer per mix.
GgufFile quantised_llama(std::span<const Mix> mixes, TensorType embedding, TensorType output) {
    constexpr uint32_t hidden = 256, kv = 128, size = 512, vocab = 100;
    GgufFile file;
    file.metadata = {
        {"general.architecture", "llama"},     {"llama.block_count", static_cast<uint32_t>(mixes.size())},
        {"llama.context_length", 64u},         {"llama.embedding_length", hidden},
        {"llama.feed_forward_length", size},   {"llama.attention.head_count", 4u},
        {"llama.attention.head_count_kv", 2u}, {"llama.attention.layer_norm_rms_epsilon", 1e-5f},
        {"llama.rope.freq_base", 10000.0f},
    };
    add_random(file, "token_embd.weight", embedding, vocab, hidden);
    add_random(file, "output.weight", output, vocab, hidden);
    file.add("output_norm.weight", {hidden}, 1.0f);
    for (size_t i = 0; i < mixes.size(); ++i) {
        const Mix& mix = mixes[i];
        const std::string layer = cat("blk.", i, ".");
        for (const char* norm : {"attn_norm.weight", "ffn_norm.weight"})
            file.add(layer + norm, {hidden}, 1.0f);
        add_random(file, layer + "attn_q.weight", mix.q, hidden, hidden);
        add_random(file, layer + "attn_k.weight", mix.k, kv, hidden);
        add_random(file, layer + "attn_v.weight", mix.v, kv, hidden);
        add_random(file, layer + "attn_output.weight", mix.o, hidden, hidden);
        add_random(file, layer + "ffn_gate.weight", mix.gate, size, hidden);
        add_random(file, layer + "ffn_up.weight", mix.up, size, hidden);
        add_random(file, layer + "ffn_down.weight", mix.down, hidden, size);
    }
    return file;
}

void check(const GgufFile& file) {
    const TemporaryFile on_disk(file.bytes());
    const auto model = std::make_shared<const Model>(open_model(on_disk.path()));
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

}  // namespace

TEST_CASE("vulkan: models of quantised weights agree with the reference" * doctest::skip(floor_tier())) {
    using enum TensorType;
    SUBCASE("mixes as files have them") {
        const Mix mixes[] = {{q4_k, q4_k, q6_k, q4_k, q4_k, q4_k, q6_k},
                             {iq2_xxs, iq2_xxs, q4_k, iq2_s, iq2_xxs, iq2_xxs, q2_k}};
        check(quantised_llama(mixes, q6_k, q4_k));
    }
    SUBCASE("a layer of every type") {
        if (!deep()) return;  // 28 pipelines
        std::vector<Mix> mixes;
        for (const TensorTypeInfo& info : tensor_types()) mixes.push_back(all_of(info.type));
        check(quantised_llama(mixes, mxfp4, iq4_xs));
    }
}
