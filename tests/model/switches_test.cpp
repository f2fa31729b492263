// Switches of config.json that no fixture has: fixtures with fields of it changed and tensors added, on both
// executors, beside logits that transformers 5.23 computed of the same in double precision.
#include "file.h"
#include "loader/hf_builder.h"
#include "made_models.h"
#include "reference/executor.h"
#include "support/compare.h"
#include "support/device.h"
#include "support/golden.h"

#include <cmath>

using namespace scoria;
using namespace scoria::test;

namespace {

struct Switch {
    std::string fixture;
    std::string changes;                                                 // a merge patch (RFC 7396)
    std::vector<std::pair<const char*, std::vector<uint64_t>>> tensors;  // without a shape: left out
    std::vector<double> logits;                                          // the first of the last position
};

const Switch switches[] = {
    {"deepseek-v2",
     R"({"attention_bias": true, "mlp_bias": true})",
     {{"model.layers.0.self_attn.q_a_proj.bias", {28}},
      {"model.layers.0.self_attn.kv_a_proj_with_mqa.bias", {32}},
      {"model.layers.0.self_attn.o_proj.bias", {64}},
      {"model.layers.0.mlp.gate_proj.bias", {80}},
      {"model.layers.0.mlp.up_proj.bias", {80}},
      {"model.layers.0.mlp.down_proj.bias", {64}},
      {"model.layers.1.self_attn.q_a_proj.bias", {28}},
      {"model.layers.1.self_attn.kv_a_proj_with_mqa.bias", {32}},
      {"model.layers.1.self_attn.o_proj.bias", {64}},
      {"model.layers.1.mlp.shared_experts.gate_proj.bias", {40}},
      {"model.layers.1.mlp.shared_experts.up_proj.bias", {40}},
      {"model.layers.1.mlp.shared_experts.down_proj.bias", {64}}},
     {2.054702, -0.9972387, -1.230892, -2.664425, 3.180367, -0.1147947}},
    {"deepseek-v3",
     R"({"attention_bias": true, "routed_scaling_factor": null})",
     {{"model.layers.0.self_attn.q_a_proj.bias", {28}},
      {"model.layers.0.self_attn.kv_a_proj_with_mqa.bias", {32}},
      {"model.layers.0.self_attn.o_proj.bias", {64}},
      {"model.layers.1.self_attn.q_a_proj.bias", {28}},
      {"model.layers.1.self_attn.kv_a_proj_with_mqa.bias", {32}},
      {"model.layers.1.self_attn.o_proj.bias", {64}}},
     {-2.106438, -1.837673, 1.276577, -0.6779695, -0.599249, -3.02415}},
    {"bloom",
     R"({"apply_residual_connection_post_layernorm": true})",
     {},
     {3.048278, 1.275923, -0.09886291, 0.3539763, -2.624667, 1.410158}},
    {"phi3-longrope",
     R"({"rope_parameters": {"factor": 3.0}})",
     {},
     {-1.665641, 1.315723, 2.374871, 0.5388632, -3.223338, 1.98816}},
    {"gpt-oss",
     R"({"rope_parameters": null})",
     {},
     {0.9200859, 0.452619, 1.730725, 0.1289516, 2.455889, 1.537686}},
    {"gemma3-text",
     R"({"use_bidirectional_attention": true})",
     {},
     {-0.8737692, -0.3073671, -2.627806, -0.4087463, -0.4054443, -0.3683494}},
    {"imagegpt",
     R"({"tie_word_embeddings": true})",
     {{"lm_head.weight", {}}},
     {-3.633715, -10.86158, -7.693997, -2.682129, 3.259077, 11.48016}},
    {"bart",
     R"({"tie_word_embeddings": false})",
     {{"model.encoder.embed_tokens.weight", {256, 64}},
      {"model.decoder.embed_tokens.weight", {256, 64}},
      {"lm_head.weight", {256, 64}}},
     {1.898428, 1.061044, -2.245434, -0.891357, 2.276771, 1.21988}},
    {"led",
     R"({"tie_word_embeddings": false})",
     {{"led.encoder.embed_tokens.weight", {256, 64}},
      {"led.decoder.embed_tokens.weight", {256, 64}},
      {"lm_head.weight", {256, 64}}},
     {-0.1399997, -1.439643, -0.8018251, 0.8997854, 0.2735182, -0.9534754}},
    {"marian",
     R"({"share_encoder_decoder_embeddings": false, "decoder_vocab_size": 300})",
     {{"model.encoder.embed_tokens.weight", {256, 64}},
      {"model.decoder.embed_tokens.weight", {300, 64}},
      {"final_logits_bias", {1, 300}}},
     {-5.481902, -2.949044, 5.585399, 5.067666, -3.692672, -5.437084}},
    {"t5-v1.1",
     R"({"dense_act_fn": "relu"})",
     {},
     {3.63314, 1.191665, 1.938892, 1.786279, 1.897616, -0.9509434}},
    {"reformer",
     R"({"num_buckets": null})",
     {},
     {1.713981, 2.302716, 0.297891, -0.8139433, 1.709479, 0.843501}},
    {"qwen2",
     R"({"use_sliding_window": true, "sliding_window": 8, "layer_types": null, "max_window_layers": null})",
     {},
     {-2.447614, 0.2108309, 1.53303, 0.7582267, -1.529199, -2.520367}},
    {"gemma3-text",
     R"({"layer_types": null, "sliding_window_pattern": 2, "sliding_window": 7})",
     {},
     {-2.671584, 0.9417985, -0.8984776, -1.250886, 1.64999, 0.02902827}},
};

HfFolder switched(const Switch& row) {
    const std::string path = fixtures() + "/models/" + row.fixture;
    HfFolder folder;
    folder.config = nlohmann::json::parse(read_file(path + "/config.json", 1 << 20));
    folder.config.merge_patch(nlohmann::json::parse(row.changes));
    const std::string bytes = read_file(path + "/model.safetensors", 1 << 24);
    const Safetensors tensors(path + "/model.safetensors");
    for (const auto& [name, array] : tensors.arrays())
        folder.tensors[name] = {array.type, array.shape, bytes.substr(array.offset, array.bytes)};
    for (const auto& [name, shape] : row.tensors) {
        folder.tensors.erase(name);
        if (shape.empty()) continue;
        uint64_t count = 1;
        for (const uint64_t size : shape) count *= size;
        std::vector<float> values;
        for (uint64_t i = 0; i < count; ++i) values.push_back(float(0.5 * std::sin(0.37 * double(i) + 1)));
        folder.tensors[name] = {
            "F32", shape, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)}};
    }
    return folder;
}

