// What `scoria tune` keeps: a faster variant is found, run and proven; what a file says of another build or
// driver, what no device offers, and what is quarantined, never runs.
#include "engine.h"
#include "fail.h"
#include "instruments/tune.h"
#include "support/cache_folder.h"
#include "support/compare.h"
#include "support/device.h"
#include "support/golden.h"
#include "tuned_variants.h"
#include "verdicts.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

using namespace scoria;
using namespace scoria::test;
namespace fs = std::filesystem;

namespace {

const ModelFixture& tuned_fixture() {
    return *std::ranges::find(model_fixtures, std::string("gguf/llama3.gguf"), &ModelFixture::gguf);
}
std::shared_ptr<const Model> tuned_model() {
    static const auto model = std::make_shared<const Model>(open_fixture(tuned_fixture()));
    return model;
}

struct TuneFolder : CacheFolder {
    EngineOptions options() const {
        EngineOptions result = CacheFolder::options(SelfTest::never);
        result.tuned = true;
        return result;
    }
};

std::vector<TuneTarget> targets_of(const Engine::Impl& engine) {
    return tune_targets(engine.plan, engine.graph, engine.choices, engine.limits());
}

/// A linear of one token, and a candidate for it that is not its default.
struct Found {
    TuneTarget target;
    LinearShape shape;
    LinearVariant standard, other;
};
Found found_for(const Engine::Impl& engine) {
    const std::vector<TuneTarget> targets = targets_of(engine);
    const TuneTarget& target = *std::ranges::find_if(
        targets, [](const TuneTarget& each) { return std::holds_alternative<LinearShape>(each.shape); });
    const LinearShape shape = std::get<LinearShape>(target.shape);
    const std::vector<LinearVariant> all = linear_candidates(engine.device.caps(), shape);
    const LinearVariant standard = engine.choices.linear(engine.device.caps(), shape);
    return {target, shape, standard,
            *std::ranges::find_if(all, [&](const auto& each) { return each.name != standard.name; })};
}

std::string runs(Engine::Impl& engine, const LinearShape& shape) {
    return engine.choices.linear(engine.device.caps(), shape).name;
}

bool answers_golden(const EngineOptions& options) {
    const Safetensors golden(fixtures() + "/" + tuned_fixture().golden);
    Engine engine(tuned_model(), options);
    Session session(engine);
    return largest_error(golden.read<float>("long.logits"),
                         session.forward(read_ids(golden, "long.input_ids"), false).logits) <= strict_error;
}

}  // namespace

TEST_CASE("vulkan: a tuned variant runs where it is valid, and nowhere else" * needs_fixtures()) {
    TuneFolder cache;
    Engine::Impl plain(tuned_model(), cache.options());
    const vk::Caps& caps = plain.device.caps();
    const Found found = found_for(plain);
    TunedBook book(cache.folder.string(), caps);
    CHECK(book.entries().empty());
    book.set(found.target.key(), found.other.name);
    book.set("linear of no size", "no variant");
    book.save();
    {
        Engine::Impl engine(tuned_model(), cache.options());
        CHECK(runs(engine, found.shape) == found.other.name);
        engine.choices.forced.emplace("linear", found.standard.name);
        CHECK(runs(engine, found.shape) == found.standard.name);
        engine.choices.forced.clear();
        engine.choices.pinned = true;
        CHECK(runs(engine, found.shape) != found.other.name);
    }
    CHECK(answers_golden(cache.options()));
    EngineOptions options = cache.options();
    options.tuned = false;
    Engine::Impl unasked(tuned_model(), options);
    CHECK(runs(unasked, found.shape) == found.standard.name);

    VerdictBook verdicts(cache.folder.string(), caps);
    verdicts.failed(variant_key("linear", found.other.name, linear_of(found.shape.type)), "for the test");
    verdicts.save();
    Engine::Impl quarantined(tuned_model(), cache.options());
    CHECK(runs(quarantined, found.shape) == found.standard.name);
}

