// GGUF's architectures that no folder of the tests becomes: tiny files whose weights are made of their
// tensors' names, with the logits that llama.cpp computes of them (made_ggufs.py, which made
// made_ggufs.jsonl), or NumPy in float64 (made_plamo2.py, made_grok.py, made_rwkv.py).
#include "made_gguf.h"
#include "reference/executor.h"
#include "support/device.h"
#include "support/golden.h"

using namespace scoria;
using namespace scoria::test;

namespace {

/// llama.cpp computes in float32, and reads GELU from a table of half floats.
constexpr double single = 5e-5, half_table = 2e-3;

double allowed(const Model& model) {
    const Activation activation = model.architecture.layers.front().feed_forward.activation;
    return activation == Activation::gelu_tanh || activation == Activation::gelu ? half_table : single;
}

}  // namespace

TEST_CASE("reference: architectures of GGUF have the logits of llama.cpp") {
    const std::vector<MadeGguf> all = made_ggufs();
    CHECK(all.size() == 29);
    for (const MadeGguf& made : all) {
        CAPTURE(made.name);
        const TemporaryFile file(made.file.bytes());
        const Model model = open_model(file.path());
        CHECK(model.unused.empty());
        reference::Executor executor(model);
        CHECK(largest_error(made.logits, executor.forward(made.ids).logits) <= allowed(model));
    }
}

TEST_CASE("vulkan: architectures of GGUF have the logits of llama.cpp" *
          doctest::skip(few_models() || floor_tier())) {
    for (const MadeGguf& made : made_ggufs()) {
        CAPTURE(made.name);
        const TemporaryFile file(made.file.bytes());
        const auto model = std::make_shared<const Model>(open_model(file.path()));
        Engine engine(model, engine_options(Precision::strict));
        CHECK(largest_error(made.logits, Session(engine).forward(made.ids, false).logits) <=
              allowed(*model) + strict_error);
        Session steps(engine);
        for (const TokenId& id : made.ids) steps.append(std::span(&id, 1));
        CHECK(largest_error(made.logits.rbegin()->second, steps.logits()) <= allowed(*model) + strict_error);
        CHECK(engine.device().validation_errors() == 0);
    }
}

TEST_CASE("reference: weights of what a layer of a GGUF file has none of are refused") {
    struct Case {
        const char* key;
        std::vector<int32_t> values;
        const char* message;
    };
    const Case cases[] = {
        {"deci.attention.head_count_kv", {0, 0, 0, 1, 4}, "layer 0 has none, but tensor blk.0.attn_output"},
        {"deci.attention.head_count", {4, 0, 0, 0, 4}, "layer 3 has none, but tensor blk.3.attn_output"},
        {"deci.feed_forward_length", {96, 0, 0, 48, 128}, "layer 1 has none, but tensor blk.1.ffn_down"},
        {"deci.attention.head_count_kv", {2, 0, 0, 3, 4}, "head_count_kv: expected a divisor of 4"},
        {"deci.feed_forward_length", {96, 64, 8, 48, 128}, "blk.2.ffn_norm.weight is missing"},
    };
    for (MadeGguf& made : made_ggufs()) {
        if (made.name != "deci") continue;
        for (const Case& c : cases) {
            CAPTURE(c.message);
            GgufFile file = made.file;
            file.metadata[c.key] = c.values;
            const TemporaryFile changed(file.bytes());
            CHECK_THROWS_WITH_AS(open_model(changed.path()), doctest::Contains(c.message), Error);
        }
    }
}

TEST_CASE("reference: clamps of a GGUF file that are no limits of its layers are refused") {
    const std::pair<std::vector<float>, const char*> cases[] = {
        {{1, 1}, "maple.swiglu_clamp_exp: expected 3 numbers, got 2"},
        {{1, -1, 1}, "maple.swiglu_clamp_exp: expected numbers of 0 or more"},
        {{}, "maple.swiglu_clamp_exp: expected a value"},
    };
    for (MadeGguf& made : made_ggufs()) {
        if (made.name != "maple") continue;
        for (const auto& [limits, message] : cases) {
            CAPTURE(message);
            GgufFile file = made.file;
            file.metadata.erase("maple.swiglu_clamp_exp");
            if (!limits.empty()) file.metadata["maple.swiglu_clamp_exp"] = limits;
            const TemporaryFile changed(file.bytes());
            CHECK_THROWS_WITH_AS(open_model(changed.path()), doctest::Contains(message), Error);
        }
    }
}