/// Of the fixture's long case.
std::vector<TokenId> first_ids(const std::string& fixture, const char* name, size_t count) {
    std::vector<TokenId> ids =
        read_ids(Safetensors(fixtures() + "/models/" + fixture + "/golden.safetensors"), cat("long.", name));
    ids.resize(count);
    return ids;
}

template <class Logits>
void check_last(const Switch& row, const Logits& logits, uint32_t rows, double bound) {
    const size_t cols = logits.size() / rows;
    REQUIRE(cols >= row.logits.size());
    const double deviation = std::sqrt(squares_about_mean(logits) / double(logits.size()));
    for (size_t i = 0; i < row.logits.size(); ++i)
        CHECK(std::abs(double(logits[(rows - 1) * cols + i]) - row.logits[i]) <= bound * deviation);
}

}  // namespace

TEST_CASE("switches of config.json that no fixture has" *
          doctest::skip(few_models() || floor_tier() || !have_fixtures())) {
    for (const Switch& row : switches) {
        CAPTURE(row.fixture);
        CAPTURE(row.changes);
        const TemporaryFolder folder(switched(row));
        const auto model = std::make_shared<const Model>(open_model(folder.path()));
        Engine engine(model, engine_options(Precision::strict));
        Session session(engine);
        reference::Executor executor(*model);
        const bool two = !model->architecture.encoder.empty();
        const std::vector<TokenId> ids =
            first_ids(row.fixture, two ? "decoder_input_ids" : "input_ids", two ? 20 : 48);
        if (two) {
            const std::vector<TokenId> source = first_ids(row.fixture, "encoder_input_ids", 48);
            executor.encode(source);
            session.encode(source);
        }
        // transformers rounds rotary frequencies to float32
        const uint32_t rows = uint32_t(ids.size());
        check_last(row, executor.forward(ids).logits, rows, 2e-5);
        check_last(row, session.forward(ids, false).logits, rows, strict_error);
        CHECK(engine.device().validation_errors() == 0);
    }
}

