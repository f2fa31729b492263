// The reference executor against the goldens: exact but for the error of the
// goldens themselves.
#include "reference/executor.h"

#include "fail.h"
#include "support/compare.h"
#include "support/golden.h"

using namespace scoria;
using namespace scoria::test;

TEST_CASE("reference: tiny models reproduce their goldens" * needs_fixtures()) {
    for (const ModelFixture& fixture : model_fixtures) {
        const Model model = open_fixture(fixture);
        const Safetensors golden(fixtures() + "/" + fixture.golden);
        double worst_logits = 0, worst_hidden = 0;
        for (const std::string name : golden_cases) {
            CAPTURE(fixture.name);
            CAPTURE(name);
            const std::vector<TokenId> ids = read_ids(golden, name + ".input_ids");
            reference::Executor executor(model);
            const reference::Result result = executor.forward(ids);
            const double error = largest_error(golden.read<float>(name + ".logits"), result.logits);
            CHECK(error <= fixture.golden_error);
            worst_logits = std::max(worst_logits, error);
            for (size_t i = 0; i < result.hidden.size(); ++i) {
                const std::string key = cat(name, ".hidden.", i);
                if (!golden.has(key)) continue;  // goldens beside a GGUF hold none
                const double hidden_error = largest_error(golden.read<float>(key), result.hidden[i]);
                CAPTURE(key);
                CHECK(hidden_error <= fixture.golden_error);
                worst_hidden = std::max(worst_hidden, hidden_error);
            }
            executor.reset();
            const std::vector<TokenId> expected = read_ids(golden, name + ".greedy");
            CHECK(executor.greedy(ids, static_cast<uint32_t>(expected.size())) == expected);
        }
        MESSAGE(fixture.name << ": logits " << worst_logits << ", hidden " << worst_hidden
                             << " standard deviations");
    }
}

TEST_CASE("reference: a sequence cut into calls gives the same bits" * needs_fixtures()) {
    const Model model = open_model(fixtures() + "/gguf/qwen3.gguf");
    const Safetensors golden(fixtures() + "/models/qwen3/golden.safetensors");
    const std::vector<TokenId> ids = read_ids(golden, "long.input_ids");
    reference::Executor whole(model), cut(model);
    const std::vector<double> expected = whole.forward(ids, reference::Outputs::last).logits;
    cut.forward(std::span(ids).first(33));
    cut.forward(std::span(ids).subspan(33, 1));
    CHECK(cut.forward(std::span(ids).subspan(34), reference::Outputs::last).logits == expected);
    CHECK(cut.length() == ids.size());
}

TEST_CASE("reference: ids that cannot be looked up are refused" * needs_fixtures()) {
    const Model model = open_model(fixtures() + "/gguf/llama1.gguf");
    reference::Executor executor(model);
    for (const std::vector<TokenId>& ids : {std::vector<TokenId>{}, {-1}, {3, 256}}) {
        CHECK_THROWS_WITH_AS(executor.forward(ids), doctest::Contains("[forward] expected"), Error);
        CHECK(executor.length() == 0);
    }
}

TEST_CASE("reference: SmolLM2 continues as recorded" * needs_fixtures()) {
    const std::string path = real_model_or_message();
    if (path.empty()) return;
    const Model model = open_model(path);
    const Safetensors golden(fixtures() + "/smollm2/golden.safetensors");
    for (const RealPrompt& prompt : real_prompts) {
        if (!prompt.quick && !deep()) continue;
        CAPTURE(prompt.name);
        const std::string& name = prompt.name;
        const std::vector<TokenId> ids = read_ids(golden, name + ".ids");
        reference::Executor executor(model);
        const std::vector<double> logits = executor.forward(ids, reference::Outputs::last).logits;
        const double error = largest_error(golden.read<float>(name + ".last_logits"), logits);
        MESSAGE(name << ": logits " << error << " standard deviations");
        CHECK(error <= 1e-5);

        std::vector<TokenId> expected = read_ids(golden, name + ".greedy");
        if (!deep()) expected.resize(std::min<size_t>(expected.size(), quick_greedy_tokens));
        executor.reset();
        CHECK(executor.greedy(ids, static_cast<uint32_t>(expected.size())) == expected);
    }
}
