// Layers that guess the token behind the next one: tiny models with one, whose logits a class of transformers
// computes (made_ahead.py, which made made_ahead.jsonl), and answers with their guesses.
#include "fail.h"
#include "hf_folder.h"
#include "made_models.h"
#include "quantise/convert.h"
#include "reference/executor.h"
#include "session_impl.h"
#include "speculation.h"
#include "support/device.h"
#include "support/golden.h"

using namespace scoria;
using namespace scoria::test;

namespace ahead {
namespace {

struct Made {
    MadeModel of;  // logits: the layer's
    TemporaryFolder folder;
    std::shared_ptr<const Model> whole, layer;
    explicit Made(MadeModel model)
        : of(std::move(model)), folder(of.folder),
          whole(std::make_shared<const Model>(open_model(folder.path()))),
          layer(std::make_shared<const Model>(open_model_ahead(folder.path()))) {}
};

std::vector<std::unique_ptr<Made>> all_made() {
    std::vector<std::unique_ptr<Made>> all;
    for (MadeModel& made : made_models({}, "made_ahead.jsonl"))
        all.push_back(std::make_unique<Made>(std::move(made)));
    REQUIRE(all.size() == 5);
    return all;
}

/// What tokens come with: zeros, then rows of those before them.
std::vector<double> shifted(std::span<const double> shown, size_t hidden) {
    std::vector<double> given(hidden);
    given.insert(given.end(), shown.begin(), shown.end() - std::ptrdiff_t(hidden));
    return given;
}

std::vector<double> shown_of(const Made& made, std::span<const TokenId> ids) {
    reference::Executor executor(*made.whole);
    return executor.forward(ids).last_hidden;
}

/// The likeliest token of each row.
TokenId likeliest(std::span<const double> logits, size_t vocab) {
    const auto last = logits.last(vocab);
    return TokenId(std::ranges::max_element(last) - last.begin());
}

EngineOptions strict() {
    EngineOptions options = engine_options(Precision::strict);
    options.context = 160;
    options.deterministic = true;
    return options;
}

}  // namespace

TEST_CASE("reference: layers that guess ahead have the logits of transformers' layers") {
    for (const auto& made : all_made()) {
        CAPTURE(made->of.name);
        CHECK(made->layer->unused.empty());
        CHECK(made->layer->architecture.layers.size() == 1);
        for (const TensorView& unused : made->whole->unused) CHECK(is_spare(*made->whole, unused));
        reference::Executor executor(*made->layer);
        executor.set_given(shifted(shown_of(*made, made->of.ids), made->whole->architecture.hidden));
        CHECK(largest_error(made->of.logits, executor.forward(made->of.ids).logits) <= 2e-5);
        executor.set_given({1});
        CHECK_THROWS_WITH_AS(executor.forward(made->of.ids), doctest::Contains("rows of"), Error);
    }
}

TEST_CASE("reference: a folder's layer that guesses ahead goes with it into a GGUF") {
    for (const auto& made : all_made()) {
        CAPTURE(made->of.name);
        const std::string path = (made->folder.path() / "made.gguf").string();
        convert(*open_conversion_source(made->folder.path()), path, {.recipe = find_recipe("F32")});
        const Model whole = open_model(path);
        if (made->of.name == "mimo") {  // GGUF's qwen2 has none
            CHECK(whole.unused.empty());
            continue;
        }
        CHECK(whole.layers_ahead == 1);
        for (const TensorView& unused : whole.unused) CHECK(is_spare(whole, unused));
        reference::Executor model(whole);
        const Model layer = open_model_ahead(path);
        CHECK(layer.unused.empty());
        reference::Executor executor(layer);
        executor.set_given(shifted(model.forward(made->of.ids).last_hidden, whole.architecture.hidden));
        CHECK(largest_error(made->of.logits, executor.forward(made->of.ids).logits) <= 2e-5);
    }
}

TEST_CASE("vulkan: a layer that guesses ahead has the logits of transformers' layer") {
    for (const auto& made : all_made()) {
        CAPTURE(made->of.name);
        Engine engine(made->layer, strict());
        Session session(engine);
        const std::vector<double> given =
            shifted(shown_of(*made, made->of.ids), made->whole->architecture.hidden);
        session.impl().given.put(0, std::vector<float>(given.begin(), given.end()));
        CHECK(largest_error(made->of.logits, session.forward(made->of.ids, false).logits) <= strict_error);
        session.truncate(0);  // in parts, and then what tokens come with is told once more
        session.impl().given.put(0, std::vector<float>(given.begin(), given.end()));
        session.append(std::span(made->of.ids).first(11));
        session.append(std::span(made->of.ids).subspan(11));
        CHECK(largest_error(made->of.logits.rbegin()->second, session.logits()) <= strict_error);
        CHECK(engine.device().validation_errors() == 0);
    }
}

TEST_CASE("vulkan: guesses are those of the layer ahead, of what the model shows and of its own") {
    for (const auto& made : all_made()) {
        CAPTURE(made->of.name);
        EngineOptions options = strict();
        Engine plain(made->whole, options);
        options.shows_hidden = true;
        options.prompt_chunk = 16;  // rows come in several
        Engine showing(made->whole, options);
        Session session(showing), other(plain);
        session.append(std::span(made->of.ids).first(20));
        other.append(std::span(made->of.ids).first(20));
        DraftModel draft(std::make_shared<Engine>(made->layer, strict()), showing.model());

        struct Checked : Proposer {
            const Made& made;
            Proposer& draft;
            size_t asked = 0;
            Checked(const Made& of, Proposer& by) : made(of), draft(by) {}
            bool promising(std::span<const TokenId> tokens) const override { return draft.promising(tokens); }
            void prepare(Session::Impl& target) noexcept override { draft.prepare(target); }
            std::vector<TokenId> propose(std::span<const TokenId> tokens, uint32_t most,
                                         const SamplingOptions& sampling) override {
                const std::vector<TokenId> guess = draft.propose(tokens, most, sampling);
                const size_t hidden = made.whole->architecture.hidden, vocab = made.whole->architecture.vocab;
                reference::Executor executor(*made.layer);
                executor.set_given(shifted(shown_of(made, tokens), hidden));
                reference::Result result = executor.forward(tokens);
                std::vector<TokenId> expected{likeliest(result.logits, vocab)};
                while (expected.size() < guess.size()) {
                    executor.set_given(
                        {result.last_hidden.end() - std::ptrdiff_t(hidden), result.last_hidden.end()});
                    result = executor.forward(std::span(expected).last(1));
                    expected.push_back(likeliest(result.logits, vocab));
                }
                CHECK(guess == expected);
                ++asked;
                return guess;
            }
        } checked(*made, draft);
        GenerateOptions generate{.max_tokens = 40, .ignore_end = true};
        const std::vector<TokenId> expected = other.generate(generate).tokens;
        generate.proposer = &checked;
        generate.draft_tokens = 3;
        const GenerateResult result = session.generate(generate);
        CHECK(result.tokens == expected);
        CHECK(result.proposed > 0);
        CHECK(checked.asked > 2);
        // Another end, and a device whose memory was given up.
        for (Session* each : {&session, &other}) {
            each->truncate(25);
            each->append(std::span(made->of.ids).first(2));
            each->evict();
        }
        GenerateOptions without{.max_tokens = 20, .ignore_end = true};
        const std::vector<TokenId> again = other.generate(without).tokens;
        CHECK(session.generate(generate).tokens.size() == 40);
        CHECK(std::ranges::equal(session.tokens().subspan(27, 20), again));
        CHECK(showing.device().validation_errors() == 0);
    }
}

TEST_CASE("a layer ahead is refused where there is none, and beside an engine that shows nothing") {
    const TemporaryFolder folder(made_model("glm4_moe").folder);
    CHECK_THROWS_WITH_AS(
        open_model_ahead(folder.path()),
        doctest::Contains("expected a model with a layer that guesses further tokens, got none"), Error);
    const Made made(std::move(made_models({}, "made_ahead.jsonl").front()));
    CHECK_THROWS_WITH_AS(check_draft(*made.layer, *made.whole),
                         doctest::Contains("expected an engine that shows 48 values of each token"), Error);
}

}  // namespace ahead
