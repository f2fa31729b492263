// Configs of folders with recurrences: as published beside as transformers saves them, and what is refused.
#include "made_models.h"
#include "reference/executor.h"
#include "support/golden.h"

#include <algorithm>
#include <array>

using namespace scoria;
using namespace scoria::test;

TEST_CASE(
    "reference: Kimi Linear as published, its layers in two lists and a dense one under Llama's names") {
    MadeModel made = made_model("kimi_linear");
    nlohmann::json& config = made.folder.config;
    for (const char* newer : {"layer_types", "mlp_layer_types", "linear_head_dim", "linear_num_heads",
                              "linear_conv_kernel_dim", "qk_head_dim"})
        config.erase(newer);
    config.update(nlohmann::json::parse(R"({"mla_use_nope": true, "moe_layer_freq": 1,
        "moe_router_activation_func": "sigmoid", "num_nextn_predict_layers": 0, "rope_scaling": null,
        "rope_theta": 10000.0, "use_grouped_topk": true})"));
    auto& tensors = made.folder.tensors;
    for (const std::string linear : {"gate_proj", "up_proj", "down_proj"}) {
        auto node = tensors.extract("model.layers.0.block_sparse_moe." + linear + ".weight");
        node.key() = "model.layers.0.mlp." + linear + ".weight";
        tensors["model.layers.0.mlp." + linear + ".weight"] = std::move(node.mapped());
    }
    const TemporaryFolder folder(made.folder);
    const Model model = open_model(folder.path());
    const MadeModel as_made = made_model("kimi_linear");
    const TemporaryFolder newer(as_made.folder);
    CHECK(model.architecture.layers == open_model(newer.path()).architecture.layers);
    CHECK(model.unused.empty());
}

TEST_CASE("reference: Ling 3 as published, its layers by groups") {
    MadeModel made = made_model("bailing_hybrid");
    nlohmann::json& config = made.folder.config;
    const TemporaryFolder newer(made.folder);
    for (const char* name : {"layer_types", "mlp_layer_types", "linear_head_dim", "linear_num_heads",
                             "linear_conv_kernel_dim", "qk_head_dim", "model_max_length"})
        config.erase(name);
    config.update(
        nlohmann::json::parse(R"({"head_dim": 12, "max_position_embeddings": 160, "no_kda_lora": true,
        "gated_attention_proj_granularity_type": "head_wise", "score_function": "sigmoid",
        "expert_swiglu_limit_list": [null, null, 0]})"));
    const TemporaryFolder folder(made.folder);
    CHECK(open_model(folder.path()).architecture.layers == open_model(newer.path()).architecture.layers);
}

namespace {

/// Taps of q, k and v that are cut by channels, as published, and not in thirds, as transformers saves them.
void cut_by_channels(HfFolder& folder, size_t layer, const std::array<uint64_t, 3>& channels) {
    constexpr std::array parts{"q", "k", "v"};
    const auto tensor = [&](size_t part) -> auto& {
        return folder.tensors.at(cat("model.layers.", layer, ".linear_attn.", parts[part], "_conv1d.weight"));
    };
    std::string all;
    for (size_t i = 0; i < parts.size(); ++i) all += tensor(i).bytes;
    size_t begin = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
        const uint64_t taps = tensor(i).shape.back();
        tensor(i).shape = {channels[i], 1, taps};
        tensor(i).bytes = all.substr(begin, 4 * channels[i] * taps);
        begin += tensor(i).bytes.size();
    }
}

}  // namespace

TEST_CASE("reference: OLMo Hybrid as published, by its own names of norms, without a base of positions") {
    MadeModel made = made_model("olmo_hybrid");
    const TemporaryFolder saved(made.folder);
    nlohmann::json& config = made.folder.config;
    for (const char* name : {"layer_types", "rope_parameters"}) config.erase(name);
    config["rope_theta"] = nullptr;
    config["linear_use_gate"] = true;
    auto node = made.folder.tensors.extract("model.layers.3.feedforward_layer_norm.weight");
    node.key() = "model.layers.3.post_attention_layernorm.weight";
    made.folder.tensors.insert(std::move(node));
    for (size_t layer = 0; layer < 3; ++layer) cut_by_channels(made.folder, layer, {24, 24, 80});
    const TemporaryFolder published(made.folder);
    const Model model = open_model(published.path());
    CHECK(model.unused.empty());
    CHECK(model.architecture == open_model(saved.path()).architecture);
    CHECK(model.architecture.ropes.empty());
    reference::Executor executor(model);
    CHECK(largest_error(made.logits, executor.forward(made.ids).logits) <= 2e-5);

    config.erase("rope_theta");  // the class has a base of its own
    const TemporaryFolder rotates(made.folder);
    CHECK(open_model(rotates.path()).architecture.ropes.front().inverse_frequencies.at(4) == 0.01);
    HfFolder cut = made.folder;
    cut_by_channels(cut, 1, {24, 24, 79});
    CHECK(refusal_of(cut).find("expected 128 channels together, got 127") != std::string::npos);
    config["num_hidden_layers"] = 3;  // the last is attention, where none is the fourth
    const std::string message = refusal_of(made.folder);
    CAPTURE(message);
    CHECK(message.find("model.layers.2.self_attn.q_proj.weight is missing") != std::string::npos);
}

