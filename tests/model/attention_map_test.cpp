// What a session leaves of its last token on the device: its attention, against the weights that the
// reference computes from the queries and keys of a trace, for every kind of mask, bias and cache; its hidden
// state.
#include "loader/hf_builder.h"
#include "look/look.h"
#include "support/compare.h"
#include "support/device.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace scoria;
using namespace scoria::test;

namespace {

struct MapRow {
    const char* family;
    const char* what;
    KvType kv = KvType::f32;
    bool deep = false;  // in which tier
};
constexpr MapRow map_rows[] = {
    {"llama3", "grouped queries"},
    {"llama3", "f16", KvType::f16, true},
    {"llama3", "bf16", KvType::bf16, true},
    {"llama3", "q8_0", KvType::q8_0},
    {"llama3", "q4_0", KvType::q4_0, true},
    {"gemma2", "soft cap, windows, rings"},
    {"gpt-oss", "sinks"},
    {"bloom", "slopes"},
    {"t5", "a table of biases, a source", KvType::f32, true},
    {"transformer-xl", "biases by query"},
    {"compressive-transformer", "averaged keys", KvType::f32, true},
    {"deepseek-v2", "latent keys"},
    {"gpt3", "bands", KvType::f32, true},
    {"image-transformer", "blocks", KvType::f32, true},
    {"prefix-lm", "a prefix", KvType::f32, true},
};

std::vector<float> on_host(Engine& engine, const SharedView& shared) {
    vk::Buffer readback(engine.device(), shared.view.size, vk::MemoryUse::readback);
    vk::Recorder recorder(engine.device(), engine.pipelines());
    recorder.copy(shared.view, readback.view());
    recorder.make_host_visible();
    const vk::Commands commands = recorder.finish();
    const VkCommandBuffer handle = commands.handle();
    engine.device().wait(engine.device().submit({&handle, 1}));
    std::vector<float> values(shared.view.size / 4);
    std::memcpy(values.data(), readback.mapped().data(), shared.view.size);
    return values;
}

/// Errors of a score are of its size, which weights then err by relatively.
void check_map(const look::Insight& insight, uint32_t layer, uint32_t token, const std::vector<float>& map) {
    for (const look::AttentionMap& expected : insight.maps) {
        if (expected.kind != look::Seen::self || expected.layer != layer) continue;
        CAPTURE(expected.head);
        double worst = 0;
        for (uint32_t key = 0; key <= token; ++key)
            worst = std::max(worst, std::abs(double(map[size_t{expected.head} * (token + 1) + key]) -
                                             double(expected.weights[size_t{token} * expected.keys + key])));
        CHECK(worst < 2e-5);
    }
}

void check_maps(const MapRow& row) {
    CAPTURE(row.family);
    CAPTURE(row.what);
    const auto model = std::make_shared<const Model>(open_model(fixtures() + "/models/" + row.family));
    EngineOptions options = engine_options(Precision::strict);
    options.context = 128;
    options.prompt_chunk = 16;
    options.kv = row.kv;
    options.device.poison = true;
    Engine engine(model, options);
    std::vector<TokenId> ids(48);
    for (size_t i = 0; i < ids.size(); ++i)
        ids[i] = TokenId(3 + (i * 37 + i * i) % (model->architecture.vocab - 3));
    const bool source = !model->architecture.encoder.empty();
    const auto layers = uint32_t(model->architecture.layers.size());
    for (uint32_t layer = 0; layer < layers; ++layer) {
        CAPTURE(layer);
        Session session(engine);
        if (source) session.encode(ids);
        session.append(std::span(ids).first(5));
        session.watch(layer);  // of what is computed already, too
        std::vector<std::pair<uint32_t, std::vector<float>>> maps;
        const auto keep = [&](const SharedView& shared) {
            CHECK(shared.cols == session.tokens().size());
            maps.emplace_back(shared.cols - 1, on_host(engine, shared));
        };
        keep(session.share(SharedKind::attention));
        session.append(std::span(ids).subspan(5));
        keep(session.share(SharedKind::attention));
        GenerateOptions generate{.sampling = {}, .max_tokens = 3, .ignore_end = true, .on_token = {}};
        generate.on_attention = keep;
        session.generate(generate);
        REQUIRE(maps.size() == 5);
        const std::vector<TokenId> all(session.tokens().begin(), session.tokens().end());
        const look::Insight insight = look::look_into(engine, all, source ? ids : std::vector<TokenId>(),
                                                      {.layers = {layer}, .heads = {}});
        for (const auto& each : maps) {
            CAPTURE(each.first);
            check_map(insight, layer, each.first, each.second);
        }
    }
    CHECK(engine.device().validation_errors() == 0);
}

}  // namespace

TEST_CASE("a map on the device is what the reference computes" * needs_fixtures_and_time()) {
    for (const MapRow& row : map_rows)
        if (deep() || !(row.deep || (few_models() && &row != map_rows))) check_maps(row);
}

TEST_CASE("the hidden state on the device is the last token's, though a step has computed it" *
          needs_fixtures()) {
    HfFolder profiles;
    profiles.files = {{"gpu.json", R"({"type": "discrete"})"}};  // a step is on its way when an answer stops
    const TemporaryFolder folder(profiles);
    EngineOptions options = engine_options(Precision::strict);
    options.device.caps_profile = (folder.path() / "gpu.json").string();
    Engine engine(std::make_shared<const Model>(open_model(fixtures() + "/models/llama3")), options);
    Session session(engine), other(engine);
    session.append(std::vector<TokenId>{3, 40, 114, 7, 19});
    GenerateOptions until{.ignore_end = true, .on_token = [](TokenId) { return false; }};
    for (int answer = 0; answer < 3; ++answer) {
        REQUIRE(session.generate(until).tokens.size() == 1);
        const std::vector<float> hidden = on_host(engine, session.share(SharedKind::hidden));
        other.truncate(0);
        const std::vector<float> all = other.forward(session.tokens(), false).last_hidden;
        CHECK(largest_error(std::span(all).last(hidden.size()), hidden) < 1e-4);
    }
    CHECK(engine.device().validation_errors() == 0);
}
