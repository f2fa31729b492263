// Hugging Face folders: every decoder fixture under both forms of config.json, and folders that lie.
#include "embedding_texts.h"
#include "fail.h"
#include "file.h"
#include "hf_builder.h"
#include "hf_folder.h"
#include "log.h"
#include "model.h"
#include "model/made_models.h"
#include "support/families.h"
#include "test_env.h"
#include "weight_check.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <set>

using namespace scoria;
using namespace scoria::test;

TEST_CASE("decoder fixtures open alike from both forms of config" * needs_fixtures()) {
    for (const char* name : decoder_fixtures) {
        CAPTURE(name);
        const std::string folder = fixtures() + "/models/" + name;
        const Model model = open_model(folder);
        CHECK(model.name == name);
        for (const TensorView& unused : model.unused)  // which the reference of Reformer does not add either
            CHECK(unused.name == "lm_head.bias");
        check_weights(model);
        const std::string legacy = folder + "/config.legacy.json";
        if (!std::filesystem::exists(legacy)) continue;
        CHECK(open_model(legacy).architecture == model.architecture);
    }
}

namespace {

/// Two shards and their index.
void split(HfFolder& folder) {
    std::map<std::string, HfFolder::Tensor> first, second;
    nlohmann::json map;
    for (const auto& [name, tensor] : folder.tensors) {
        const bool early = first.size() < 5;
        (early ? first : second)[name] = tensor;
        map[name] = early ? "a.safetensors" : "b.safetensors";
    }
    folder.files["a.safetensors"] = safetensors_bytes(first);
    folder.files["b.safetensors"] = safetensors_bytes(second);
    folder.files["model.safetensors.index.json"] = nlohmann::json{{"weight_map", map}}.dump();
}

void change_index(HfFolder& folder, const std::function<void(nlohmann::json& map)>& change) {
    split(folder);
    std::string& text = folder.files["model.safetensors.index.json"];
    nlohmann::json index = nlohmann::json::parse(text);
    change(index["weight_map"]);
    text = index.dump();
}

}  // namespace

