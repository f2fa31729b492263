// Families that no fixture has: tiny models whose weights are made of their tensors' names, with the logits
// that transformers computes of them (made_models.py, which made made_models.jsonl).
#include "conversion_families.h"
#include "fail.h"
#include "hf_folder.h"
#include "made_models.h"
#include "quantise/convert.h"
#include "quantise/pool_heads.h"
#include "reference/executor.h"
#include "support/device.h"
#include "support/golden.h"

using namespace scoria;
using namespace scoria::test;

namespace {

/// Angles of transformers are float32's.
constexpr double made_error = 2e-5;

/// Of the last row, the ids before it coming in parts.
double error_of_last(const MadeModel& made, Engine& engine) {
    Session session(engine);
    if (!made.source.empty()) session.encode(made.source);
    for (size_t first = 0, count = 9; first < made.ids.size(); first += count, count = 1)
        session.append(std::span(made.ids).subspan(first, count));
    return largest_error(made.logits.rbegin()->second, session.logits());
}

/// The folder as a GGUF file of the same numbers, or nothing: not all families have an architecture there.
std::optional<Model> as_gguf(const Model& model, const std::filesystem::path& folder) {
    if (conversion::conversion_family(model.architecture) == nullptr) return std::nullopt;
    const std::filesystem::path path = folder / "made.gguf";
    convert(*open_conversion_source(folder), path.string(), {.recipe = find_recipe("F32")});
    return open_model(path);
}

}  // namespace

TEST_CASE("reference: families without fixtures have the logits of transformers") {
    const std::vector<MadeModel> all = made_models();
    CHECK(all.size() == 147);
    for (const MadeModel& made : all) {
        CAPTURE(made.name);
        const TemporaryFolder folder(made.folder);
        const Model model = open_model(folder.path());
        if (made.name == "mllama")  // layers that see images
            CHECK(std::ranges::all_of(model.unused, [&](const auto& each) { return is_spare(model, each); }));
        else
            CHECK(model.unused.empty());
        reference::Executor executor(model);
        if (!made.source.empty()) (void)executor.encode(made.source);
        const reference::Result result = executor.forward(made.ids);
        CHECK(largest_error(made.logits, result.logits) <= made_error);
        if (const std::optional<Model> gguf = as_gguf(model, folder.path())) {
            reference::Executor from_gguf(*gguf);
            const reference::Result again = from_gguf.forward(made.ids);
            if (gguf->architecture.has_head)
                CHECK(largest_error(made.logits, again.logits) <= made_error);
            else
                CHECK(largest_error(result.last_hidden, again.last_hidden) <= made_error);
        }
    }
}