TEST_CASE("reference: MiniMax-Text-01 and M1 as published, by other names of factors and kinds of layers") {
    for (const char* type : {"minimax_text_01", "minimax_m1"}) {
        MadeModel made = made_model("minimax");
        const TemporaryFolder saved(made.folder);
        nlohmann::json& config = made.folder.config;
        config["model_type"] = type;
        config["attn_type_list"] = {0, 1, 0, 0};
        config["rope_theta"] = 10000.0;
        for (const char* other : {"layer_types", "rope_parameters", "block_size"}) config.erase(other);
        for (const auto& [from, to] : {std::pair("full_attn", "full_attention"),
                                       std::pair("linear_attn", "linear_attention"), std::pair("mlp", "mlp")})
            for (const char* which : {"alpha", "beta"}) {
                const std::string name = cat(from, "_", which, "_factor");
                config[cat("layernorm_", to, "_", which)] = config.at(name);
                config.erase(name);
            }
        config.update(nlohmann::json::parse(
            R"({"postnorm": true, "shared_intermediate_size": 0, "shared_moe_mode": "sigmoid"})"));
        const TemporaryFolder published(made.folder);
        const Model model = open_model(published.path());
        CHECK(model.unused.empty());
        CHECK(model.architecture.layers == open_model(saved.path()).architecture.layers);
        reference::Executor executor(model);
        CHECK(largest_error(made.logits, executor.forward(made.ids).logits) <= 2e-5);
        config["rotary_dim"] = 6;  // half of a head
        const TemporaryFolder rotates(made.folder);
        CHECK(open_model(rotates.path()).architecture.ropes.front().width == 6);
    }
}