TEST_CASE("a folder that lies is refused, and says where") {
    struct Case {
        const char* name;
        std::function<void(HfFolder&)> damage;
        const char* expected;  // part of the message; "": it opens
    };
    const auto set = [](const char* key, nlohmann::json value) {
        return [=](HfFolder& folder) { folder.config[key] = value; };
    };
    const auto erase = [](const char* key) { return [=](HfFolder& folder) { folder.config.erase(key); }; };
    const auto scaling = [](nlohmann::json value) {
        return [=](HfFolder& folder) { folder.config["rope_scaling"] = value; };
    };
    const std::string up = "model.layers.0.mlp.up_proj.weight";
    const Case cases[] = {
        {"nothing", [](HfFolder&) {}, ""},
        {"no JSON", [](HfFolder& folder) { folder.files["config.json"] = "{"; }, "[config.json]"},
        {"no family", erase("model_type"), "model_type is missing"},
        {"unknown family", set("model_type", "mistrall"), "got mistrall (nearest: mistral)"},
        {"size missing", erase("hidden_size"), "[config.json] hidden_size is missing"},
        {"size of another type", set("hidden_size", "8"), "hidden_size: expected an integer, got a string"},
        {"negative size", set("vocab_size", -1), "vocab_size: expected 1 to"},
        {"size 0", set("num_hidden_layers", 0), "num_hidden_layers: expected 1 to 4096, got 0"},
        {"heads do not divide", set("num_attention_heads", 3),
         "num_attention_heads: expected a divisor of 8"},
        {"kv heads do not divide", set("num_key_value_heads", 3), "expected a divisor of 2 heads, got 3"},
        {"epsilon", set("rms_norm_eps", 0.0), "rms_norm_eps: expected a finite number above 0"},
        {"epsilon that is 0 as a float", set("rms_norm_eps", 1e-60), "expected a finite number above 0"},
        {"epsilon beyond floats", set("rms_norm_eps", 1e60), "expected a finite number above 0, got 1e+60"},
        {"vocabulary and table", set("vocab_size", 17),
         "tensor model.embed_tokens.weight: expected [17, 8], got [16, 8]"},
        {"layers and tensors", set("num_hidden_layers", 2),
         "tensor model.layers.1.input_layernorm.weight is missing"},
        {"bias promised", set("attention_bias", true),
         "tensor model.layers.0.self_attn.q_proj.bias is missing"},
        {"output promised", set("tie_word_embeddings", false), "tensor lm_head.weight is missing"},
        {"ties left out", erase("tie_word_embeddings"), ""},
        {"activation", set("hidden_act", "mish"), "hidden_act: expected one of silu"},
        {"quantised", set("quantization_config", {{"quant_method", "hqq"}}), "bitsandbytes, bitnet, got hqq"},
        {"unknown field", set("sparkle", 3), "[config.json] sparkle: this build does not know it"},
        {"unknown field that is off", set("sparkle", false), ""},
        {"usual value", set("mlp_type", "default"), ""},
        {"unusual value", set("mlp_type", "sparse"), "mlp_type: this build does not know it"},
        {"scaling unknown", scaling({{"rope_type", "spiral"}, {"factor", 2}}),
         "rope_scaling.rope_type: expected one of default, linear"},
        {"scaling without factor", scaling({{"type", "linear"}}), "rope_scaling.factor is missing"},
        {"scaling with more", scaling({{"type", "linear"}, {"factor", 2.0}, {"twist", 1}}),
         "rope_scaling.twist: this build does not know it"},
        {"rotary width",
         [](HfFolder& folder) {
             folder.config["model_type"] = "phi3";
             folder.config["partial_rotary_factor"] = 0.75;
         },
         "rotary width: expected an even number above 0, got 3"},
        {"a share that turns", set("partial_rotary_factor", 0.5),
         "partial_rotary_factor: expected 1, as its class rotates whole heads, got 0.5"},
        {"a width that turns", set("rotary_dim", 2), "rotary_dim: expected 4, got 2"},
        {"pairs that turn", set("rope_interleave", true), "rope_interleave: expected none, or false"},
        {"layers that do not turn", set("no_rope_layers", {0}), "no_rope_layers: expected 1 in every place"},
        {"two activations", set("hidden_activation", "relu"),
         "hidden_act: expected the value of hidden_activation"},
        {"two depths", set("n_layer", 2), "n_layer: expected the value of num_hidden_layers, got 2"},
        {"divisors of another width",
         scaling({{"type", "longrope"}, {"long_factor", {1.0}}, {"short_factor", {1.0, 1.0}}}),
         "rotary factors: expected 2 numbers, got 1"},
        {"types of layers", set("layer_types", {"full_attention", "full_attention"}),
         "layer_types: expected 1 types, got 2"},
        {"type of a layer", set("layer_types", {"diagonal_attention"}),
         "layer_types: expected sliding_attention or full_attention, got diagonal_attention"},
        {"window without size", set("layer_types", {"sliding_attention"}), "layer 0 has a window"},
        {"tensor missing", [&](HfFolder& folder) { folder.tensors.erase(up); },
         "tensor model.layers.0.mlp.up_proj.weight is missing"},
        {"tensor misshapen",
         [&](HfFolder& folder) {
             folder.add(up, {8, 12});
         },
         "up_proj.weight: expected [12, 8], got [8, 12]"},
        {"vector misshapen",
         [](HfFolder& folder) {
             folder.add("model.norm.weight", {2, 4});
         },
         "model.norm.weight: expected [8], got [2, 4]"},
        {"two of one name", [](HfFolder& folder) { folder.add("language_model.model.norm.weight", {8}); },
         "tensors language_model.model.norm.weight and model.norm.weight: expected one of them, as both are "
         "model.norm.weight"},
        {"no weights", [](HfFolder& folder) { folder.files["pytorch_model.safetensors.txt"] = ""; },
         "expected model.safetensors or model.safetensors.index.json, got neither"},
        {"shards", split, ""},
        {"shard missing",
         [](HfFolder& folder) {
             split(folder);
             folder.files.erase("b.safetensors");
         },
         "shard b.safetensors is missing"},
        {"shard elsewhere",
         [&](HfFolder& folder) { change_index(folder, [&](auto& map) { map[up] = "../b.safetensors"; }); },
         "expected the name of a file in this folder, got \"../b.safetensors\""},
        {"index names another shard",
         [&](HfFolder& folder) { change_index(folder, [&](auto& map) { map[up] = "b.safetensors"; }); },
         "a.safetensors holds model.layers.0.mlp.up_proj.weight, and the map does not say so"},
        {"index names what no shard has",
         [](HfFolder& folder) { change_index(folder, [](auto& map) { map["ghost"] = "a.safetensors"; }); },
         "expected ghost in a.safetensors, got a file without it"},
        {"index leaves one out",
         [&](HfFolder& folder) { change_index(folder, [&](auto& map) { map.erase(up); }); },
         "holds model.layers.0.mlp.up_proj.weight, and the map does not say so"},
    };
    for (const Case& c : cases) {
        CAPTURE(c.name);
        HfFolder folder = tiny_hf_llama();
        c.damage(folder);
        const std::string error = refusal_of(folder);
        if (*c.expected == 0)
            CHECK(error == "no error");
        else
            CHECK_MESSAGE(error.find(c.expected) != error.npos, error);
    }
}

