// Layers that look back no further than a window cache no more than that, in a ring of blocks: against
// goldens, against an engine with room for everything, and over sequences many times as long as the window.
#include "beam_search.h"
#include "fail.h"
#include "reference/executor.h"
#include "support/compare.h"
#include "support/device.h"
#include "support/golden.h"

#include <algorithm>

using namespace scoria;
using namespace scoria::test;

namespace {

constexpr uint32_t ring_chunk = 16;

std::shared_ptr<Model> ring_fixture(const std::string& family) {
    return std::make_shared<Model>(open_model(fixtures() + "/models/" + family));
}

EngineOptions ring_options(uint32_t context) {
    EngineOptions options = engine_options(Precision::strict);
    options.context = context;
    options.prompt_chunk = ring_chunk;
    options.device.poison = true;  // what was never written is NaN
    options.device.poison_word = 0x7FC0DEADu;
    return options;
}

std::vector<TokenId> window_ids(size_t count, uint32_t vocab) {
    std::vector<TokenId> ids(count);
    uint32_t state = 12345;
    for (TokenId& id : ids) id = TokenId(3 + (state = state * 1664525 + 1013904223) / 65536 % (vocab - 3));
    return ids;
}

std::string text_of(const std::vector<KvPart>& parts) {
    std::string text;
    for (const KvPart& part : parts)
        text += cat(text.empty() ? "" : ", ", part.slots, " ", kv_part_names[size_t(part.kind)], " ",
                    part.positions);
    return text;
}

struct RingRow {
    const char* family;
    const char* parts;  // of a cache of 128 positions: 24 seen and 16 at a time are 39, so 2 blocks
    bool deep = true;   // in which tier its goldens are computed
};
constexpr RingRow ring_rows[] = {
    {"mistral", "2 window 64", false},
    {"gemma3-text", "5 window 64, 1 full 128", false},
    {"gpt-oss", "1 window 64, 1 full 128", false},
    {"image-transformer", "2 window 64", false},  // a block of 16 and 10 before it
    {"gemma2", "1 window 64, 1 full 128"},
    {"cohere2", "3 window 64, 1 full 128"},
    {"gpt3", "1 full 128, 1 window 64"},
    {"gpt-neo", "1 full 128, 1 window 64"},
    {"phi3", "2 window 64"},
    {"starcoder2", "2 window 64"},
    {"llama3", "2 full 128"},
    {"deepseek-v2", "2 latent 128", false},
    {"prefix-lm", "2 full 128"},
    {"hunyuan-large", "2 full 128, 2 shared 0"},
};

struct RingOutcome {
    std::vector<std::vector<float>> logits;
    std::vector<std::vector<TokenId>> tokens;
    bool operator==(const RingOutcome&) const = default;
};

/// A prompt, an answer, and what follows after cutting back by a little, by more than a ring still holds, and
/// to nearly nothing.
RingOutcome ring_outcome(const std::shared_ptr<const Model>& model, const EngineOptions& options) {
    Engine engine(model, options);
    Session session(engine);
    const std::vector<TokenId> ids = window_ids(300, model->architecture.vocab);
    RingOutcome result;
    const auto go_on = [&](uint32_t kept, uint32_t until) {
        session.truncate(kept);
        session.append(std::span(ids).subspan(kept, until - kept));
        result.logits.push_back(session.logits());
        result.tokens.push_back(
            session.generate({.sampling = {}, .max_tokens = 9, .ignore_end = true, .on_token = {}}).tokens);
    };
    go_on(0, 200);
    go_on(195, 230);
    go_on(120, 240);
    go_on(60, 61);
    go_on(3, 130);
    // On both sides of the last position that 64 of them allow, 24 being seen.
    for (uint32_t back = 38; back <= 45; ++back) {
        const uint32_t kept = uint32_t(session.tokens().size()) - back;
        go_on(kept, kept + 2);
        go_on(kept + 2, kept + 45);
    }
    const std::vector<Beam> beams =
        beam_search(engine, {}, std::span(ids).first(100), {.width = 3, .max_tokens = 8, .ends = {}});
    for (const Beam& beam : beams) result.tokens.push_back(beam.tokens);
    CHECK(engine.device().validation_errors() == 0);
    return result;
}

}  // namespace