TEST_CASE("the length that LongRoPE was made for: where a folder says two, the outer one" *
          doctest::skip(!have_fixtures())) {
    const TemporaryFolder folder(
        switched({"phi4", R"({"rope_parameters": {"original_max_position_embeddings": 64}})", {}, {}}));
    const Safetensors golden(fixtures() + "/models/phi4/golden.safetensors");
    const Model model = open_model(folder.path());
    CHECK(largest_error(golden.read<float>("long.logits"),
                        reference::Executor(model).forward(read_ids(golden, "long.input_ids")).logits) <=
          1e-5);
}

TEST_CASE("a row of pixels that the context cannot fill is as long as the context" *
          doctest::skip(!have_fixtures())) {
    const auto logits = [](const char* changes) {
        const TemporaryFolder folder(switched({"image-transformer", changes, {}, {}}));
        const Model model = open_model(folder.path());
        return reference::Executor(model).forward(first_ids("image-transformer", "input_ids", 48)).logits;
    };
    // Its 2^28 positions would be a table of 34 GB.
    CHECK(logits(R"({"row_length": 268435456})") == logits(R"({"row_length": 192})"));
}

TEST_CASE("LFM2's first folders have the width of feed-forwards under a name of their own") {
    HfFolder published = made_model("lfm2").folder;
    const uint32_t width =
        open_model(TemporaryFolder(published).path()).architecture.layers[0].feed_forward.size;
    published.config["block_ff_dim"] = published.config["intermediate_size"];
    published.config.erase("intermediate_size");
    for (const char* name : {"block_dim", "conv_dim", "conv_dim_out"}) published.config[name] = 64;
    for (const char* name :
         {"block_use_swiglu", "use_pos_enc", "block_use_xavier_init", "conv_use_xavier_init"})
        published.config[name] = true;
    for (const char* name : {"block_mlp_init_scale", "block_out_init_scale", "block_norm_eps"})
        published.config[name] = 1.0;
    CHECK(open_model(TemporaryFolder(published).path()).architecture.layers[0].feed_forward.size == width);
    published.config["intermediate_size"] = 48;  // that name counts for less
    CHECK(open_model(TemporaryFolder(published).path()).architecture.layers[0].feed_forward.size == width);
    published.config["conv_dim"] = 32;
    CHECK_THROWS_WITH_AS((void)open_model(TemporaryFolder(published).path()), doctest::Contains("conv_dim"),
                         Error);
    for (const char* name : {"block_ff_dim", "intermediate_size"}) published.config.erase(name);
    CHECK_THROWS_WITH_AS((void)open_model(TemporaryFolder(published).path()),
                         doctest::Contains("intermediate_size is missing"), Error);
}