TEST_CASE("vulkan: two processes that tune at once keep what both have found" * needs_fixtures()) {
    TuneFolder cache;
    const vk::Device device({.select = variable("SCORIA_DEVICE")});
    const auto book = [&] { return TunedBook(cache.folder.string(), device.caps()); };
    TunedBook before = book();
    before.set("old", "of before");
    before.set("new", "of before");
    before.save();
    TunedBook one = book(), other = book();
    one.set("new", "of one");
    one.set("of one", "alone");
    one.save();
    other.erase("old");
    other.set("of the other", "alone");
    other.save();
    const TunedEntries all{{"new", "of one"}, {"of one", "alone"}, {"of the other", "alone"}};
    CHECK(other.entries() == all);
    CHECK(book().entries() == all);
}

TEST_CASE("vulkan: what was tuned may be damaged, stale, or a lie" * needs_fixtures()) {
    TuneFolder cache;
    Engine::Impl plain(tuned_model(), cache.options());
    const Found found = found_for(plain);
    TunedBook book(cache.folder.string(), plain.device.caps());
    book.set(found.target.key(), found.other.name);
    book.save();
    std::ifstream in(book.path());
    const std::string whole{std::istreambuf_iterator<char>(in), {}};
    const nlohmann::json good = nlohmann::json::parse(whole);
    const auto with = [&](const char* field, const nlohmann::json& value) {
        nlohmann::json changed = good;
        changed[field] = value;
        return changed.dump();
    };
    const std::string texts[] = {
        "",
        "[]",
        "\xff\xfe\x01 no text",
        std::string(100000, '['),
        whole.substr(0, whole.size() / 2),
        with("build", "another"),
        with("driver", "another"),
        with("device", "another"),
        with("format", 2),
        with("variants", 5),
        with("variants", {{found.target.key(), 7}}),
        with("variants", {{found.target.key(), "vec 8 tokens 4294967295 pairs 1 parts 0"}}),
        with("variants", {{found.target.key(), "coop 128x128 of 64x64 of nothing"}}),
    };
    for (const std::string& text : texts) {
        CAPTURE(text.substr(0, 200));
        std::ofstream(book.path()) << text;
        Engine::Impl engine(tuned_model(), cache.options());
        CHECK(engine.choices.tuned_linear.empty());
        CHECK(runs(engine, found.shape) == found.standard.name);
    }
    CHECK(cache.logged.find("is ignored") != std::string::npos);
    std::ofstream(book.path()) << whole;
    Engine::Impl engine(tuned_model(), cache.options());
    CHECK(runs(engine, found.shape) == found.other.name);
}

TEST_CASE("vulkan: tuning keeps what is faster, and the golden holds with it" * needs_fixtures()) {
    TuneFolder cache;
    EngineOptions options = cache.options();
    std::vector<TuneRow> rows;
    constexpr double seconds = 1;
    const TuneReport report =
        tune(tuned_model(), options,
             {.seconds = seconds, .on_row = [&](const TuneRow& row) { rows.push_back(row); }});
    REQUIRE(!report.rows.empty());
    CHECK(rows.size() == report.rows.size());
    CHECK(report.targets >= report.rows.size());
    Engine::Impl engine(tuned_model(), options);
    const TunedBook book(cache.folder.string(), engine.device.caps());
    size_t faster = 0;
    for (const TuneRow& row : report.rows) {
        CAPTURE(row.key);
        CHECK(row.candidates > 0);
        CHECK(row.us <= row.standard_us);
        CHECK(book.entries().contains(row.key) == (row.variant != row.standard));
        faster += row.variant != row.standard;
    }
    CHECK(engine.choices.tuned_linear.size() + engine.choices.tuned_attention.size() == faster);
    CHECK(answers_golden(options));
    const auto stopped = [] { fail(Status::cancelled, "tune", "for the test"); };
    CHECK_THROWS_AS(tune(tuned_model(), options, {.pause = stopped}), Error);
    CHECK(VerdictBook(cache.folder.string(), engine.device.caps()).verdicts().failed.empty());
}