TEST_CASE("shards read as one file, and what no role claims is listed") {
    HfFolder folder = tiny_hf_llama();
    folder.add("model.layers.0.self_attn.rotary_emb.inv_freq", {2});
    const TemporaryFolder whole(folder);
    split(folder);
    const TemporaryFolder shards(folder);
    const Model one = open_model(whole.path()), two = open_model(shards.path());
    CHECK(one.architecture == two.architecture);
    const Model mapped = open_model(shards.path(), Reads::mapped);
    for (const auto& [ref, view] : one.weights) {
        CHECK(floats_of(one, ref) == floats_of(two, ref));
        CHECK(floats_of(one, ref) == floats_of(mapped, ref));
    }
    REQUIRE(two.unused.size() == 1);
    CHECK(two.unused[0].name == "model.layers.0.self_attn.rotary_emb.inv_freq");
    CHECK(two.tokenizer == nullptr);
    CHECK(two.tokenizer_problem == "the folder has no tokenizer");
}

TEST_CASE("weights that nothing computes with are named, what is spare is not") {
    std::string logged;
    set_log([&](std::string_view line) { logged += line; });
    HfFolder folder = tiny_hf_llama();
    folder.add("model.layers.0.self_attn.rotary_emb.inv_freq", {2});
    folder.add("mtp.fc.weight", {2});        // guesses further tokens
    folder.add("pooler.dense.weight", {2});  // tells texts apart
    open_model(TemporaryFolder(folder).path());
    CHECK(logged == "");
    HfFolder sees = folder;  // and so has parts that are not read
    sees.config["vision_config"] = nlohmann::json::object();
    sees.config["model_type"] = "qwen2_vl";
    for (const char* const bias : {"q", "k", "v"})
        sees.add(cat("model.layers.0.self_attn.", bias, "_proj.bias"), {*bias == 'q' ? 8u : 4u});
    for (HfFolder* each : {&sees, &folder}) each->add("aligner.weight", {2});
    open_model(TemporaryFolder(sees).path());
    CHECK(logged == "");
    open_model(TemporaryFolder(folder).path());
    CHECK_MESSAGE(logged.find("nothing computes with: 1 (aligner.weight)") != logged.npos, logged);
    folder.tensors.erase("aligner.weight");
    for (const char* const name : {"head.0", "head.1", "model.layers.1.q_proj", "tail"})
        folder.add(cat(name, ".weight"), {4});
    open_model(TemporaryFolder(folder).path());
    set_log(nullptr);
    const char* const text = "nothing computes with: 4 (head.0.weight, head.1.weight, "
                             "model.layers.1.q_proj.weight, ...)";
    CHECK_MESSAGE(logged.find(text) != logged.npos, logged);
}

TEST_CASE("weights among a layer's that nothing computes with are refused") {
    for (const char* const name : {"self_attn.q_norm.weight", "mlp.experts.3.up_proj.weight"}) {
        HfFolder folder = tiny_hf_llama();
        folder.add(cat("model.layers.0.", name), {4});
        CHECK(refusal_of(folder).find(cat("llama has no use for model.layers.0.", name)) !=
              std::string::npos);
    }
}

