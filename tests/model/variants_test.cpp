// Every golden holds under every forced variant: what the device offers for an op is run in whole models, one
// variant after the other.
#include "engine.h"
#include "loader/gguf_builder.h"
#include "quantise/convert.h"
#include "reference/executor.h"
#include "support/compare.h"
#include "support/device.h"
#include "support/golden.h"

#include <algorithm>

using namespace scoria;
using namespace scoria::test;

namespace {

/// Ids, what the logits of all of them should be, and greedy tokens after them.
struct Expected {
    std::shared_ptr<const Model> model;
    std::vector<TokenId> ids, greedy;
    std::vector<double> logits;
    std::string name;
};

Expected from_golden(const ModelFixture& fixture) {
    const Safetensors golden(fixtures() + "/" + fixture.golden);
    const std::vector<float> logits = golden.read<float>("long.logits");
    return {std::make_shared<const Model>(open_fixture(fixture)),
            read_ids(golden, "long.input_ids"),
            read_ids(golden, "long.greedy"),
            {logits.begin(), logits.end()},
            fixture.name};
}

/// A fixture in another type: the reference reads the same blocks.
Expected quantised(const char* type) {
    const TemporaryFile file("");
    const auto source = open_conversion_source(fixtures() + "/gguf/llama3.gguf");
    ConvertOptions options;
    options.recipe = find_recipe(type);
    convert(*source, file.path(), options);
    Expected expected;
    expected.model = std::make_shared<const Model>(open_model(file.path()));
    for (TokenId i = 0; i < 40; ++i) expected.ids.push_back(3 + (i * 37 + i * i) % 250);
    reference::Executor executor(*expected.model);
    expected.logits = executor.forward(expected.ids).logits;
    executor.reset();
    expected.greedy = executor.greedy(expected.ids, 4);
    expected.name = type;
    return expected;
}

std::vector<Expected> all_expected() {
    std::vector<Expected> all;
    for (const ModelFixture& fixture : model_fixtures) {
        // Grouped queries; heads that are no power of two, and a window.
        const bool telling = fixture.name.starts_with("llama3:") || fixture.window != 0;
        if (deep() || telling) all.push_back(from_golden(fixture));
    }
    for (const char* const type : {"Q8_0", "Q4_0", "Q5_1"})
        if (deep() || type == std::string("Q4_0")) all.push_back(quantised(type));
    return all;
}

using Forced = std::vector<std::string>;  // EngineOptions::variants

/// Variants to force. In the deep tier each by itself under its whole name; else by first words, with one of
/// every other op beside it.
std::vector<Forced> forced_sets(const std::vector<VariantUse>& uses) {
    std::map<std::string, std::vector<std::string>> names;
    for (const VariantUse& use : uses)
        for (const std::string& whole : use.names) {
            const std::string name = deep() ? whole : whole.substr(0, whole.find(' '));
            if (auto& known = names[use.op]; std::ranges::find(known, name) == known.end())
                known.push_back(name);
        }
    std::vector<Forced> sets;
    for (const auto& [op, offered] : names)
        for (size_t i = 0; offered.size() > 1 && i < offered.size(); ++i) {
            if (deep() || i >= sets.size()) sets.emplace_back();
            (deep() ? sets.back() : sets[i]).push_back(op + "=" + offered[i]);
        }
    return sets;
}

/// Runs the model under `forced`, by prompt and token by token, and says how often each op's forced variant
/// ran.
void check_forced(const Expected& expected, Precision precision, const Forced& forced) {
    CAPTURE(expected.name);
    CAPTURE(precision);
    std::string said;
    for (const std::string& each : forced) said += each + "; ";
    CAPTURE(said);
    EngineOptions options = engine_options(precision);
    options.variants = forced;
    Engine engine(expected.model, options);
    Session session(engine);
    const ForwardResult result = session.forward(expected.ids, false);
    if (precision == Precision::strict) CHECK(largest_error(expected.logits, result.logits) <= strict_error);
    CHECK(nmse_mean_removed(expected.logits, result.logits) <= (precision == Precision::strict     ? 1e-6
                                                                : precision == Precision::balanced ? 1e-4
                                                                                                   : 1e-2));
    GenerateOptions generate{.sampling = {}, .max_tokens = 4, .ignore_end = true, .on_token = {}};
    const std::vector<TokenId> tokens = session.generate(generate).tokens;
    if (precision == Precision::strict)
        CHECK(tokens == std::vector(expected.greedy.begin(), expected.greedy.begin() + 4));
    CHECK(engine.device().validation_errors() == 0);

    const std::set<std::string_view> ran = engine.pipelines().modules();
    for (const auto& each : engine.impl().choices.forced) {
        const auto& [op, name] = each;
        bool used = false;
        for (const VariantUse& use : engine.impl().uses())
            if (use.op == op && names_variant(name, use.chosen)) {
                CAPTURE(use.key());
                CHECK(ran.contains(shader_name(use.shader)));
                used = true;
            }
        CAPTURE(each.first);
        CHECK(used);
    }
}

std::vector<VariantUse> uses_of(const Expected& expected, Precision precision) {
    Engine engine(expected.model, engine_options(precision));
    return engine.impl().uses();
}

/// At one subgroup size, of which a forced variant knows as little as its op does.
doctest::skip needs_variants(bool slow) {
    const bool few = few_models();
    return doctest::skip(few || slow || !have_fixtures());
}

}  // namespace