TEST_CASE("reference: configs and names as published are the models that transformers saves") {
    using nlohmann::json;
    const auto prefix = [](HfFolder& folder, const std::string& before) {
        const auto tensors = std::exchange(folder.tensors, {});
        for (const auto& [name, tensor] : tensors) folder.tensors[before + name] = tensor;
    };
    const auto thinks = [&](HfFolder& folder) {
        json& text = folder.config["text_config"];
        text["rope_scaling"] = text["rope_parameters"];
        text["rope_scaling"]["interleaved"] = true;
        text["rope_theta"] = text["rope_parameters"]["rope_theta"];
        text.erase("rope_parameters");
        folder.config = {
            {"model_type", "qwen"}, {"thinker_config", folder.config}, {"talker_config", json::object()}};
        prefix(folder, "thinker.");
        for (const char* other : {"thinker.visual.x", "talker.x", "token2wav.x", "code2wav.x"})
            folder.add(other, {3});
    };
    const auto of_internvl = [&](HfFolder& folder) {
        folder.config = {{"model_type", "internvl_chat"}, {"llm_config", folder.config}};
        prefix(folder, "language_model.");
        for (const char* other : {"mlp1.0.weight", "vision_model.x"}) folder.add(other, {3});
    };
    const auto of_ocr = [&](HfFolder& folder) {
        json text = folder.config["text_config"];
        for (const char* not_said : {"model_type", "mlp_layer_types", "head_dim", "rope_parameters"})
            text.erase(not_said);
        text.update({{"use_mla", false},
                     {"kv_lora_rank", nullptr},
                     {"q_lora_rank", nullptr},
                     {"v_head_dim", 0},
                     {"qk_nope_head_dim", 0},
                     {"qk_rope_head_dim", 0},
                     {"lm_head", true},
                     {"rm_head", false},
                     {"n_group", 1},
                     {"topk_group", 1},
                     {"first_k_dense_replace", 1}});
        folder.config = {{"model_type", "deepseek_vl_v2"}, {"language_config", text}};
        folder.add("model.sam_model.x", {3});
    };
    const auto of_step = [&](HfFolder& folder) {
        json text = folder.config["text_config"];
        text["rope_scaling"] = text["rope_parameters"]["full_attention"];
        for (const char* by_layer : {"rope_theta", "partial_rotary_factor"})
            text["rope_scaling"].erase(by_layer);
        for (const char* not_said : {"rope_parameters", "mlp_layer_types", "num_sliding_attention_heads",
                                     "per_layer_config", "query_pre_attn_scalar", "num_key_value_heads"})
            text.erase(not_said);
        for (const char* list : {"layer_types", "swiglu_limits", "swiglu_limits_shared"})
            text[list].push_back(text[list][0]);  // of the layer that guesses ahead
        text.update({{"num_attention_groups", 2},
                     {"num_nextn_predict_layers", 1},
                     {"moe_layers_enum", "1,2,3"},
                     {"rope_theta", {5e5, 1e4, 1e4, 5e5, 5e5}},
                     {"partial_rotary_factors", {0.5, 1.0, 1.0, 0.5, 0.5}},
                     {"attention_other_setting", {{"num_attention_heads", 6}}}});
        text["rope_theta"][3] = 1e4;
        text["partial_rotary_factors"][3] = 1.0;
        folder.config = text;
        folder.add("model.layers.4.mtp.weight", {3});
    };
    const auto of_phi = [&](HfFolder& folder) {
        folder.config["model_type"] = "phi4mm";
        folder.config["speech_lora"] = folder.config["embd_layer"] = {{"r", 2}};
        const auto tensors = std::exchange(folder.tensors, {});
        for (const auto& [name, tensor] : tensors) {
            std::string with = name;
            if (const size_t at = name.find("_proj.weight"); at != name.npos) {
                with.insert(at + 5, ".base_layer");
                folder.add(name.substr(0, at + 5) + ".lora_A.vision.weight", {3});
            }
            folder.tensors[with] = tensor;
        }
    };
    struct Case {
        const char* name;
        std::function<void(HfFolder&)> change;
    };
    const Case cases[] = {{"qwen2_5_omni_thinker", thinks},
                          {"qwen3_omni_moe_thinker", thinks},
                          {"internlm3", of_internvl},
                          {"deepseek_ocr2", of_ocr},
                          {"step3p7", of_step},
                          {"phi4_multimodal", of_phi}};
    for (const Case& c : cases) {
        CAPTURE(c.name);
        MadeModel made = made_model(c.name);
        const TemporaryFolder folder(made.folder);
        c.change(made.folder);
        const TemporaryFolder published(made.folder);
        const Model ours = open_model(folder.path()), its = open_model(published.path());
        CHECK(ours.architecture == its.architecture);
        CHECK(ours.weights.size() == its.weights.size());
        CHECK(std::ranges::all_of(its.unused, [&](const auto& each) { return is_spare(its, each); }));
    }
}

// Graphs, whose kernels the other tests choose differently: once on a fast driver is enough, unless deep.
TEST_CASE("vulkan: families without fixtures have the logits of transformers" *
          doctest::skip(few_models() || floor_tier())) {
    for (const MadeModel& made : made_models()) {
        CAPTURE(made.name);
        const TemporaryFolder folder(made.folder);
        Engine engine(std::make_shared<const Model>(open_model(folder.path())),
                      engine_options(Precision::strict));
        Session session(engine);
        if (!made.source.empty()) session.encode(made.source);
        CHECK(largest_error(made.logits, session.forward(made.ids, false).logits) <= strict_error);
        if (!engine.model().architecture.bidirectional()) CHECK(error_of_last(made, engine) <= strict_error);
        CHECK(engine.device().validation_errors() == 0);
    }
}

