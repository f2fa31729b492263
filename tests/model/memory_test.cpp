// Models beyond the device's memory: what they answer does not depend on where their weights stand.
#include "loader/hf_builder.h"
#include "support/compare.h"
#include "support/device.h"
#include "support/golden.h"

#include "fail.h"

#include <array>
#include <cstring>

using namespace scoria;
using namespace scoria::test;

namespace {

struct Answer {
    MemoryPlan plan;
    std::vector<float> logits;
    std::vector<TokenId> tokens;
};

Answer answer(const std::shared_ptr<const Model>& model, const EngineOptions& options,
              std::span<const TokenId> ids, uint32_t count) {
    Engine engine(model, options);
    Session session(engine);
    if (model->architecture.encoder.empty()) {
        session.append(ids);
    } else {
        session.encode(ids);
        session.append(std::array{TokenId(model->architecture.decoder_start)});
    }
    Answer result{engine.memory_plan(), session.logits(), {}};
    GenerateOptions generate;
    generate.max_tokens = count;
    generate.ignore_end = true;
    result.tokens = session.generate(generate).tokens;
    CHECK(engine.device().validation_errors() == 0);
    return result;
}

/// The same bits, whichever weights stand on the host: `budget` must leave some there.
void check_alike(const Answer& plenty, const Answer& little, uint64_t budget) {
    CHECK(plenty.plan.host_weights == 0);
    CHECK(little.plan.host_weights > 0);
    CHECK(little.plan.device_total() <= budget);
    CHECK(plenty.plan.chunk == little.plan.chunk);
    CHECK(plenty.tokens == little.tokens);
    REQUIRE(plenty.logits.size() == little.logits.size());
    CHECK(std::memcmp(plenty.logits.data(), little.logits.data(), 4 * plenty.logits.size()) == 0);
}

}  // namespace

TEST_CASE("vulkan: SmolLM2 in 30 MB of device memory answers the same" * needs_fast_driver()) {
    const std::string path = real_model_or_message();
    if (path.empty()) return;
    const auto model = std::make_shared<const Model>(open_model(path));
    const Safetensors golden(fixtures() + "/smollm2/golden.safetensors");
    EngineOptions options = engine_options(Precision::strict);
    options.context = 128;
    options.prompt_chunk = 32;
    const RealPrompt& prompt = real_prompts[0];
    const std::vector<TokenId> ids = read_ids(golden, prompt.name + ".ids");
    const uint32_t count = slow_driver() ? 2 : 8;
    const Answer plenty = answer(model, options, ids, count);
    const uint64_t table = model->weights.at({Role::token_embedding}).bytes();
    options.memory_budget = 30'000'000;
    CHECK(table > options.memory_budget);  // streamed by rows
    for (const uint64_t seed : {0, 1, 2}) {
        if (slow_driver() && seed) break;
        options.shuffle_seed = seed;
        check_alike(plenty, answer(model, options, ids, count), options.memory_budget);
    }
}

TEST_CASE("vulkan: every kind of weight may stand on the host" * needs_fixtures_and_time()) {
    const std::vector<TokenId> ids{3, 50, 7, 100, 9, 11, 90, 33, 4, 8, 21};
    constexpr std::array kinds{"mixtral", "llama3.2-tied",          "gpt2", "deepseek-v2",
                               "t5",      "compressive-transformer"};
    for (const char* const name : std::span(kinds).first(few_models() ? 1 : kinds.size())) {
        CAPTURE(name);
        const auto model = std::make_shared<const Model>(open_model(fixtures() + "/models/" + name));
        EngineOptions options = engine_options(Precision::strict);
        options.context = 64;
        options.prompt_chunk = 32;
        const Answer plenty = answer(model, options, ids, 8);
        for (const double left : {0.1, 0.3}) {
            options.memory_budget = plenty.plan.device_total() - uint64_t(left * double(plenty.plan.weights));
            CAPTURE(options.memory_budget);
            check_alike(plenty, answer(model, options, ids, 8), options.memory_budget);
        }
    }
}

TEST_CASE("vulkan: an integrated GPU reads weights and caches on the host where they are" *
          needs_fixtures()) {
    const std::vector<TokenId> ids{3, 50, 7, 100, 9, 11, 90, 33, 4, 8, 21};
    for (const char* const name : {"llama3.2-tied", "deepseek-v2"}) {
        CAPTURE(name);
        const auto model = std::make_shared<const Model>(open_model(fixtures() + "/models/" + name));
        EngineOptions options = engine_options(Precision::strict);
        options.device.caps_profile = SCORIA_SOURCE_DIR "/tests/profiles/apple_m1.json";
        options.context = 64;
        options.prompt_chunk = 32;
        const Answer plenty = answer(model, options, ids, 8);
        options.memory_budget = plenty.plan.device_total() - uint64_t(0.9 * double(plenty.plan.weights));
        const Answer little = answer(model, options, ids, 8);
        check_alike(plenty, little, options.memory_budget);
        CHECK(little.plan.scratch == plenty.plan.scratch);  // no slots
        CHECK(little.plan.host_kv == 0);
        // Next to go are layers of the cache, one by one; a context that was asked for is had.
        options.memory_budget = 1;
        const uint64_t vectors = plan_memory(*model, options).weights;  // which never leave
        options.memory_budget = vectors + plenty.plan.scratch + plenty.plan.kv * 2 / 3;
        const Answer least = answer(model, options, ids, 8);
        check_alike(plenty, least, options.memory_budget);
        CHECK(least.plan.kv > 0);
        CHECK(least.plan.host_kv > 0);
        CHECK(least.plan.kv + least.plan.host_kv == plenty.plan.kv);
    }
}