TEST_CASE("a windowed layer's cache is planned for its window" * needs_fixtures()) {
    for (const RingRow& row : ring_rows) {
        CAPTURE(row.family);
        const std::shared_ptr<Model> model = ring_fixture(row.family);
        const MemoryPlan plan = plan_memory(*model, ring_options(128));
        CHECK(text_of(plan.kv_parts) == row.parts);
        uint64_t bytes = 0;
        for (const KvPart& part : plan.kv_parts) {
            const Attention a = cache_slots(model->architecture)[0];
            CHECK(part.bytes == 4ull * part.slots * part.positions * a.kv_heads * a.head_dim *
                                    (part.kind == KvPart::Kind::latent ? 1 : 2));
            bytes += part.bytes;
        }
        CHECK(bytes == plan.kv);
        // Four times the context costs windowed layers nothing.
        model->architecture.context = 512;
        if (model->architecture.positions == 0 && row.parts == std::string("2 window 64"))
            CHECK(plan_memory(*model, ring_options(512)).kv == plan.kv);
    }
}

TEST_CASE("vulkan: rings reproduce goldens" * needs_fixtures_and_time()) {
    const bool few = few_models();
    for (const RingRow& row : ring_rows) {
        if ((row.deep || (few && &row != ring_rows)) && !deep()) continue;
        CAPTURE(row.family);
        const std::shared_ptr<const Model> model = ring_fixture(row.family);
        if (model->architecture.sees_ahead()) continue;
        const Safetensors golden(fixtures() + "/models/" + row.family + "/golden.safetensors");
        const std::vector<TokenId> ids = read_ids(golden, "long.input_ids"),
                                   greedy = read_ids(golden, "long.greedy");
        Engine engine(model, ring_options(model->architecture.context));
        Session session(engine);
        CHECK(largest_error(golden.read<float>("long.logits"), session.forward(ids, false).logits) <=
              strict_error);
        Session fresh(engine);
        fresh.append(ids);
        GenerateOptions options;
        options.max_tokens = uint32_t(greedy.size());
        options.ignore_end = true;
        CHECK(fresh.generate(options).tokens == greedy);
        CHECK(engine.device().validation_errors() == 0);
    }
}

TEST_CASE("vulkan: a ring answers as a whole cache does, bit for bit, however it is cut back" *
          needs_fixtures_and_time()) {
    for (const char* family : {"mistral", "gemma3-text"}) {
        CAPTURE(family);
        if (family != std::string("mistral") && !deep()) continue;
        const std::shared_ptr<Model> model = ring_fixture(family);
        model->architecture.context = 320;
        for (const KvType type : {KvType::q8_0, KvType::f16, KvType::f32, KvType::bf16, KvType::q4_0}) {
            if (type != KvType::q8_0 && !deep()) continue;
            const std::string name = kv_type_names[size_t(type)];
            CAPTURE(name);
            EngineOptions options = ring_options(320);
            options.deterministic = true;
            options.kv = type;
            CHECK(plan_memory(*model, options).kv_parts[0].positions == 64);
            const RingOutcome ring = ring_outcome(model, options);
            options.prompt_chunk = 320;
            CHECK(plan_memory(*model, options).kv_parts[0].kind == KvPart::Kind::full);
            CHECK(ring == ring_outcome(model, options));
        }
    }
}

TEST_CASE("vulkan: a long input in bounded memory" * needs_fixtures_and_time()) {
    const uint32_t length = deep() ? 32768 : 2048;
    const std::shared_ptr<Model> model = ring_fixture("mistral");
    model->architecture.context = length;
    EngineOptions options = engine_options(Precision::strict);
    options.context = length;
    options.prompt_chunk = 256;
    Engine engine(model, options);
    const MemoryPlan& plan = engine.memory_plan();
    CHECK(text_of(plan.kv_parts) == "2 window 288");  // 23 + 256 positions
    Session session(engine);
    reference::Executor executor(*model);
    const std::vector<TokenId> ids = window_ids(length, model->architecture.vocab);
    double worst = 0;
    uint32_t samples = 0;
    for (uint32_t done = 0; done < length;) {
        const uint32_t count = std::min(length - done, 331u);
        const std::span<const TokenId> part = std::span(ids).subspan(done, count);
        session.append(part);
        const reference::Result expected = executor.forward(part, reference::Outputs::last);
        worst = std::max(worst, largest_error(expected.logits, session.logits()));
        done += count;
        ++samples;
    }
    MESSAGE(length << " tokens, " << samples << " positions sampled: off by " << worst);
    CHECK(worst <= strict_error);
    double ours = 0;
    for (const vk::HeapState& heap : engine.device().heaps()) ours += double(heap.ours);
    CHECK(ours <= double(plan.device_total() + (4 << 20)));  // all positions of 32,768 would be 25 MB more
    CHECK(engine.device().validation_errors() == 0);
}