TEST_CASE("vulkan: every golden holds under every forced variant" * needs_variants(slow_driver())) {
    for (const Expected& expected : all_expected()) {
        const std::vector<Forced> strict = forced_sets(uses_of(expected, Precision::strict));
        CHECK(strict.size() > 1);  // emulated subgroups are everywhere
        for (const Forced& forced : strict) check_forced(expected, Precision::strict, forced);
        // What the strict class may not run: products of halves, sums of halves, and products of bytes.
        for (const Forced& forced : forced_sets(uses_of(expected, Precision::fast)))
            for (const std::string& each : forced) {
                const bool fast =
                    each.find("_int") != std::string::npos || each.find("_half") != std::string::npos;
                if (fast || each.find("=coop") != std::string::npos)
                    check_forced(expected, fast ? Precision::fast : Precision::balanced, {each});
            }
    }
}

TEST_CASE("vulkan: heads whose pairs are halves apart end in the linears that make them" *
          needs_variants(slow_driver())) {
    // Biases; heads of which a quarter rotates, in one tensor with their keys and values.
    for (const std::string family : {"qwen2", "gpt-neox"}) {
        CAPTURE(family);
        const std::string folder = fixtures() + "/models/" + family;
        const Safetensors golden(folder + "/golden.safetensors");
        EngineOptions options = engine_options(Precision::strict);
        options.variants = {"linear=vec_sg"};
        Engine engine(std::make_shared<const Model>(open_model(folder)), options);
        Session session(engine);
        for (const TokenId id : read_ids(golden, "short.input_ids")) session.append({&id, 1});
        const std::vector<float> expected = golden.read<float>("short.logits"), logits = session.logits();
        CHECK(largest_error(std::span(expected).last(logits.size()), logits) <= strict_error);
        CHECK(!engine.pipelines().modules().contains("rope_cache"));
        CHECK(engine.device().validation_errors() == 0);
    }
}

TEST_CASE("vulkan: an attention cut at its tiles gives the same bits" * needs_variants(floor_tier())) {
    const Expected expected = all_expected().front();
    const std::vector<TokenId> ids = [&] {
        std::vector<TokenId> many;
        for (size_t i = 0; i < 150; ++i) many.push_back(expected.ids[i % expected.ids.size()]);
        return many;
    }();
    std::set<std::string> forced;
    for (const VariantUse& use : uses_of(expected, Precision::balanced))
        if (use.op == "attention") forced.insert(use.names.begin(), use.names.end());
    REQUIRE(forced.size() > 1);
    for (const std::string& name : forced) {
        CAPTURE(name);
        EngineOptions options = engine_options(Precision::balanced);
        options.variants = {"attention=" + name};
        size_t slices = 0;
        options.on_slice = [&](double) { ++slices; };
        std::vector<float> logits[2];
        size_t taken[2];
        for (const bool cut : {false, true}) {
            options.submission_budget_ms = cut ? 1e-3 : 1e6;
            Engine engine(expected.model, options);
            Session session(engine);
            logits[cut] = session.forward(ids, false).logits;
            taken[cut] = std::exchange(slices, 0);
        }
        CHECK(taken[1] > 20 * taken[0]);
        CHECK(logits[0] == logits[1]);
    }
}

TEST_CASE("vulkan: a variant that cannot be forced is an error that lists those that can" *
          needs_fixtures()) {
    const auto model = std::make_shared<const Model>(open_model(fixtures() + "/gguf/llama3.gguf"));
    const struct {
        const char *text, *said;
    } cases[] = {{"linear", "expected OP=NAME, got 'linear'"},
                 {"linear=", "expected OP=NAME"},
                 {"lin=vec", "'attention'"},
                 {"route=plain", "an op that this model has"},
                 {"linear=ve", "'vec 8 tokens 1"},
                 {"attention=tile2", "'emulated'"}};
    for (const auto& c : cases) {
        CAPTURE(c.text);
        EngineOptions options = engine_options(Precision::strict);
        options.variants = {c.text};
        CHECK_THROWS_WITH_AS(Engine(model, options), doctest::Contains(c.said), Error);
    }
    EngineOptions twice = engine_options(Precision::strict);
    twice.variants = {"norm=emulated", "norm=emulated"};
    CHECK_THROWS_WITH_AS(Engine(model, twice), doctest::Contains("got two"), Error);
}
