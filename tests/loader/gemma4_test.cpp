// What a Gemma 4 may say in several ways, or wrongly: the models of made_models.jsonl with their fields
// changed.
#include "conversion_source.h"
#include "fail.h"
#include "file.h"
#include "gguf_builder.h"
#include "gguf_writer.h"
#include "hf_folder.h"
#include "model.h"
#include "model/made_models.h"
#include "weight_check.h"

#include <doctest/doctest.h>

#include <functional>

using namespace scoria;
using namespace scoria::test;

namespace {

HfFolder made_folder(const std::string& name) { return made_model(name).folder; }

Architecture architecture_of(const HfFolder& folder) {
    const TemporaryFolder temporary(folder);
    return open_model(temporary.path()).architecture;
}

}  // namespace

TEST_CASE("sizes of heads by layer, or of all layers without a window") {
    HfFolder folder = made_folder("gemma4_text");
    const Architecture expected = architecture_of(folder);
    CHECK(expected.layers[2].attention.head_dim == 32);
    CHECK(expected.layers[2].attention.kv_heads == 1);
    folder.config.erase("per_layer_config");
    folder.config["global_head_dim"] = 32;
    folder.config["num_global_key_value_heads"] = 1;
    CHECK(architecture_of(folder) == expected);
    folder.config["attention_k_eq_v"] = false;  // the number of heads counts beside this alone
    CHECK(refusal_of(folder).find("self_attn.k_proj.weight: expected [64, 48], got [32, 48]") !=
          std::string::npos);
}

TEST_CASE("pairs that do not turn have the frequency 0, from GGUF's divisors too") {
    const TemporaryFolder folder(made_folder("gemma4_text"));
    const std::vector<Rope> ropes = open_model(folder.path()).architecture.ropes;
    REQUIRE(ropes.size() == 2);
    CHECK(ropes[0].width == 32);
    for (size_t i = 0; i < 16; ++i) {
        const double turning = std::pow(1e4, -2.0 * double(i) / 32);
        CHECK(ropes[0].inverse_frequencies[i] == doctest::Approx(i < 4 ? turning : 0).epsilon(1e-12));
    }
    const auto source = open_conversion_source(folder.path());
    const auto divisors =
        std::ranges::find(source->tensors(), "rope_freqs.weight", &ConversionSource::Tensor::name);
    REQUIRE(divisors != source->tensors().end());
    std::vector<float> values(16);
    source->read_rows(size_t(divisors - source->tensors().begin()), 0,
                      std::as_writable_bytes(std::span(values)));
    for (size_t i = 0; i < 16; ++i) CHECK(values[i] == (i < 4 ? 1.0f : 1e30f));
}

TEST_CASE("layers that read another's keys: what would make theirs is spare") {
    HfFolder folder = made_folder("gemma4_text");
    const Architecture expected = architecture_of(folder);
    const int32_t of[] = {-1, -1, -1, -1, 2, 3, 2};
    for (size_t i = 0; i < 7; ++i) CHECK(expected.layers[i].attention.kv_layer == of[i]);
    for (const char* const part : {"k_proj", "v_proj", "k_norm"})
        folder.add(cat("model.layers.5.self_attn.", part, ".weight"), {32, 48});
    const TemporaryFolder on_disk(folder);
    const Model model = open_model(on_disk.path());
    CHECK(model.architecture == expected);
    CHECK(model.unused.size() == 3);
    for (const TensorView& unused : model.unused) CHECK(is_spare(model, unused));
    GgufWriter writer;
    CHECK_NOTHROW(open_conversion_source(on_disk.path())->metadata(writer));
}