TEST_CASE("factors and limits that no float holds, and what else is not computed, are refused") {
    struct Case {
        const char *model, *patch, *refusal;
    };
    const Case cases[] = {
        {"step3p7", R"({"text_config": {"swiglu_limits": [1, 2, 1e300, 3]}})",
         "swiglu_limits: expected numbers of 0 or more"},
        {"minimax", R"({"full_attn_beta_factor": 1e300})",
         "full_attn_beta_factor: expected a finite number above 0"},
        {"minimax", R"({"mlp_alpha_factor": 1e-300})", "mlp_alpha_factor: expected a finite number above 0"},
        {"falcon_h1", R"({"mlp_multipliers": [1e300, 1]})",
         "mlp_multipliers: expected 2 numbers that floats hold"},
        {"falcon_h1", R"({"hidden_act": "gelu"})", "hidden_act: expected silu, got gelu"},
        {"qwen3_next", R"({"hidden_act": "gelu"})", "hidden_act: expected silu, got gelu"},
        {"kimi_linear", R"({"hidden_act": "gelu"})", "hidden_act: expected silu, got gelu"},
        {"bailing_hybrid", R"({"hidden_act": "gelu"})", "hidden_act: expected silu, got gelu"},
        {"codegen", R"({"rotary_dim": null})", "rotary_dim: expected how many elements"},
        {"ministral3", R"({"sliding_window": 7, "layer_types": ["sliding_attention", "full_attention"]})",
         "layer_types: expected one type, that of sliding_window"},
        {"ernie4_5_moe", R"({"norm_topk_prob": false})", "norm_topk_prob: expected true, got false"},
        {"jamba", R"({"norm_topk_prob": true})", "norm_topk_prob: expected false, got true"},
        {"lfm2_moe", R"({"hidden_act": "gelu"})",
         "hidden_act: expected none, as its class has one of its own"},
        {"granitemoehybrid-experts", R"({"num_local_experts": null})",
         "num_experts: expected how many, or 0"},
        {"mimo_v2_flash", R"({"n_group": 6, "num_experts_per_tok": 2})",
         "num_experts_per_tok: expected no more than the chosen groups hold"},
        {"mimo_v2_flash-as-published",
         R"({"rope_parameters": {"full_attention": {"partial_rotary_factor": null}}})",
         "rope_parameters.full_attention.partial_rotary_factor: expected a share of a head"},
        {"step3p7", R"({"text_config": {"hidden_act": "gelu"}})",
         "hidden_act: expected none, as its class has one of its own"},
        {"hy_v3", R"({"num_shared_experts": 0})", "num_shared_experts: expected 1 to 1024, got 0"},
        {"kimi_linear", R"({"attention_bias": true, "q_lora_rank": null})",
         "self_attn.o_proj.bias is missing"},
        {"lfm3", R"({"is_causal": false})", "is_causal: expected true where layers have a window"},
        {"ernie4_5_moe", R"({"moe_norm_min": 0.5})", "moe_norm_min: expected 1e-12"},
        {"bamba", R"({"partial_rotary_factor": 0.25})", "partial_rotary_factor: expected 0.5, as its class"},
        {"bamba", R"({"attn_rotary_emb": 4})", "attn_rotary_emb: expected 8"},
        {"nemotron_h", R"({"norm_eps": 0.5})", "layer_norm_epsilon: expected the number of norm_eps"},
        {"modernbert-decoder", R"({"layer_norm_eps": 0.5})",
         "layer_norm_eps: expected the number of norm_eps"},
        {"", R"({"model_type": "gpt_neox", "layer_norm_eps": 1e-5, "rotary_pct": 1.0, "rope_theta": 300})",
         "rope_theta: expected the number of rotary_emb_base, 10000, got 300"},
        {"",
         R"({"model_type": "gpt_neo", "layer_norm_epsilon": 1e-5, "layer_types": ["local"], "window_size": 4,
             "attention_types": [[["local"], 1]]})",
         "layer_types: this build cannot honour it"},
    };
    for (const Case& c : cases) {
        CAPTURE(c.patch);
        HfFolder folder = *c.model ? made_model(c.model).folder : tiny_hf_llama();
        folder.config.update(nlohmann::json::parse(c.patch), true);
        const std::string error = refusal_of(folder);
        CHECK_MESSAGE(error.find(c.refusal) != error.npos, error);
    }
}

TEST_CASE("windows and rotations that a config leaves out are those of its class") {
    struct Case {
        const char *model, *left_out;
        uint32_t window;  // the largest of a layer
        double base;      // 0: whatever it is
    };
    const Case cases[] = {
        {"mistral", "", 4096, 0},
        {"ministral3", "", 0, 0},
        {"exaone4", "sliding_window", 4096, 0},
        {"exaone4-whole", "", 0, 0},
        {"olmo3", "sliding_window", 4096, 0},
        {"lfm3", "sliding_window", 256, 0},
        {"vaultgemma", "sliding_window", 4096, 0},
        {"qwen2_5_vl", "rope_parameters", 0, 1e6},
        {"qwen3_vl", "rope_parameters", 0, 5e5},
    };
    for (const Case& c : cases) {
        CAPTURE(c.model);
        HfFolder folder = tiny_hf_llama();
        folder.config["model_type"] = c.model;
        if (c.model != std::string_view("mistral") && c.model != std::string_view("ministral3"))
            folder = made_model(c.model).folder;
        nlohmann::json& config = folder.config;
        (config.contains("text_config") ? config["text_config"] : config).erase(c.left_out);
        const Architecture a = open_model(TemporaryFolder(folder).path()).architecture;
        uint32_t window = 0;
        for (const Layer& layer : a.layers) window = std::max(window, layer.attention.window);
        CHECK(window == c.window);
        const double base = std::pow(a.ropes[0].inverse_frequencies[1], -0.5 * a.ropes[0].width);
        if (c.base != 0) CHECK(std::abs(base / c.base - 1) < 1e-9);
        const bool exaone = a.family == "exaone4";  // which does not rotate where all is seen beside windows
        for (const Layer& layer : a.layers)
            CHECK((layer.attention.rope < 0) == (exaone && window != 0 && layer.attention.window == 0));
        config["sliding_window"] = nullptr;
        if (c.model == std::string_view("mistral"))
            CHECK(open_model(TemporaryFolder(folder).path()).architecture.layers[0].attention.window == 0);
    }
}