TEST_CASE("recurrences that are not computed are refused, naming the field") {
    struct Row {
        const char *name, *field, *value, *says;
    };
    constexpr Row rows[] = {
        {"lfm2", "conv_bias", "true", "conv_bias: expected false"},
        {"lfm2", "conv_L_cache", "1", "conv_L_cache: expected 2 to 16, got 1"},
        {"lfm2", "layer_types", R"(["conv", "xlstm", "full_attention"])", "got xlstm"},
        {"lfm2", "layer_types", R"(["conv"])", "layer_types: expected 3 types, got 1"},
        {"lfm2", "block_ffn_dim_multiplier", "1e12", "block_ffn_dim_multiplier"},
        {"qwen3_5_text", "attention_bias", "true", "attention_bias: expected false"},
        {"qwen3_5_text", "linear_num_value_heads", "5",
         "linear_num_value_heads: expected a multiple of 2 groups"},
        {"qwen3_5_text", "linear_key_head_dim", "512", "linear_key_head_dim: expected 1 to 256, got 512"},
        {"qwen3_5_text", "linear_conv_kernel_dim", "17", "linear_conv_kernel_dim: expected 2 to 16"},
        {"qwen3_next", "linear_value_head_dim", "8", "expected [144, 48], got [240, 48]"},
        {"kimi_linear", "mla_use_nope", "false", "mla_use_nope: expected true"},
        {"kimi_linear", "moe_layer_freq", "2", "moe_layer_freq: expected 1, got 2"},
        {"kimi_linear", "linear_attn_config", R"({"head_dim": 300})",
         "linear_attn_config.head_dim: expected 1 to 256, got 300"},
        {"kimi_linear", "linear_attn_config", R"({"short_conv_kernel_size": 3})",
         "q_conv1d.weight: expected [48, 3], got [48, 1, 4]"},
        {"kimi_linear-types", "layer_types", "null", "each layer in one of its two lists"},
        {"olmo_hybrid", "hidden_act", "\"gelu\"", "hidden_act: expected silu"},
        {"olmo_hybrid", "linear_use_gate", "false", "linear_use_gate: expected true"},
        {"olmo_hybrid", "linear_num_value_heads", "5",
         "linear_num_value_heads: expected a multiple of 2 groups"},
        {"olmo_hybrid", "linear_value_head_dim", "null", "g_proj.weight: expected [96, 64], got [80, 64]"},
        {"olmo_hybrid", "linear_key_head_dim", "null", "q_proj.weight: expected [48, 64], got [24, 64]"},
        {"bailing_hybrid", "kda_lower_bound", "0.5", "kda_lower_bound: expected a number below 0, got 0.5"},
        {"bailing_hybrid", "no_kda_lora", "false", "no_kda_lora: expected true"},
        {"bailing_hybrid", "gated_attention_proj_granularity_type", "\"elementwise\"", "expected head_wise"},
        {"bailing_hybrid", "expert_swiglu_limit_list", "[null, 7.0]", "expert_swiglu_limit_list"},
        {"bailing_hybrid", "linear_head_dim", "16", "expected [64, 48], got [48, 48]"},
        {"granitemoehybrid-mamba", "mamba_proj_bias", "true", "mamba_proj_bias: expected false"},
        {"granitemoehybrid-mamba", "mamba_d_head", "8", "mamba_d_head: expected heads that fill"},
        {"granitemoehybrid-mamba", "time_step_limit", "[0.001, 0.1]",
         "time_step_limit: expected 0 and infinity"},
        {"minimax", "hidden_act", "\"gelu\"", "hidden_act: expected silu"},
        {"minimax", "head_dim", "300", "head_dim: expected at most 256, got 300"},
        {"minimax", "layer_types", R"(["linear_attention", "full_attention", "linear_attention", "mamba3"])",
         "got mamba3"},
        {"nemotron_h-experts", "moe_latent_size", "16", "moe_latent_size"},
        {"nemotron_h-experts", "layers_block_type", R"(["mamba", "moe", "attention", "gru", "mamba"])",
         "in every place"},
        {"mamba", "time_step_rank", "6", "expected [30, 96], got [29, 96]"},
        {"mamba", "d_inner", "64", "d_inner: expected 96, got 64"},
        {"mamba", "expand", "1e30", "expand: expected 1 to 2^20 channels, got 1e+30"},
        {"falcon_mamba", "state_size", "300", "state_size: expected 1 to 256, got 300"},
        {"jamba", "attn_layer_offset", "3", "attn_layer_offset: expected less than 3, got 3"},
        {"jamba", "mamba_inner_layernorms", "false", "mamba_inner_layernorms: expected true"},
        {"mamba2", "rms_norm", "false", "rms_norm: expected true"},
        {"mamba2", "use_bias", "true", "use_bias: expected false"},
        {"mamba2", "hidden_act", "\"gelu\"", "hidden_act: expected silu"},
        {"mamba2", "expand", "3", "expand: expected a width of 6 heads of 16, got 3"},
        {"mamba2", "n_groups", "4", "num_heads: expected a multiple of 4 groups, got 6"},
        {"mamba2", "time_step_limit", "[0, 0.1]", "time_step_limit: expected 0 and infinity"},
        {"nemotron_h", "mamba_hidden_act", "\"gelu\"", "mamba_hidden_act: expected silu"},
        {"nemotron_h", "n_groups", "4", "mamba_num_heads: expected a multiple of 4 groups, got 6"},
        {"nemotron_h", "time_step_limit", "[0, 0.1]", "time_step_limit: expected 0 and infinity"},
        {"falcon_h1", "mamba_n_groups", "4", "mamba_n_heads: expected a multiple of 4 groups, got 6"},
    };
    const std::vector<MadeModel> all = made_models();
    for (const Row& row : rows) {
        CAPTURE(row.name);
        CAPTURE(row.field);
        HfFolder folder = std::ranges::find(all, row.name, &MadeModel::name)->folder;
        folder.config[row.field] = nlohmann::json::parse(row.value);
        const std::string message = refusal_of(folder);
        CAPTURE(message);
        CHECK(message.find(row.says) != message.npos);
    }
    // As older files have them: the pattern of layers as letters, infinity as Python writes it.
    HfFolder older = std::ranges::find(all, "nemotron_h", &MadeModel::name)->folder;
    const TemporaryFolder as_made(older);
    older.config.erase("layers_block_type");
    older.config["hybrid_override_pattern"] = "M-*M";
    older.config["num_hidden_layers"] = 4;
    std::string text = older.config.dump();
    const std::string infinity = R"({"__float__":"Infinity"})";
    REQUIRE(text.find(infinity) != text.npos);
    text.replace(text.find(infinity), infinity.size(), "Infinity");
    older.files["config.json"] = text;
    const TemporaryFolder as_older(older);
    CHECK(open_model(as_older.path()).architecture == open_model(as_made.path()).architecture);
}
