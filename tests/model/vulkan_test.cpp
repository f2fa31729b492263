// The Vulkan executor against the goldens: tiny models of every architecture,
// and SmolLM2 as it ships.
#include "support/compare.h"
#include "support/device.h"
#include "support/golden.h"
#include "validate/model_check.h"

#include "fail.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>
#include <map>
#include <span>

using namespace scoria;
using namespace scoria::test;

namespace {

/// Bounds of one precision class on a whole model (DESIGN.md, "Numbers").
struct Class {
    std::string name;
    Precision precision;
    double nmse;        // of the last prompt position's logits, mean removed
    double perplexity;  // relative
    std::vector<std::string> variants = {};
    EngineOptions options() const {
        EngineOptions options = engine_options(precision);
        options.variants = variants;
        return options;
    }
};
const Class classes[] = {
    {"strict", Precision::strict, 1e-6, 0.005},
    {"balanced", Precision::balanced, 1e-4, 0.005},
    // No CPU driver prefers them. Bytes are as coarse as bfloat16, whose advice of 1e-2 holds
    // (model_check.cpp).
    {"fast", Precision::fast, 1e-2, 0.01, {"linear=tile_int"}},
};

/// Without the others, the floor tier says so.
std::span<const Class> classes_here() {
    if (!floor_tier()) return std::span(classes).first(2);
    MESSAGE("SCORIA_FLOOR: the strict class alone");
    return std::span(classes).first(1);
}
/// 8-bit activations too, where the device multiplies them.
std::span<const Class> classes_with_bytes() {
    if (floor_tier() || few_models()) return classes_here();
    const vk::Device device(engine_options(Precision::fast).device);
    if (device.caps().int_dot) return classes;
    MESSAGE(device.caps().name << " has no integer dot products: no fast class");
    return classes_here();
}

/// Top-2 gaps of each greedy step, by prompt.
std::map<std::string, std::vector<double>> recorded_gaps() {
    std::ifstream file(fixtures() + "/smollm2/golden.json");
    std::map<std::string, std::vector<double>> gaps;
    const auto golden = nlohmann::json::parse(file);
    for (const auto& prompt : golden.at("prompts"))
        gaps[prompt.at("name")] = prompt.at("gaps").get<std::vector<double>>();
    return gaps;
}

/// Largest |error| about the means: what could have turned a token at a gap of
/// up to twice it.
double largest_shift(const std::vector<float>& expected, const std::vector<float>& actual) {
    const double shift = mean(actual) - mean(expected);
    double largest = 0;
    for (size_t i = 0; i < expected.size(); ++i)
        largest = std::max(largest, std::abs(double(actual[i]) - double(expected[i]) - shift));
    return largest;
}

/// Mean of -log softmax(logits)[id] over rows.
double mean_nll(Session& session, std::span<const TokenId> ids, uint32_t vocab) {
    constexpr size_t piece = 128;  // rows of logits held at once
    double total = 0;
    for (size_t first = 0; first + 1 < ids.size(); first += piece) {
        const auto part = ids.subspan(first, std::min(piece, ids.size() - 1 - first));
        const ForwardResult result = session.forward(part, false);
        for (size_t t = 0; t < part.size(); ++t) {
            const auto row = std::span(result.logits).subspan(t * vocab, vocab);
            const double largest = double(*std::max_element(row.begin(), row.end()));
            double sum = 0;
            for (const float logit : row) sum += std::exp(double(logit) - largest);
            total += std::log(sum) + largest - double(row[static_cast<size_t>(ids[first + t + 1])]);
        }
    }
    return total / double(ids.size() - 1);
}

}  // namespace

TEST_CASE("vulkan: tiny models reproduce their goldens" * needs_fixtures()) {
    const std::span<const ModelFixture> all = model_fixtures;
    if (floor_tier()) MESSAGE("SCORIA_FLOOR: one model, the short case, 4 greedy tokens");
    for (const ModelFixture& fixture : floor_tier() ? all.last(1) : all) {
        Engine engine(std::make_shared<const Model>(open_fixture(fixture)),
                      engine_options(Precision::strict));
        const Safetensors golden(fixtures() + "/" + fixture.golden);
        double worst = 0;
        for (const std::string name : golden_cases) {
            if (floor_tier() && name != "short") continue;
            CAPTURE(fixture.name);
            CAPTURE(name);
            const std::vector<TokenId> ids = read_ids(golden, name + ".input_ids");
            Session session(engine);
            const ForwardResult result = session.forward(ids, true);
            const double error = largest_error(golden.read<float>(name + ".logits"), result.logits);
            CHECK(error <= strict_error);
            worst = std::max(worst, error);
            for (size_t i = 0; i < result.hidden.size(); ++i) {
                const std::string key = cat(name, ".hidden.", i);
                CAPTURE(key);
                if (golden.has(key))
                    CHECK(largest_error(golden.read<float>(key), result.hidden[i]) <= strict_error);
            }
            std::vector<TokenId> expected = read_ids(golden, name + ".greedy");
            if (floor_tier()) expected.resize(4);
            Session fresh(engine);
            fresh.append(ids);
            CHECK(fresh.generate(greedy(expected.size())).tokens == expected);
        }
        MESSAGE(fixture.name << ": logits " << worst << " standard deviations");
        CHECK(engine.device().validation_errors() == 0);
    }
}