TEST_CASE("what a config leaves out is what its class has, and what its class ignores counts nowhere") {
    struct Case {
        const char *model, *patch, *same;  // null: it is left out
    };
    const Case cases[] = {
        {"ministral3", R"({"rope_parameters": null, "rope_theta": 300})",
         R"({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e6, "factor": 16, "beta_fast": 32,
             "beta_slow": 1, "mscale": 1, "mscale_all_dim": 1, "llama_4_scaling_beta": 0.1,
             "original_max_position_embeddings": 16384}})"},
        {"lfm3", R"({"rope_parameters": null, "rope_theta": 300})",
         R"({"rope_parameters": {"full_attention": {"rope_type": "proportional", "rope_theta": 1e6,
             "partial_rotary_factor": 0.5}, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}})"},
        {"cohere2_moe-sum", R"({"layer_norm_eps": 0.5})", "{}"},
    };
    for (const Case& c : cases) {
        CAPTURE(c.patch);
        HfFolder folder = made_model(c.model).folder;
        const Architecture as_made = open_model(TemporaryFolder(folder).path()).architecture;
        folder.config.merge_patch(nlohmann::json::parse(c.patch));
        const Architecture patched = open_model(TemporaryFolder(folder).path()).architecture;
        folder.config.merge_patch(nlohmann::json::parse(c.same));
        CHECK(patched == open_model(TemporaryFolder(folder).path()).architecture);
        CHECK((patched.ropes == as_made.ropes) == (c.same == std::string_view("{}")));
        CHECK(patched.norm == as_made.norm);
    }
}

TEST_CASE("a decoder whose config says is_causal false sees both sides, as one that embeds") {
    HfFolder folder = tiny_hf_llama();
    folder.config["is_causal"] = false;
    const TemporaryFolder on_disk(folder);
    const Model model = open_model(on_disk.path());
    CHECK(model.architecture.bidirectional());
    CHECK(model.pooling == Pooling::mean);
}

TEST_CASE("a folder's chat template") {
    HfFolder folder = tiny_hf_llama();
    folder.files["tokenizer_config.json"] = R"({"chat_template": "plain"})";
    CHECK(open_model(TemporaryFolder(folder).path()).chat_template.source() == "plain");
    folder.files["tokenizer_config.json"] =
        R"({"chat_template": [{"name": "tool", "template": "t"}, {"name": "default", "template": "d"}]})";
    CHECK(open_model(TemporaryFolder(folder).path()).chat_template.source() == "d");
    folder.files["chat_template.jinja"] = "file";
    CHECK(open_model(TemporaryFolder(folder).path()).chat_template.source() == "file");
}