TEST_CASE("vulkan: what a smaller cache costs" * needs_fast_driver()) {
    const std::string path = real_model_or_message();
    if (path.empty()) return;
    const auto model = std::make_shared<const Model>(open_model(path));
    const Safetensors golden(fixtures() + "/smollm2/golden.safetensors");
    const RealPrompt& prompt = real_prompts[0];
    const std::vector<TokenId> ids = read_ids(golden, prompt.name + ".ids");
    const std::vector<float> expected = golden.read<float>(prompt.name + ".last_logits");
    struct Row {
        KvType type;
        double nmse;  // without spread keys q8_0 has 3.2e-4, q4_0 4.5e-2
    };
    uint64_t bytes = UINT64_MAX;
    for (const Row& row : {Row{KvType::bf16, 1e-4}, Row{KvType::q8_0, 3e-4}, Row{KvType::q4_0, 4e-2}}) {
        const std::string name = kv_type_names[size_t(row.type)];
        CAPTURE(name);
        EngineOptions options = engine_options(Precision::balanced);
        options.kv = row.type;
        options.context = 128;
        Engine engine(model, options);
        Session session(engine);
        session.append(ids);
        const double nmse = nmse_mean_removed(expected, session.logits());
        MESSAGE(name << ": logits NMSE " << nmse);
        CHECK(nmse < row.nmse);
        CHECK(nmse > row.nmse / 1000);  // it is this cache that was used
        CHECK(engine.memory_plan().kv < bytes);
        bytes = engine.memory_plan().kv;
        CHECK(engine.device().validation_errors() == 0);
    }
}

TEST_CASE("vulkan: a long context first, then weights leave the device" * needs_fixtures()) {
    const std::string path = real_model_or_message();
    if (path.empty()) return;
    const Model model = open_model(path);
    EngineOptions options = engine_options(Precision::balanced);
    struct Row {
        uint64_t megabytes;
        uint32_t context;  // positions of 23 KB
        bool host_weights;
    };
    for (const Row& row : {Row{400, 8192, false}, Row{250, 4096, false}, Row{160, 2048, false},
                           Row{120, 2048, true}, Row{64, 2048, true}, Row{40, 1024, true}}) {
        CAPTURE(row.megabytes);
        options.memory_budget = row.megabytes * 1'000'000;
        const MemoryPlan plan = plan_memory(model, options);
        CHECK(plan.fits());
        CHECK(plan.context == row.context);
        CHECK((plan.host_weights > 0) == row.host_weights);
        CHECK(plan.device_total() <= options.memory_budget);
    }
    // To an integrated GPU they are as near on the host.
    options.device.caps_profile = SCORIA_SOURCE_DIR "/tests/profiles/apple_m1.json";
    options.memory_budget = 160'000'000;
    const MemoryPlan plan = plan_memory(model, options);
    CHECK(plan.fits());
    CHECK(plan.context == 8192);
    CHECK(plan.host_weights > 0);
    CHECK(plan.host_kv > 0);
    CHECK(plan.host_total() <= plan.host_budget);
}

TEST_CASE("vulkan: what fits nowhere is refused before weights are read" * needs_fixtures()) {
    const auto model = std::make_shared<const Model>(open_fixture(model_fixtures[0]));
    EngineOptions options = engine_options(Precision::strict);
    options.memory_budget = 4096;
    CHECK_FALSE(plan_memory(*model, options).fits());
    CHECK_THROWS_WITH_AS(Engine(model, options), doctest::Contains("[memory] expected at most 4 KiB"), Error);
}

TEST_CASE("vulkan: what must lie within one binding is cut to it, or refused by name" * needs_fixtures()) {
    const auto narrow = [](const char* family, uint64_t binding, EngineOptions options, const auto& use) {
        HfFolder folder = hf_folder(fixtures() + "/models/" + family);
        if (options.context) folder.config["max_position_embeddings"] = options.context;
        folder.files["narrow.json"] = cat("{\"max_storage_range\": ", binding, "}");
        const TemporaryFolder on_disk(folder);
        options.device.caps_profile = (on_disk.path() / "narrow.json").string();
        Engine engine(std::make_shared<const Model>(open_model(on_disk.path())), options);
        use(engine);
        CHECK(engine.device().validation_errors() == 0);
    };
    EngineOptions options = engine_options(Precision::strict);
    CHECK_THROWS_WITH_AS(narrow("llama3", 4096, options, [](Engine&) {}),
                         doctest::Contains("[cache] expected heads of which 32 positions fit"), Error);
    options.context = 8192;
    narrow("llama3", 65536, options, [](Engine& engine) {
        Session session(engine);
        CHECK_THROWS_WITH_AS(session.watch(0), doctest::Contains("[watch] expected a map"), Error);
        session.append(std::vector<TokenId>{3, 40, 114});
        CHECK(session.logits().size() == engine.model().architecture.vocab);
    });
    options.context = 0;
    options.sequences = 64;  // more shards of the cache, and a part of each result from every one
    narrow("bert", 1 << 19, options, [](Engine& engine) {
        Session session(engine);
        (void)session.forward(std::vector<TokenId>(engine.memory_plan().chunk, 3), false);
    });
}