TEST_CASE("vulkan: every tensor matches the reference, fused and not" * needs_fixtures_and_time()) {
    const std::vector<TokenId> ids{3, 50, 7, 200, 9, 11, 100, 33, 4, 8, 21};
    std::vector<std::string> paths;
    for (const char* const name : {"llama3", "qwen2", "qwen3"})
        paths.push_back(fixtures() + "/gguf/" + name + ".gguf");
    if (few_models()) paths.resize(1);
    if (const std::string real = few_models() || slow_driver() ? "" : real_model_or_message(); !real.empty())
        paths.push_back(real);
    for (const std::string& path : paths) {
        Model opened = open_model(path);
        if (&path == &paths.front())
            opened.architecture.logit_soft_cap = 1.5f;  // no file of this family has one
        const auto model = std::make_shared<const Model>(std::move(opened));
        for (const Class& row : classes_here())
            for (const bool fusion : {true, false}) {
                CAPTURE(path);
                CAPTURE(row.name);
                CAPTURE(fusion);
                EngineOptions options = engine_options(row.precision);
                options.fusion = fusion;
                Engine engine(model, options);
                const validate::ModelCheck check = validate::check_model(engine, ids);
                CHECK(check.passed());
                if (check.first_diverging) {
                    const validate::CheckResult& first = check.ops[*check.first_diverging];
                    MESSAGE(first.op << " -> " << first.variant << ": NMSE " << first.nmse << ", "
                                     << first.detail);
                }
                CHECK(check.ops.size() > model->architecture.layers.size() * 4);
                CHECK(engine.device().validation_errors() == 0);
            }
    }
}

TEST_CASE("vulkan: SmolLM2 continues as recorded" * needs_fixtures()) {
    const std::string path = real_model_or_message();
    if (path.empty()) return;
    const auto model = std::make_shared<const Model>(open_model(path));
    const Safetensors golden(fixtures() + "/smollm2/golden.safetensors");
    const auto gaps = recorded_gaps();
    const bool all = deep() && !slow_driver();
    for (const Class& row : classes_with_bytes()) {
        Engine engine(model, row.options());
        for (const RealPrompt& prompt : real_prompts) {
            if (!prompt.quick && !all) continue;
            CAPTURE(row.name);
            CAPTURE(prompt.name);
            Session session(engine);
            session.append(read_ids(golden, prompt.name + ".ids"));
            const std::vector<float> expected_logits = golden.read<float>(prompt.name + ".last_logits");
            const std::vector<float> logits = session.logits();
            const double nmse = nmse_mean_removed(expected_logits, logits);
            MESSAGE(row.name << " " << prompt.name << ": logits NMSE " << nmse);
            CHECK(nmse < row.nmse);

            std::vector<TokenId> expected = read_ids(golden, prompt.name + ".greedy");
            if (!all) expected.resize(std::min<size_t>(expected.size(), quick_greedy_tokens));
            // Tiles of many tokens take seconds for one.
            if (row.precision == Precision::fast) expected.resize(2);
            const std::vector<TokenId> actual = session.generate(greedy(expected.size())).tokens;
            REQUIRE(actual.size() == expected.size());
            if (row.precision == Precision::strict) {
                CHECK(actual == expected);
                continue;
            }
            const auto differing = std::mismatch(expected.begin(), expected.end(), actual.begin()).first;
            if (differing == expected.end()) continue;
            const double gap = gaps.at(prompt.name).at(static_cast<size_t>(differing - expected.begin()));
            CHECK(gap <= 2 * largest_shift(expected_logits, logits));
        }
        CHECK(engine.device().validation_errors() == 0);
    }
}

TEST_CASE("vulkan: SmolLM2 takes the memory that was planned" * needs_fast_driver()) {
    const std::string path = real_model_or_message();
    if (path.empty()) return;
    Engine engine(std::make_shared<const Model>(open_model(path)), engine_options(Precision::balanced));
    Session session(engine);
    session.append(std::vector<TokenId>{1, 2, 3});
    session.generate(greedy(2));
    double ours = 0;
    for (const vk::HeapState& heap : engine.device().heaps()) ours += double(heap.ours);
    const double planned = double(engine.memory_plan().device_total());
    CAPTURE(ours);
    CAPTURE(planned);
    CHECK(ours <= 1.1 * planned);
    CHECK(ours >= 0.9 * planned);
}

TEST_CASE("vulkan: SmolLM2's perplexity" * doctest::skip(few_models() || slow_driver() || !have_fixtures())) {
    const std::string path = real_model_or_message();
    if (path.empty()) return;
    const auto model = std::make_shared<const Model>(open_model(path));
    const Safetensors golden(fixtures() + "/smollm2/golden.safetensors");
    std::vector<float> expected = golden.read<float>("perplexity.nll");
    if (!deep()) expected.resize(128);
    std::vector<TokenId> ids = read_ids(golden, "perplexity.ids");
    ids.resize(expected.size() + 1);
    for (const Class& row : deep() ? classes_with_bytes() : classes_here()) {
        Engine engine(model, row.options());
        Session session(engine);
        const double ratio = std::exp(mean_nll(session, ids, model->architecture.vocab) - mean(expected));
        CAPTURE(row.name);
        MESSAGE(row.name << ": perplexity " << ratio << " of the recorded, over " << expected.size()
                         << " tokens");
        CHECK(std::abs(ratio - 1) <= row.perplexity);
        CHECK(engine.device().validation_errors() == 0);
    }
}