TEST_CASE("what a config says beside the fixtures' own" * needs_fixtures()) {
    struct Case {
        const char* fixture;
        const char* patch;  // of config.json; null stays null
        bool (*holds)(const Architecture& a);
        std::vector<const char*> without = {};  // tensors with that in their names
    };
    const Case cases[] = {
        {"qwen2-moe",
         R"({"layer_types": null, "use_sliding_window": true, "sliding_window": 4, "max_window_layers": 2})",
         [](const Architecture& a) {
             return a.layers[0].attention.window == 4 && a.layers[1].attention.window == 0;
         }},
        {"smollm3", R"({"layer_types": null, "use_sliding_window": true, "sliding_window": 4})",
         [](const Architecture& a) {
             return std::ranges::all_of(a.layers, [](const Layer& layer) {
                 return (layer.attention.window == 4) == (layer.attention.rope < 0);
             });
         }},
        {"gemma3-text", R"({"attn_logit_softcapping": 3.0})",
         [](const Architecture& a) { return a.layers[0].attention.soft_cap == 0; }},
        {"llama1", R"({"rope_parameters": {"rope_type": "default", "attention_factor": 2.0}})",
         [](const Architecture& a) { return a.ropes[0].magnitude == 1; }},
        {"cohere", R"({"rope_parameters": null})",
         [](const Architecture& a) {  // base^(-2 / width)
             const double base = std::pow(a.ropes[0].inverse_frequencies[1], -0.5 * a.ropes[0].width);
             return std::abs(base / 5e5 - 1) < 1e-9;
         }},
        {"llama-dynamic-ntk", "{}", [](const Architecture& a) { return a.context >= 8192; }},
        {"hunyuan-moe",
         R"({"moe_topk": [2, 2], "num_shared_expert": [1, 1], "norm_type": "rms", "use_qk_norm": true,
             "use_cla": false, "cla_share_factor": 2, "dense_list": [4096, 0], "pool_type": "last"})",
         [](const Architecture& a) { return a.layers[1].feed_forward.routing.used == 2; }},
        {"glm4",
         R"({"model_type": "glm"})",
         [](const Architecture& a) { return a.placement == NormPlacement::pre; },
         {"post_self_attn_layernorm", "post_mlp_layernorm"}},
        {"opt",
         R"({"layer_norm_elementwise_affine": false})",
         [](const Architecture& a) { return !a.norm.weight && !a.norm.bias; },
         {"layer_norm"}},
        {"opt-350m-style", R"({"_remove_final_layer_norm": true})",
         [](const Architecture& a) { return !a.output_norm; }},
        {"cohere2", R"({"rms_norm_eps": 9.0})", [](const Architecture& a) { return a.norm.epsilon < 1; }},
        {"gemma2", R"({"hidden_act": "relu", "hidden_activation": "gelu_pytorch_tanh"})",
         [](const Architecture& a) { return a.layers[0].feed_forward.activation == Activation::gelu_tanh; }},
        {"roberta", R"({"hidden_act": "relu"})",
         [](const Architecture& a) { return a.head_activation == Activation::gelu; }},
        {"roberta", R"({"pad_token_id": 4})",
         [](const Architecture& a) { return a.rows_before_positions == 5 && a.positions == 187; }},
        {"bart", R"({"decoder_attention_heads": 2, "num_beams": 4, "do_sample": false, "min_length": 56})",
         [](const Architecture& a) {
             const Attention &own = a.layers[0].attention, &cross = a.layers[0].cross;
             return own.heads == 2 && cross.heads == 2 && cross.head_dim == a.hidden / 2 &&
                    own.scale < a.encoder[0].layers[0].attention.scale &&
                    a.encoder[0].layers[0].attention.heads == 4;
         }},
        {"bart", R"({"decoder_attention_heads": null})",
         [](const Architecture& a) { return a.layers[0].attention.heads == 16; }},
        {"qwen3", R"({"attention_bias": null, "use_sliding_window": null})",
         [](const Architecture& a) { return !a.layers[0].attention.q_bias; }},
        {"deepseek-v3", R"({"rope_interleave": null})",
         [](const Architecture& a) { return a.ropes[0].pairs == RopePairs::halves; }},
        {"deepseek-v3", R"({"rope_parameters": {"rope_type": "default"}})",  // its mscale_all_dim stays
         [](const Architecture& a) {
             const Attention& attention = a.layers[0].attention;
             return attention.scale == float(1 / std::sqrt(double(attention.head_dim)));
         }},
        {"led", R"({"scale_embedding": true})",
         [](const Architecture& a) { return a.embedding_scale == 1 && a.encoder[0].embedding_scale == 1; }},
        {"gpt-oss", R"({"rope_parameters": null, "rope_theta": 1e4})",
         [](const Architecture& a) { return std::abs(a.ropes[0].magnitude - 1.3465735902799727) < 1e-12; }},
        {"mt5", R"({"feed_forward_proj": null, "dense_act_fn": null, "is_gated_act": true})",
         [](const Architecture& a) { return a.layers[0].feed_forward.activation == Activation::gelu_tanh; }},
        {"mt5", R"({"scale_decoder_outputs": true})",
         [](const Architecture& a) { return a.logit_scale == 1; }},
        {"t5", R"({"tie_word_embeddings": false, "scale_decoder_outputs": null})",
         [](const Architecture& a) { return a.tied_embeddings && a.logit_scale == 1; }},
    };
    for (const Case& c : cases) {
        CAPTURE(std::string(c.fixture));
        CAPTURE(std::string(c.patch));
        HfFolder patched = hf_folder(fixtures() + "/models/" + c.fixture);
        patched.config.update(nlohmann::json::parse(c.patch), true);
        for (const char* const part : c.without) patched.drop(part);
        const TemporaryFolder folder(patched);
        CHECK(c.holds(open_model(folder.path()).architecture));
    }
}

TEST_CASE("more experts than the chosen groups hold are refused" * needs_fixtures()) {
    HfFolder folder = hf_folder(fixtures() + "/models/deepseek-v3");
    folder.config["topk_group"] = 1;  // of 4, with 2 experts each
    CHECK(
        refusal_of(folder).find("num_experts_per_tok: expected no more than the chosen groups hold, got 3") !=
        std::string::npos);
}

