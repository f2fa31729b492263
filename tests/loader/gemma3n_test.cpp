// What a Gemma 3n may say in several ways, or wrongly: the model of made_models.jsonl with its fields
// changed.
#include "conversion_source.h"
#include "fail.h"
#include "gguf_builder.h"
#include "gguf_writer.h"
#include "hf_folder.h"
#include "model.h"
#include "model/made_models.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

using namespace scoria;
using namespace scoria::test;

namespace {

HfFolder made_gemma3n() { return made_model("gemma3n_text").folder; }

Architecture opened_architecture(const HfFolder& folder) {
    const TemporaryFolder temporary(folder);
    return open_model(temporary.path()).architecture;
}

}  // namespace

TEST_CASE("Gemma 3n: what its layers cut, and whose keys they read") {
    HfFolder folder = made_gemma3n();
    Architecture a = opened_architecture(folder);
    CHECK(a.alternating == Alternating{3, 12, true});
    CHECK(a.stream_width() == 3 * 48);
    // statistics.NormalDist().inv_cdf of 0.9, 0.6, 0.2 and 0.95
    const float cuts[] = {1.2815516f, 0.25334710f, -0.84162123f, -HUGE_VALF,
                          1.6448536f, -HUGE_VALF,  -HUGE_VALF};
    const int32_t of[] = {-1, -1, -1, -1, 2, 3, 2};
    for (size_t i = 0; i < 7; ++i) {
        CAPTURE(i);
        const Layer& layer = a.layers[i];
        CHECK(layer.feed_forward.cuts_gate() == (cuts[i] != -HUGE_VALF));
        if (layer.feed_forward.cuts_gate())
            CHECK(double{layer.feed_forward.gate_cut} == doctest::Approx(double{cuts[i]}).epsilon(1e-6));
        CHECK(layer.attention.kv_layer == of[i]);
    }
    folder.config.erase("activation_sparsity_pattern");  // then of the first ten, where there are more
    for (const Layer& layer : opened_architecture(folder).layers) CHECK_FALSE(layer.feed_forward.cuts_gate());
}

TEST_CASE("Gemma 3n: the texts of a model that sees and hears") {
    HfFolder folder = made_gemma3n();
    const Architecture expected = opened_architecture(folder);
    nlohmann::json text = folder.config;
    for (const char* field : {"vision_config", "audio_config"}) folder.config[field] = {{"hidden_size", 8}};
    folder.config["model_type"] = "gemma3n";
    folder.config["text_config"] = std::move(text);
    folder.add("model.vision_tower.weight", {3});
    CHECK(opened_architecture(folder) == expected);
}

TEST_CASE("Gemma 3n: tokens past the table of layers have its first row, in GGUF too") {
    const TemporaryFolder folder(made_gemma3n());
    const auto source = open_conversion_source(folder.path());
    const auto table =
        std::ranges::find(source->tensors(), "per_layer_token_embd.weight", &ConversionSource::Tensor::name);
    REQUIRE(table != source->tensors().end());
    CHECK(table->rows() == 64);
    std::vector<float> values(64 * 56);
    source->read_rows(size_t(table - source->tensors().begin()), 0,
                      std::as_writable_bytes(std::span(values)));
    const auto row = [&](size_t i) {
        return std::vector(values.begin() + long(i) * 56, values.begin() + long(i + 1) * 56);
    };
    for (size_t i = 60; i < 64; ++i) CHECK(row(i) == row(0));
    CHECK(row(59) != row(0));
}

TEST_CASE("Gemma 3n: GGUF as its first converters wrote it") {
    const TemporaryFolder folder(made_gemma3n());
    const auto source = open_conversion_source(folder.path());
    GgufWriter writer;
    source->metadata(writer);
    writer.set("gemma3n.attention.shared_kv_layers", 3.0f);
    writer.remove("gemma3n.final_logit_softcapping");
    writer.remove("gemma3n.activation_sparsity_scale");
    std::string data;
    for (size_t i = 0; i < source->tensors().size(); ++i) {
        const ConversionSource::Tensor& tensor = source->tensors()[i];
        data.resize((data.size() + 31) / 32 * 32);
        data.resize(data.size() + 4 * tensor.cols() * tensor.rows());
        writer.add(tensor.name, tensor.dimensions, TensorType::f32);
    }
    const std::vector<std::byte> header = writer.header(32);
    const TemporaryFile file(std::string(reinterpret_cast<const char*>(header.data()), header.size()) + data);
    Architecture expected = opened_architecture(made_gemma3n());
    expected.family = "gemma3n";
    expected.logit_soft_cap = 30;
    for (Layer& layer : expected.layers)
        layer.feed_forward.gate_cut = 1.6448533535003662f;  // in the first ten
    CHECK(open_model(file.path()).architecture == expected);
}

TEST_CASE("Gemma 3n: what no build can run says which field") {
    using json = nlohmann::json;
    const std::pair<std::function<void(HfFolder&)>, const char*> cases[] = {
        {[](HfFolder& f) { f.config["altup_active_idx"] = 1; }, "altup_active_idx: expected 0, got 1"},
        {[](HfFolder& f) { f.config["altup_num_inputs"] = 1; }, "altup_num_inputs: expected 2 to 16, got 1"},
        {[](HfFolder& f) { f.config["altup_num_inputs"] = 17; },
         "altup_num_inputs: expected 2 to 16, got 17"},
        {[](HfFolder& f) { f.config["altup_num_inputs"] = 4; }, "altup_projections.2.weight is missing"},
        {[](HfFolder& f) { f.config["laurel_rank"] = 11; },
         "laurel.linear_left.weight: expected [11, 48], got [12, 48]"},
        {[](HfFolder& f) { f.config["activation_sparsity_pattern"][0] = 1; },
         "activation_sparsity_pattern: expected shares below 1"},
        {[](HfFolder& f) { f.config["activation_sparsity_pattern"] = json(8, 0.5); },
         "activation_sparsity_pattern: expected at most 7 numbers"},
        {[](HfFolder& f) { f.config["vocab_size_per_layer_input"] = 50; },
         "vocab_size_per_layer_input: expected 60, the rows of the table, got 50"},
        {[](HfFolder& f) { f.config["vocab_size_per_layer_input"] = 65; },
         "vocab_size_per_layer_input: expected 1 to 64, got 65"},
        {[](HfFolder& f) { f.add("model.embed_tokens_per_layer.weight", {}); },
         "embed_tokens_per_layer.weight: expected [1, 56], got []"},
    };
    for (const auto& [damage, expected] : cases) {
        CAPTURE(std::string(expected));
        HfFolder folder = made_gemma3n();
        damage(folder);
        const std::string error = refusal_of(folder);
        CAPTURE(error);
        CHECK(error.find(expected) != std::string::npos);
    }
}

TEST_CASE("Gemma 3n: GGUF has no word for streams without a scale") {
    HfFolder folder = made_gemma3n();
    folder.config["altup_correct_scale"] = false;
    for (int layer = 0; layer < 7; ++layer)
        folder.tensors.erase(cat("model.layers.", layer, ".altup.correct_output_scale"));
    const TemporaryFolder temporary(folder);
    CHECK_FALSE(open_model(temporary.path()).architecture.alternating.scaled);
    GgufWriter writer;
    CHECK_THROWS_AS(open_conversion_source(temporary.path())->metadata(writer), Error);
}