TEST_CASE("EXAONE as published has names of its own, and the same weights") {
    const HfFolder saved = made_model("exaone").folder;
    HfFolder published = saved;
    published.tensors.clear();
    constexpr std::pair<std::string_view, std::string_view> names[] = {
        {"model.embed_tokens", "transformer.wte"},
        {"model.norm", "transformer.ln_f"},
        {"model.layers", "transformer.h"},
        {"input_layernorm", "ln_1"},
        {"self_attn", "attn.attention"},
        {"o_proj", "out_proj"},
        {"post_attention_layernorm", "ln_2"},
        {"gate_proj", "c_fc_0"},
        {"up_proj", "c_fc_1"},
        {"down_proj", "c_proj"}};
    for (const auto& [name, tensor] : saved.tensors) {
        std::string other = name;
        for (const auto& [from, to] : names)
            if (const size_t at = other.find(from); at != std::string::npos)
                other.replace(at, from.size(), to);
        published.tensors[other] = tensor;
    }
    for (const auto& [from, to] : {std::pair("num_hidden_layers", "num_layers"),
                                   {"rms_norm_eps", "layer_norm_epsilon"},
                                   {"hidden_act", "activation_function"}}) {
        published.config[to] = published.config[from];
        published.config.erase(from);
    }
    const TemporaryFolder one(saved), other(published);
    const Model model = open_model(other.path());
    CHECK(model.architecture == open_model(one.path()).architecture);
    CHECK(model.unused.empty());
}

TEST_CASE(
    "MiMo-V2-Flash as published lists windows and experts by other names, and has its sinks under one") {
    const HfFolder saved = made_model("mimo_v2_flash-as-published").folder;
    HfFolder published = saved;
    for (const auto& [name, tensor] : saved.tensors)
        if (const size_t at = name.find("sinks"); at != name.npos) {
            published.tensors.erase(name);
            published.tensors[name.substr(0, at) + "attention_sink_bias"] = tensor;
        }
    for (const char* name : {"layer_types", "mlp_layer_types", "rope_parameters", "rms_norm_eps"})
        published.config.erase(name);
    published.config.update(nlohmann::json::parse(R"({"layernorm_epsilon": 0.02, "sliding_window": 6,
        "rope_theta": 5000000, "swa_rope_theta": 10000, "partial_rotary_factor": 0.334,
        "hybrid_layer_pattern": [0, 1, 1, 1, 1, 0], "moe_layer_freq": [0, 1, 1, 1, 1, 1],
        "swa_num_key_value_heads": 4, "swa_head_dim": 24, "swa_v_head_dim": 12, "swa_num_attention_heads": 4,
        "add_swa_attention_sink_bias": true, "add_full_attention_sink_bias": false, "scoring_func": "sigmoid",
        "topk_method": "noaux_tc", "n_shared_experts": null, "routed_scaling_factor": null,
        "attention_chunk_size": 128, "hybrid_block_size": null})"));
    const auto opened = [&] { return open_model(TemporaryFolder(published).path()); };
    const Architecture expected = open_model(TemporaryFolder(saved).path()).architecture;
    CHECK(opened().architecture == expected);
    CHECK(opened().unused.empty());
    for (const char* listed : {"hybrid_layer_pattern", "moe_layer_freq"}) published.config.erase(listed);
    CHECK(opened().architecture == expected);  // the class's own rule
    for (const auto& [name, value] :
         {std::pair("swa_num_key_value_heads", 2), {"v_head_dim", 25}, {"swa_head_dim", 16}}) {
        const nlohmann::json before = published.config[name];
        published.config[name] = value;
        CHECK_THROWS_WITH_AS((void)opened(), doctest::Contains(cat(name, ": expected").c_str()), Error);
        published.config[name] = before;
    }
}