TEST_CASE("every field of every fixture's config may lie" * needs_fixtures()) {
    const nlohmann::json lies[] = {-1,
                                   0,
                                   1,
                                   7,
                                   1e300,
                                   4294967295u,
                                   1ull << 60,
                                   "x",
                                   true,
                                   0.3,
                                   {},
                                   false,
                                   nlohmann::json::array(),
                                   nlohmann::json::object(),
                                   nlohmann::json::array({1, "a", nullptr})};
    // Rows of the table that have code of their own; all fixtures in the deep tier.
    const std::set<std::string> quick = {
        "lamda",       "mpt",           "gpt-neo",           "image-transformer",
        "gemma3-text", "hunyuan-large", "falcon2-11b-style", "phi4"};
    size_t opened = 0, refused = 0;
    for (const auto& entry : std::filesystem::directory_iterator(fixtures() + "/models")) {
        const std::string name = entry.path().filename().string();
        if (!deep() && !quick.contains(name)) continue;
        const HfFolder lying = hf_folder(entry.path());
        const TemporaryFolder folder(lying);
        for (const auto& field : lying.config.items())
            for (const nlohmann::json& lie : lies) {
                CAPTURE(name);
                CAPTURE(field.key());
                CAPTURE(lie.dump());
                nlohmann::json config = lying.config;
                config[field.key()] = lie;
                const std::filesystem::path path = folder.path() / "config.json";
                std::ofstream(path) << config.dump();
                try {  // must return, and cleanly under the sanitizers
                    check_weights(open_model(path));
                    ++opened;
                } catch (const Error&) {
                    ++refused;
                }
            }
    }
    CHECK(opened != 0);
    CHECK(refused > opened / 4);
}

TEST_CASE("Apertus: the numbers of its activation by layer, and what it has beside") {
    HfFolder folder = made_model("apertus").folder;
    const auto opened = [&] { return open_model(TemporaryFolder(folder).path()).architecture; };
    const Architecture expected = opened();
    folder.config["qk_norm"] = true;
    folder.config["post_norm"] = folder.config["mlp_bias"] = false;
    for (const char* constant : {"beta", "eps"}) folder.add(cat("model.layers.0.mlp.act_fn.", constant), {});
    const TemporaryFolder on_disk(folder);
    const Model model = open_model(on_disk.path());
    CHECK(model.architecture == expected);
    CHECK(model.unused.size() == 2);
    for (const TensorView& unused : model.unused) CHECK(is_spare(model, unused));
    folder.add("model.layers.1.mlp.act_fn.alpha_n", {1}, 0.25f);
    CHECK(opened().layers[1].feed_forward.xielu.n == 0.25f);
    CHECK(double{opened().layers[1].feed_forward.xielu.fall()} ==
          doctest::Approx(0.5 + std::log1p(std::exp(0.25))));
    folder.config["post_norm"] = true;
    CHECK_THROWS_WITH_AS((void)opened(), doctest::Contains("post_norm: expected false"), Error);
    folder.config.erase("post_norm");
    HfFolder lacking = folder;
    lacking.tensors.erase("model.layers.1.mlp.act_fn.alpha_p");
    CHECK(refusal_of(lacking).find("model.layers.1.mlp.act_fn.alpha_p is missing") != std::string::npos);
    lacking.config["hidden_act"] = "relu2";  // which has no numbers
    CHECK(refusal_of(lacking) == "no error");
    lacking = tiny_hf_llama();
    lacking.config["hidden_act"] = "xielu";
    CHECK(refusal_of(lacking).find("hidden_act: expected one of") != std::string::npos);
    folder.add("model.layers.1.mlp.act_fn.alpha_n", {2});
    CHECK_THROWS_WITH_AS((void)opened(), doctest::Contains("alpha_n: expected one finite number, got [2]"),
                         Error);
}