TEST_CASE("vulkan: tuning in less time keeps what was found before" * needs_fixtures()) {
    TuneFolder cache;
    Engine::Impl plain(tuned_model(), cache.options());
    const TuneTarget first = targets_of(plain).front();
    const AttentionShape shape = std::get<CachedAttention>(first.shape).shape;
    const std::string known = attention_text(attention_candidates(plain.device.caps(), shape).back());
    const auto book = [&] { return TunedBook(cache.folder.string(), plain.device.caps()); };
    TunedBook before = book();
    before.set(first.key(), known);
    before.save();
    std::vector<std::string> timed;
    const auto slowly = [&](const std::string&, const std::string& variant, double) {
        timed.push_back(variant);
        std::this_thread::sleep_for(std::chrono::milliseconds(150));
    };
    CHECK(tune(tuned_model(), cache.options(), {.seconds = 0.1, .on_time = slowly}).rows.size() <= 1);
    CHECK(timed.size() <= 1);
    CHECK(book().entries().at(first.key()) == known);

    timed.clear();  // it is the first to be compared
    const auto after_two = [&] {
        if (timed.size() == 2) fail(Status::cancelled, "tune", "for the test");
    };
    CHECK_THROWS_AS(tune(tuned_model(), cache.options(), {.on_time = slowly, .pause = after_two}), Error);
    REQUIRE(timed.size() == 2);
    CHECK(timed[1] == known);
    CHECK(book().entries().at(first.key()) == known);
}

TEST_CASE("vulkan: goldens hold under every candidate of tuning" *
          doctest::skip(slow_driver() || !have_fixtures() || few_models())) {
    for (const ModelFixture& fixture : model_fixtures) {
        // Grouped queries; heads that are no power of two, and a window.
        if (!fixture.name.starts_with("llama3:") && (fixture.window == 0 || !deep())) continue;
        const auto model = std::make_shared<const Model>(open_fixture(fixture));
        const Safetensors golden(fixtures() + "/" + fixture.golden);
        const std::vector<float> expected = golden.read<float>("long.logits");
        const std::vector<TokenId> ids = read_ids(golden, "long.input_ids"),
                                   greedy = read_ids(golden, "long.greedy");
        size_t most = 2;
        // In the quick tier two, far apart: each is compiled. The first ones are the defaults.
        for (size_t pick = 1; pick < most; pick += deep() ? 1 : std::max<size_t>(1, most / 2)) {
            Engine engine(model, engine_options(Precision::strict));
            Engine::Impl& impl = engine.impl();
            const vk::Caps& caps = impl.device.caps();
            std::string names;
            for (const TuneTarget& target : targets_of(impl)) {
                const auto use = [&](const auto& shape, const auto& all, auto& chosen) {
                    most = std::max(most, all.size());
                    chosen.emplace(shape, all[pick % all.size()]);
                };
                if (const auto* linear = std::get_if<LinearShape>(&target.shape)) {
                    const auto all = linear_candidates(caps, *linear);
                    use(*linear, all, impl.choices.tuned_linear);
                    names += all[pick % all.size()].name + "; ";
                } else {
                    const auto& cached = std::get<CachedAttention>(target.shape);
                    const auto all = attention_candidates(caps, cached.shape);
                    use(cached, all, impl.choices.tuned_attention);
                    names += attention_text(all[pick % all.size()]) + "; ";
                }
            }
            CAPTURE(fixture.name);
            CAPTURE(names);
            Session session(engine);
            CHECK(largest_error(expected, session.forward(ids, false).logits) <= strict_error);
            GenerateOptions generate{.sampling = {}, .max_tokens = 4, .ignore_end = true, .on_token = {}};
            CHECK(session.generate(generate).tokens == std::vector(greedy.begin(), greedy.begin() + 4));
        }
        CHECK(most > 8);
    }
}

TEST_CASE("sizes that a tuned one stands for") {
    const struct {
        uint32_t tokens, stands;
    } cases[] = {{1, 1},   {2, 2},   {3, 4},    {8, 8},     {9, 16},
                 {16, 16}, {17, 64}, {65, 512}, {512, 512}, {4096, 512}};
    for (const auto& c : cases) {
        CAPTURE(c.tokens);
        CHECK(tuned_shape(LinearShape{c.tokens, 1, 1, TensorType::f32}).tokens == c.stands);
    }
    CHECK(tuned_shape(CachedAttention{{1, 8, 2, 64, 1000}, KvType::f16}).shape.context == 1024);
    CHECK(tuned_shape(CachedAttention{{1, 8, 2, 64, 3}, KvType::f16}).shape.context == kv_block_tokens);
}