TEST_CASE("what encoders of BERT's kin, DBRX and others may say and this build does not compute") {
    struct Case {
        const char *name, *patch, *refusal;
    };
    const Case cases[] = {
        {"dbrx", R"({"ffn_config": {"moe_normalize_expert_weights": 2.0}})",
         "moe_normalize_expert_weights: expected 1, or null"},
        {"dbrx", R"({"ffn_config": {"ffn_act_fn": {"name": "none"}}})", "name: expected one of"},
        {"mllama", R"({"text_config": {"cross_attention_layers": [1, 4]}})",
         "cross_attention_layers: expected numbers of layers"},
        {"nanbeige", R"({"enable_mhc": true})", "enable_mhc: this build cannot honour it"},
        {"nanbeige", R"({"num_loops": 5000})", "num_loops: expected"},
        {"step3p7", R"({"text_config": {"swiglu_limits": [1, 2, -1, 3]}})",
         "swiglu_limits: expected numbers of 0 or more"},
        {"step3p7", R"({"text_config": {"sink": true}})", "sink: this build cannot honour it"},
        {"deepseek_ocr2", R"({"text_config": {"topk_method": "noaux_tc"}})", "topk_method: expected greedy"},
        {"apertus1p5_text", R"({"output_vocab_size": 65})", "output_vocab_size: expected"},
        {"ernie", R"({"use_task_id": true})", "use_task_id"},
        {"roformer", R"({"rotary_value": true})", "rotary_value"},
        {"albert", R"({"num_hidden_groups": 2})", "num_hidden_groups: expected 1"},
        {"electra", R"({"embedding_size": 24})", "word_embeddings.weight: expected [64, 24], got [64, 20]"},
        {"mpnet", R"({"pad_token_id": 2})", "pad_token_id: expected 1"},
        {"gte", R"({"logn_attention_scale": true})", "logn_attention_scale: expected false"},
        {"gte", R"({"position_embedding_type": "absolute"})", "position_embedding_type: expected rope"},
        {"gte", R"({"layer_norm_type": "rms_norm"})", "layer_norm_type: expected layer_norm"},
        {"gte", R"({"rope_parameters": null, "rope_scaling": {"type": "ntk", "factor": 2, "mixed_b": 1}})",
         "rope_type: expected one of"},
        {"deberta-v2", R"({"relative_attention": false})", "relative_attention: expected true"},
        {"deberta-v2", R"({"share_att_key": false})", "share_att_key: expected true"},
        {"deberta-v2", R"({"position_biased_input": true})", "position_biased_input: expected false"},
        {"deberta-v2", R"({"conv_kernel_size": 3})", "conv_kernel_size: expected 0"},
        {"deberta-v2", R"({"embedding_size": 24})", "embedding_size: expected hidden_size"},
        {"deberta-v2", R"({"pos_att_type": "c2p"})", "pos_att_type: expected c2p and p2c"},
        {"deberta-v2", R"({"norm_rel_ebd": "rms"})", "norm_rel_ebd: expected none or layer_norm"},
        {"deberta-v2", R"({"position_buckets": 6})",
         "rel_embeddings.weight: expected floats [12, 48], got [16, 48]"},
        {"deberta-v2", R"({"max_relative_positions": 5})", "position_buckets: expected 2 to less than"},
        {"modernbert-decoder", R"({"local_attention": 1})", "local_attention: expected at least 2"},
    };
    for (const Case& c : cases) {
        CAPTURE(c.patch);
        HfFolder folder = made_model(c.name).folder;
        folder.config.update(nlohmann::json::parse(c.patch), true);
        CHECK(refusal_of(folder).find(c.refusal) != std::string::npos);
    }
}

TEST_CASE("Granite with windows: a base for every layer, or none") {
    HfFolder folder = made_model("granite_swa").folder;
    const auto opened = [&] { return open_model(TemporaryFolder(folder).path()).architecture; };
    const Architecture a = opened();
    const int32_t ropes[] = {-1, 0, 1, 0};
    REQUIRE(a.ropes.size() == 2);
    for (size_t i = 0; i < 4; ++i) CHECK(a.layers[i].attention.rope == ropes[i]);
    folder.config.erase("layer_types");  // every fourth from the first on sees all
    const Architecture other = opened();
    for (size_t i = 0; i < 4; ++i) CHECK(other.layers[i].attention.window == (i == 0 ? 0u : 7u));
    folder.config["layer_rope_theta"] = {1e4, 1e4, -1.0, 1e4};
    CHECK_THROWS_WITH_AS((void)opened(), doctest::Contains("layer_rope_theta: expected numbers of 0 or more"),
                         Error);
    folder.config["layer_rope_theta"] = {1e4};
    CHECK_THROWS_WITH_AS((void)opened(), doctest::Contains("layer_rope_theta: expected 4 numbers, got 1"),
                         Error);
}
