// Sparse latent attention (struct Indexer): models of made_models.jsonl of which a query sees few keys.
#include "engine.h"
#include "fail.h"
#include "made_models.h"
#include "reference/executor.h"
#include "support/device.h"
#include "support/golden.h"
#include "validate/model_check.h"

using namespace scoria;
using namespace scoria::test;

namespace {

std::vector<TokenId> many_ids() {
    std::vector<TokenId> ids;
    for (TokenId i = 0; i < 150; ++i) ids.push_back((7 * i * i + 3 * i) % 61 + 3);
    return ids;
}

EngineOptions in_chunks(uint32_t chunk) {
    EngineOptions options = engine_options(Precision::strict);
    options.prompt_chunk = chunk;
    return options;
}

}  // namespace

TEST_CASE("reference: layers may list, spell or count which of them choose keys") {
    const TemporaryFolder listed(made_model("glm_moe_dsa").folder);
    const std::vector<Layer> layers = open_model(listed.path()).architecture.layers;
    CHECK(layers[0].attention.indexer.top == 5);
    CHECK(layers[1].attention.indexer.shared);
    CHECK(layers[2].attention.indexer == layers[0].attention.indexer);
    for (const char* other :
         {R"({"index_topk_pattern": "FSF"})", R"({"index_topk_freq": 2, "index_skip_topk_offset": 1})",
          R"({"index_topk_pattern": ["full", "shared", "full"]})"}) {
        CAPTURE(other);
        MadeModel made = made_model("glm_moe_dsa");
        made.folder.config.erase("indexer_types");
        made.folder.config.update(nlohmann::json::parse(other));
        const TemporaryFolder folder(made.folder);
        CHECK(open_model(folder.path()).architecture.layers == layers);
    }
}

TEST_CASE("reference: indexers that cannot be are refused, and where a tensor lacks") {
    const std::pair<const char*, const char*> cases[] = {
        {R"({"index_topk": 0})", "index_topk: expected"},
        {R"({"index_head_dim": 4})", "index_head_dim: expected at least the 8 elements that rotate"},
        {R"({"index_n_heads": 5})", "indexer.wq_b.weight: expected [80, 20]"},
        {R"({"indexer_types": ["shared", "full", "full"]})", "indexer_types: expected a type of each of 3"},
        {R"({"indexer_types": ["full", "full"]})", "indexer_types: expected a type of each of 3"},
        {R"({"indexer_types": ["full", "some", "full"]})", "indexer_types: expected full or shared"},
        {R"({"indexer_types": ["full", "full", "full"]})", "layers.1.self_attn.indexer"},
        {R"({"indexer_rope_interleave": false})", "indexer_rope_interleave: expected true"},
        {R"({"q_lora_rank": null})", "index_n_heads: expected queries of a rank of their own"},
    };
    for (const auto& [change, message] : cases) {
        CAPTURE(message);
        MadeModel made = made_model("glm_moe_dsa");
        made.folder.config.update(nlohmann::json::parse(change));
        const TemporaryFolder folder(made.folder);
        CHECK_THROWS_WITH_AS(open_model(folder.path()), doctest::Contains(message), Error);
    }
}

TEST_CASE("vulkan: keys are chosen in prompts of many chunks, in steps, and on two devices") {
    const std::pair<const char*, const char*> cases[] = {{"deepseek_v32", "3 latent 160, 3 index 160, "},
                                                         {"glm_moe_dsa", "3 latent 160, 2 index 160, "}};
    for (const auto& [name, parts] : cases) {
        CAPTURE(name);
        const TemporaryFolder folder(made_model(name).folder);
        const auto model = std::make_shared<const Model>(open_model(folder.path()));
        const std::vector<TokenId> ids = many_ids();
        reference::Executor executor(*model);
        const std::vector<double> expected = executor.forward(ids, reference::Outputs::last).logits;

        EngineOptions options = in_chunks(16);
        Engine engine(model, options);
        std::string text;
        for (const KvPart& part : engine.memory_plan().kv_parts)
            text += cat(part.slots, " ", kv_part_names[size_t(part.kind)], " ", part.positions, ", ");
        CHECK(text == parts);
        Session session(engine);
        session.append(std::span(ids).first(145));
        for (size_t i = 145; i < ids.size(); ++i) session.append(std::span(ids).subspan(i, 1));
        CHECK(largest_error(expected, session.logits()) <= strict_error);
        CHECK(validate::check_model(engine, std::span(ids).first(16)).passed());
        CHECK(engine.device().validation_errors() == 0);

        options.deterministic = true;
        options.device.select = "0,0";
        Engine two(model, options);
        CHECK(two.memory_plan().before[0].kv + two.memory_plan().kv == engine.memory_plan().kv);
        Session shared(two);
        shared.append(ids);
        CHECK(largest_error(expected, shared.logits()) <= strict_error);
    }
}

TEST_CASE("vulkan: layers that see what another chose stay on its device") {
    MadeModel made = made_model("glm_moe_dsa");
    made.folder.config["indexer_types"] = {"full", "shared", "shared"};
    made.folder.drop("layers.2.self_attn.indexer");
    const TemporaryFolder folder(made.folder);
    const auto model = std::make_shared<const Model>(open_model(folder.path()));
    EngineOptions options = in_chunks(16);
    options.device.select = "0,0";
    CHECK_THROWS_WITH_AS(Engine(model, options), doctest::Contains("expected layers that can be cut in 2"),
                         Error);
}