TEST_CASE("vulkan: goldens hold under every way to multiply experts and latent heads" * needs_fixtures()) {
    const struct {
        const char *gguf, *golden, *op;
    } cases[] = {{"gguf/qwen2-moe.gguf", "models/qwen2-moe/golden.safetensors", "expert_linear"},
                 {"gguf/deepseek-v3.gguf", "gguf/deepseek-v3.golden.safetensors", "head_linear"}};
    for (const auto& [gguf, golden_path, op] : cases) {
        const auto model = std::make_shared<const Model>(open_model(fixtures() + "/" + gguf));
        const Safetensors golden(fixtures() + "/" + golden_path);
        const std::vector<float> expected = golden.read<float>("long.logits");
        const std::vector<TokenId> ids = read_ids(golden, "long.input_ids");
        for (const std::string way : {"direct", "sorted", "plain"}) {
            CAPTURE(gguf);
            CAPTURE(way);
            TuneFolder cache;
            Engine::Impl plain(model, cache.options());
            TunedBook book(cache.folder.string(), plain.device.caps());
            size_t found = 0;
            for (const TuneTarget& target : targets_of(plain)) {
                const auto* shape = std::get_if<ExpertShape>(&target.shape);
                if (!shape) continue;
                // The last of them is the farthest from what would run.
                for (const LinearVariant& variant : expert_candidates(plain.device.caps(), *shape))
                    if (variant.name.starts_with(way)) book.set(target.key(), variant.name);
                found += book.entries().contains(target.key()) && target.key().starts_with(op);
            }
            CHECK(found > 0);
            book.save();
            Engine engine(model, cache.options());
            for (const auto& [shape, variant] : engine.impl().choices.tuned_experts)
                CHECK(variant.name.starts_with(way));
            CHECK(engine.impl().choices.tuned_experts.size() == book.entries().size());
            Session session(engine);
            CHECK(largest_error(expected, session.forward(ids, false).logits) <= strict_error);
        }
    }
}

TEST_CASE("vulkan: a mixture's prompt cut at tiles of its experts' rows has the same bits" *
          needs_fixtures_and_time()) {
    const auto model = std::make_shared<const Model>(open_model(fixtures() + "/gguf/qwen2-moe.gguf"));
    const std::vector<TokenId> ids = [] {
        std::vector<TokenId> many;
        for (uint32_t i = 0; i < 150; ++i) many.push_back(TokenId(3 + i * 7 % 90));
        return many;
    }();
    EngineOptions options = engine_options(Precision::strict);
    std::map<uint32_t, std::string> ways;  // by rows of a tile, the fewest first
    {
        const vk::Device device(options.device);
        const ExpertShape shape{uint32_t(ids.size()), 8, 2, 64, 64, TensorType::f32};
        for (const LinearVariant& variant : expert_linear_variants(device.caps(), shape))
            if (variant.sorted) ways.emplace(variant.rows, variant.name);
    }
    REQUIRE(!ways.empty());
    options.variants = {"expert_linear=" + ways.begin()->second};
    CAPTURE(options.variants.front());
    std::vector<float> logits[2];
    for (const bool cut : {false, true}) {
        options.submission_budget_ms = cut ? 1e-6 : 1e6;
        Engine engine(model, options);
        Session session(engine);
        session.set_profile(true);
        logits[cut] = session.forward(ids, false).logits;
        const auto times = session.stats().prompt_profile;
        Engine::Impl& impl = engine.impl();
        size_t kernels = 0, tiles = 0;
        for (const PlannedKernel& planned : impl.plan.kernels) {
            const auto* k = std::get_if<kernel::ExpertLinear>(&planned.kernel);
            if (!k) continue;
            const ExpertShape shape = expert_shape(impl.plan, impl.graph, *k, uint32_t(ids.size()));
            const LinearVariant variant = impl.choices.experts(impl.device.caps(), shape);
            CHECK(variant.sorted);
            ++kernels;
            tiles += groups_for(shape.rows, variant.rows);
        }
        CHECK(kernels > 0);
        CHECK(size_t(std::ranges::count(times, "expert_linear", &vk::DispatchTime::label)) ==
              (cut ? tiles : kernels));
    }
    CHECK(logits[0] == logits[1]);
}