TEST_CASE("texts to embed get what sentence-transformers puts before them") {
    HfFolder folder = tiny_hf_llama();
    folder.files["config_sentence_transformers.json"] =
        R"({"prompts": {"query": "query: ", "document": ""}, "default_prompt_name": "query"})";
    folder.files["sentence_bert_config.json"] = R"({"max_seq_length": 256, "do_lower_case": true})";
    const auto prepared = [&](const char* text, const std::optional<std::string>& prompt) {
        const TemporaryFolder on_disk(folder);
        return read_embedding_texts(on_disk.path()).prepared(text, prompt);
    };
    CHECK(prepared("Ein \u00C4pfel", {}) == "query: ein \u00E4pfel");
    CHECK(prepared("A", "document") == "a");
    CHECK(prepared("A", "") == "a");
    CHECK_THROWS_WITH_AS(prepared("A", "passage"),
                         doctest::Contains("expected one of document, query, got passage"), Error);
    folder.files["1_Pooling/config.json"] = R"({"pooling_mode_mean_tokens": true, "include_prompt": false})";
    CHECK(prepared("A", "document") == "a");
    CHECK_THROWS_WITH_AS(prepared("A", {}), doctest::Contains("include_prompt: expected true"), Error);
    folder.files["config_sentence_transformers.json"] = R"({"default_prompt_name": "query"})";
    CHECK_THROWS_WITH_AS(prepared("A", {}), doctest::Contains("default_prompt_name: expected the name of"),
                         Error);
    folder.files = {};
    CHECK(prepared("A", {}) == "A");
    CHECK_THROWS_WITH_AS(prepared("A", "query"), doctest::Contains("the model has no prompts, got query"),
                         Error);
}

TEST_CASE("an output that is not the table is not tied to it, whatever the config says") {
    HfFolder folder = tiny_hf_llama();
    const auto tied = [&] {
        const TemporaryFolder on_disk(folder);
        return open_model(on_disk.path()).architecture.tied_embeddings;
    };
    CHECK(tied());
    folder.add("lm_head.weight", {16, 8});
    CHECK(tied());
    folder.tensors["lm_head.weight"].bytes.back() ^= 1;
    CHECK(!tied());
    folder.config["tie_word_embeddings"] = false;
    CHECK(!tied());
}

TEST_CASE("texts to embed are cut to what their model is meant for, as sentence-transformers does") {
    HfFolder folder = tiny_hf_llama();
    const auto read = [&] {
        const TemporaryFolder on_disk(folder);
        return read_embedding_texts(on_disk.path());
    };
    CHECK(!read().most_tokens);
    auto& tokens = folder.files["tokenizer_config.json"];
    tokens = R"({"model_max_length": 1000000000000000019884624838656})";
    CHECK(!read().most_tokens);
    tokens = R"({"model_max_length": 512, "truncation_side": "left"})";
    CHECK(read().most_tokens == 512);
    CHECK(read().cuts_front);
    auto& texts = folder.files["sentence_bert_config.json"];
    texts = R"({"max_seq_length": null})";
    CHECK(read().most_tokens == 512);
    texts = R"({"max_seq_length": 256})";
    CHECK(read().most_tokens == 256);
    for (const char* bad : {"0", "-1", "2.5", "\"many\""}) {
        texts = cat(R"({"max_seq_length": )", bad, "}");
        CHECK_THROWS_WITH_AS((void)read(), doctest::Contains("max_seq_length: expected a whole number"),
                             Error);
    }

    const auto left = [](std::vector<TokenId> ids, const std::vector<TokenId>& frame, size_t most,
                         bool front) {
        cut(ids, frame, most, front);
        return ids;
    };
    using Ids = std::vector<TokenId>;
    const Ids text{1, 7, 8, 9, 2};
    CHECK(left(text, {1, 2}, 5, false) == text);
    CHECK(left(text, {1, 2}, 4, false) == Ids{1, 7, 8, 2});
    CHECK(left(text, {1, 2}, 4, true) == Ids{1, 8, 9, 2});
    CHECK(left(text, {1, 2}, 1, false) == Ids{1, 2});
    CHECK(left(text, {}, 2, false) == Ids{1, 7});
    CHECK(left(text, {}, 2, true) == Ids{9, 2});
    CHECK(left(text, {2}, 3, false) == Ids{1, 7, 2});
    CHECK(left(text, {1, 9, 2}, 4, false) == Ids{1, 7, 9, 2});
}

TEST_CASE("MiMo 7B is a Qwen 2 whose layers behind the last are not run" * needs_fixtures()) {
    const std::filesystem::path qwen = fixtures() + "/models/qwen2";
    HfFolder mimo = hf_folder(qwen);
    mimo.config["model_type"] = "mimo";
    mimo.config["architectures"] = {"MiMoForCausalLM"};
    mimo.config["num_nextn_predict_layers"] = 1;
    const TemporaryFolder folder(mimo);
    const Model model = open_model(folder.path());
    CHECK(model.architecture == open_model(qwen).architecture);
    for (const char* name : {"model.mtp_layers.0.input_proj.weight", "transformer.h.0.attn.causal_mask"})
        CHECK(is_spare(model, {name, TensorType::f32, 1, 1}));
    CHECK_FALSE(is_spare(model, {"model.layers.0.extra.weight", TensorType::f32, 1, 1}));
}