TEST_CASE("what no Gemma 4 of texts is says which field") {
    using json = nlohmann::json;
    struct Case {
        const char* name;
        std::function<void(HfFolder&)> damage;
        const char* expected;
    };
    const auto set = [](const char* key, json value) {
        return [=](HfFolder& folder) { folder.config[key] = value; };
    };
    const auto size_of = [](const char* layer, json value) {
        return [=](HfFolder& folder) { folder.config["per_layer_config"][layer] = value; };
    };
    const Case cases[] = {
        {"nothing", [](HfFolder&) {}, "no error"},
        {"images alone are seen from both sides", set("use_bidirectional_attention", "vision"), "no error"},
        {"both sides", set("use_bidirectional_attention", "all"),
         "use_bidirectional_attention: expected vision, got all"},
        {"a window at the end",
         [](HfFolder& folder) {
             folder.config["layer_types"][6] = "sliding_attention";
             folder.config["per_layer_config"].erase("6");
         },
         "layer_types: expected full_attention at the end"},
        {"a part of heads by another rule",
         [](HfFolder& folder) {
             folder.config["rope_parameters"]["sliding_attention"]["partial_rotary_factor"] = 0.5;
         },
         "rope_parameters.sliding_attention.partial_rotary_factor: expected 1, as its class rotates whole "
         "heads"},
        {"a table of other tokens", set("vocab_size_per_layer_input", 60),
         "vocab_size_per_layer_input: expected 64, as vocab_size, got 60"},
        {"no layer to share with", set("num_kv_shared_layers", 5),
         "num_kv_shared_layers: expected a layer before them whose keys layer 2 can read, got 5"},
        {"an assistant's, which has no keys of its own", set("num_kv_shared_layers", 7),
         "num_kv_shared_layers: expected a layer before them whose keys layer 0 can read, got 7"},
        {"more shared than there are", set("num_kv_shared_layers", 8),
         "num_kv_shared_layers: expected 0 to 7, got 8"},
        {"heads that do not share", size_of("5", {{"num_key_value_heads", 4}}),
         "whose keys layer 5 can read"},
        {"heads of a third size", size_of("4", {{"head_dim", 24}}),
         "per_layer_config: expected heads of one size"},
        {"another override", size_of("4", {{"intermediate_size", 24}}),
         "per_layer_config.4.intermediate_size: this build does not know it"},
        {"a layer that is not there", size_of("7", {{"head_dim", 24}}), "per_layer_config.7: this build"},
        {"experts without a number", set("enable_moe_block", true), "num_experts is missing"},
        {"narrow where it is wide", set("use_double_wide_mlp", false),
         "model.layers.4.mlp.gate_proj.weight: expected [56, 48], got [112, 48]"},
        {"v that is k but need not be",
         [](HfFolder& folder) { folder.tensors.erase("model.layers.0.self_attn.v_proj.weight"); },
         "model.layers.0.self_attn.v_proj.weight is missing"},
        {"two scales", [](HfFolder& folder) { folder.add("model.layers.3.layer_scalar", {2}); },
         "layers.3.layer_scalar: expected one finite number, got [2]"},
        {"an endless scale",
         [](HfFolder& folder) { folder.add("model.layers.3.layer_scalar", {1}, HUGE_VALF); },
         "layers.3.layer_scalar: expected one finite number, got inf"},
        {"no scale", [](HfFolder& folder) { folder.tensors.erase("model.layers.3.layer_scalar"); },
         "no error"},
    };
    for (const Case& c : cases) {
        CAPTURE(std::string(c.name));
        HfFolder folder = made_folder("gemma4_text");
        c.damage(folder);
        const std::string error = refusal_of(folder);
        CAPTURE(error);
        CHECK(error.find(c.expected) != std::string::npos);
    }
}

TEST_CASE("GGUF may have the experts' gates and ups in one tensor") {
    const HfFolder folder = made_folder("gemma4_text-experts");
    const TemporaryFolder on_disk(folder);
    const auto source = open_conversion_source(on_disk.path());
    GgufWriter writer;
    source->metadata(writer);
    std::string data;
    for (size_t i = 0; i < source->tensors().size(); ++i) {
        const ConversionSource::Tensor& tensor = source->tensors()[i];
        std::string name = tensor.name;
        std::vector<uint64_t> dimensions = tensor.dimensions;
        std::string bytes(4 * tensor.cols() * tensor.rows(), '\0');
        source->read_rows(i, 0, std::as_writable_bytes(std::span(bytes)));
        if (name.find("ffn_up_exps") != name.npos) continue;
        if (const size_t at = name.find("ffn_gate_exps"); at != name.npos) {
            name.replace(at, 13, "ffn_gate_up_exps");
            dimensions[1] *= 2;
            bytes = folder.tensors.at(cat("model.layers.", name[4], ".experts.gate_up_proj")).bytes;
        }
        data.resize((data.size() + 31) / 32 * 32);
        data += bytes;
        writer.add(name, dimensions, TensorType::f32);
    }
    const std::vector<std::byte> header = writer.header(32);
    const TemporaryFile file(std::string(reinterpret_cast<const char*>(header.data()), header.size()) + data);
    const Model gguf = open_model(file.path()), original = open_model(on_disk.path());
    CHECK(gguf.unused.empty());
    check_weights(gguf);
    for (const auto& each : original.weights) {
        CAPTURE(role_name(each.first.role));
        CHECK(floats_of(gguf, each.first) == floats_of(original, each.first));
    }
}

TEST_CASE("there are experts where the switch is on") {
    HfFolder folder = made_folder("gemma4_text-experts");
    CHECK(architecture_of(folder).layers[0].feed_forward.routing.apart);
    folder.config["enable_moe_block"] = false;
    CHECK(refusal_of(folder).find("has no use for model.layers.0.experts.down_proj") != std::string::npos);
    for (const char* const part : {"experts", "router", "_layernorm_1", "_layernorm_2"}) folder.drop(part);
    const Architecture architecture = architecture_of(folder);
    CHECK(architecture.layers[0].feed_forward.routing.experts == 0);
    CHECK(architecture.layers[0].feed_forward.size == 56);
}