TEST_CASE(
    "reference: a folder whose latent norms have an epsilon of their own becomes a GGUF of nearly the same") {
    MadeModel made = made_model("kimi_linear");
    made.folder.config["rms_norm_eps"] = 1e-5;  // as published
    const TemporaryFolder folder(made.folder);
    const Model model = open_model(folder.path());
    const std::optional<Model> gguf = as_gguf(model, folder.path());
    REQUIRE(gguf);
    reference::Executor ours(model), its(*gguf);
    CHECK(largest_error(ours.forward(made.ids).logits, its.forward(made.ids).logits) <= 1e-4);
}

TEST_CASE("vulkan: layers that read another's keys see them in its ring") {
    const TemporaryFolder folder(made_model("gemma4_text").folder);
    const auto model = std::make_shared<const Model>(open_model(folder.path()));
    EngineOptions options = engine_options(Precision::strict);
    options.prompt_chunk = 16;
    Engine engine(model, options);
    std::string parts;
    for (const KvPart& part : engine.memory_plan().kv_parts)
        parts += cat(part.slots, " ", kv_part_names[size_t(part.kind)], " ", part.positions, ", ");
    CHECK(parts == "3 window 32, 1 full 160, 3 shared 0, ");
    std::vector<TokenId> ids;
    for (TokenId i = 0; i < 150; ++i) ids.push_back((7 * i * i + 3 * i) % 61 + 3);
    reference::Executor executor(*model);
    const std::vector<double> expected = executor.forward(ids, reference::Outputs::last).logits;
    Session session(engine);
    session.append(ids);
    CHECK(largest_error(expected, session.logits()) <= strict_error);

    options.device.select = "0,0";
    CHECK_THROWS_WITH_AS(Engine(model, options), doctest::Contains("expected one device for gemma4_text"),
                         Error);
}

TEST_CASE("vulkan: the head reads all streams of a model that has several") {
    const MadeModel made = made_model("gemma3n_text");
    const TemporaryFolder folder(made.folder);
    Engine engine(std::make_shared<const Model>(open_model(folder.path())),
                  engine_options(Precision::strict));
    Session session(engine);
    const ForwardResult all = session.forward(made.ids, true);
    CHECK(all.hidden_size == 3 * 48);
    CHECK(all.last_hidden_size() == 48);
    const size_t rows = std::min<size_t>(made.ids.size(), session.head_rows());
    const std::vector<float> logits =
        session.head(std::span(all.hidden.back()).first(rows * all.hidden_size));
    CHECK(largest_error(std::vector<double>(all.logits.begin(), all.logits.begin() + long(rows * all.vocab)),
                        logits) <= strict_error);
    CHECK_THROWS_WITH_AS((void)session.head(std::span(all.hidden.back()).first(48)),
                         doctest::Contains("rows of 144"), Error);
}

TEST_CASE("convert: heads of several sizes are not pooled as if they were of one") {
    const TemporaryFolder folder(made_model("gemma4_text").folder);
    CHECK_THROWS_WITH_AS(pool_heads(folder.path(), folder.path() / "pooled", 1, {}),
                         doctest::Contains("expected plain attention of a decoder"), Error);
}

TEST_CASE("reference: a translator's decoder begins with the language that its folder forces") {
    MadeModel made = made_model("m2m_100");
    const auto begins = [&] {
        const TemporaryFolder folder(made.folder);
        return decoder_begin(open_model(folder.path()));
    };
    CHECK(begins() == std::vector<TokenId>{2});
    made.folder.config["forced_bos_token_id"] = 9;
    CHECK(begins() == std::vector<TokenId>{2, 9});
    made.folder.files["generation_config.json"] = R"({"forced_bos_token_id": 7})";
    CHECK(begins() == std::vector<TokenId>{2, 7});
}

TEST_CASE("reference: Pegasus' ids are not those of its SentencePiece model") {
    MadeModel made = made_model("pegasus");
    made.folder.files["spiece.model"] = "any";
    const TemporaryFolder folder(made.folder);
    const Model model = open_model(folder.path());
    CHECK(model.tokenizer == nullptr);
    CHECK(model.tokenizer_problem.find("expected tokenizer.json") != std::string::npos);
}

TEST_CASE("reference: a folder with an adapter beside its weights is refused") {
    MadeModel made = made_model("internlm3");
    made.folder.add("model.layers.0.self_attn.q_proj.lora_A.default.weight", {3});
    const TemporaryFolder folder(made.folder);
    CHECK_THROWS_WITH_AS(open_model(folder.path()), doctest::Contains("an adapter beside them"), Error);
}
