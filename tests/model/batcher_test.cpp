// Several sessions in one pass: whoever is computed beside a sequence, its answer is its own.
#include "batcher.h"

#include "fail.h"
#include "grammar/grammar.h"
#include "grammar/program.h"
#include "speculation.h"
#include "support/compare.h"
#include "support/device.h"
#include "support/families.h"
#include "support/golden.h"
#include "support/quantised_llama.h"

#include <algorithm>
#include <memory>

using namespace scoria;
using namespace scoria::test;

namespace batching {
namespace {

/// A kind of cache each, and two that take turns.
const char* const of_each_kind[] = {"mistral",     "deepseek-v2",       "mixtral",
                                    "gemma3-text", "llama-dynamic-ntk", "t5"};

std::shared_ptr<const Model> tiny() {
    static const auto model = std::make_shared<const Model>(open_model(fixtures() + "/gguf/llama3.gguf"));
    return model;
}

std::vector<TokenId> some_ids(size_t count, size_t seed = 0) {
    std::vector<TokenId> ids(count);
    for (size_t i = 0; i < count; ++i) ids[i] = TokenId(3 + (i * 37 + i * i + seed * 11) % 250);
    return ids;
}

/// What an answer came to.
struct Answered {
    GenerateResult result;
    std::string error;
    Batcher::Done taken() {
        return [this](GenerateResult given, std::exception_ptr thrown) {
            result = std::move(given);
            try {
                if (thrown) std::rethrow_exception(thrown);
            } catch (const std::exception& e) {
                error = e.what();
            }
        };
    }
};

/// Prompts of unequal lengths and what is wanted of each.
struct Wish {
    std::vector<TokenId> ids;
    GenerateOptions options;
};

struct Outcome {
    std::vector<TokenId> tokens;
    std::vector<float> logits, logprobs;
    StopReason reason{};
    bool operator==(const Outcome&) const = default;
};

Outcome outcome_of(Session& session, const GenerateResult& result) {
    Outcome outcome{result.tokens, session.logits(), {}, result.reason};
    for (const TokenLogprobs& each : result.logprobs) {
        outcome.logprobs.push_back(each.logprob);
        for (const auto& [id, logprob] : each.best) outcome.logprobs.push_back(logprob);
    }
    return outcome;
}

std::vector<Outcome> alone(std::span<const Wish> wishes, EngineOptions options,
                           const std::shared_ptr<const Model>& model = tiny()) {
    options.sequences = 1;
    Engine engine(model, options);
    std::vector<Outcome> outcomes;
    for (const Wish& wish : wishes) {
        Session session(engine);
        session.append(wish.ids);
        outcomes.push_back(outcome_of(session, session.generate(wish.options)));
    }
    return outcomes;
}

/// The same in a batch; every `late` steps one more wish joins it (0: all at once).
std::vector<Outcome> together(std::span<const Wish> wishes, const EngineOptions& options, uint32_t late = 0,
                              const std::shared_ptr<const Model>& model = tiny()) {
    Engine engine(model, options);
    std::vector<Session> sessions;
    std::vector<Answered> answers(wishes.size());
    for (size_t i = 0; i < wishes.size(); ++i) sessions.emplace_back(engine);
    Batcher batcher(engine);
    size_t added = 0, steps = 0;
    const auto join = [&] {
        batcher.add(sessions[added], wishes[added].ids, wishes[added].options, answers[added].taken());
        ++added;
    };
    while (added < wishes.size() && (late == 0 || added == 0)) join();
    for (bool more = true; more || added < wishes.size(); ++steps) {
        if (late && steps % late == 0 && added < wishes.size()) join();
        more = batcher.step();
    }
    std::vector<Outcome> outcomes;
    for (size_t i = 0; i < wishes.size(); ++i) {
        CHECK(answers[i].error == "");
        outcomes.push_back(outcome_of(sessions[i], answers[i].result));
    }
    CHECK(engine.device().validation_errors() == 0);
    return outcomes;
}

void check_equal(std::span<const Outcome> got, std::span<const Outcome> expected) {
    for (size_t i = 0; i < expected.size(); ++i) {
        CAPTURE(i);
        CHECK(got[i].tokens == expected[i].tokens);
        CHECK(got[i].reason == expected[i].reason);
        CHECK(got[i].logprobs == expected[i].logprobs);
        CHECK(largest_error(expected[i].logits, got[i].logits) == 0);
    }
}

}  // namespace

TEST_CASE("vulkan: sequences of unequal lengths in one pass are each alone, bit for bit" *
          needs_fixtures_and_time()) {
    for (const std::string& family : decoders_or(of_each_kind)) {
        CAPTURE(family);
        const auto model = std::make_shared<const Model>(open_model(fixtures() + "/models/" + family));
        const Safetensors golden(fixtures() + "/models/" + family + "/golden.safetensors");
        const bool source = golden.has("long.encoder_input_ids");
        const std::vector<TokenId> ids =
            read_ids(golden, source ? "long.decoder_input_ids" : "long.input_ids");
        const auto start = [&](Session& session) {
            if (source) session.encode(read_ids(golden, "long.encoder_input_ids"));
        };
        const size_t lengths[] = {ids.size(), 1, ids.size() / 2, ids.size() - 3, 2};
        std::vector<Outcome> expected;
        {
            Engine engine(model, deterministic(1));
            for (const size_t length : lengths) {
                Session session(engine);
                start(session);
                session.append(std::span(ids).first(length));
                expected.push_back(outcome_of(session, session.generate(greedy(6 + uint32_t(length % 4)))));
            }
        }
        Engine engine(model, deterministic(4));  // one waits for a place
        std::vector<Session> sessions;
        std::vector<Answered> answers(std::size(lengths));
        Batcher batcher(engine);
        for (size_t i = 0; i < std::size(lengths); ++i) {
            start(sessions.emplace_back(engine));
            batcher.add(sessions.back(), std::span(ids).first(lengths[i]),
                        greedy(6 + uint32_t(lengths[i] % 4)), answers[i].taken());
        }
        while (batcher.step()) {
        }
        std::vector<Outcome> got;
        for (size_t i = 0; i < std::size(lengths); ++i) {
            CHECK(answers[i].error == "");
            got.push_back(outcome_of(sessions[i], answers[i].result));
        }
        check_equal(got, expected);
        CHECK(engine.device().validation_errors() == 0);
    }
}

TEST_SUITE("batcher") {
    TEST_CASE("each answer has its own sampler, grammar, penalties, stop texts and probabilities" *
              needs_fixtures()) {
        std::vector<Wish> wishes;
        const auto wish = [&](size_t prompt) -> GenerateOptions& {
            wishes.push_back({some_ids(prompt, wishes.size()), greedy(14)});
            return wishes.back().options;
        };
        wish(40);
        wish(3).sampling = {.temperature = 0.9f, .seed = 7};
        wish(70).sampling = {.temperature = 1.3f, .top_k = 0, .top_p = 0.8f, .seed = 8};
        wish(1).logprobs = 3;
        wish(9).sampling = {.temperature = 0.7f, .repetition_penalty = 1.5f, .seed = 9};
        wish(33).sampling = {.dry_multiplier = 2, .dry_allowed_length = 1};
        wish(5).sampling = {.temperature = 1, .mirostat_tau = 3, .seed = 10};
        GenerateOptions& constrained = wish(12);
        constrained.sampling = {.temperature = 1, .seed = 11};
        constrained.logprobs = 5;
        constrained.output_grammar =
            std::make_shared<const grammar::Program>(grammar::parse_gbnf("root ::= [a-z ]+"));
        const std::vector<Outcome> expected = alone(wishes, deterministic(1));
        CHECK(expected[7].tokens != expected[1].tokens);
        check_equal(together(wishes, deterministic(8)), expected);
        // Two at a time, the others wait; prompts in pieces of 16.
        EngineOptions small = deterministic(2);
        small.prompt_chunk = 16;
        check_equal(together(wishes, small, 3), expected);
    }

    TEST_CASE("a pass has room for sums of its head, which has fewer rows than the pass has tokens" *
              needs_fixtures()) {
        const Mix mixes[] = {all_of(TensorType::q8_0)};
        GgufFile llama = quantised_llama(mixes, TensorType::q8_0, TensorType::q8_0, 512, 4096);
        llama.metadata["llama.context_length"] = 128u;
        const TemporaryFile file(llama.bytes());
        const auto wide = std::make_shared<const Model>(open_model(file.path()));
        // Which splits the columns of a product of few tiles: the head's for 33 rows, not for 66.
        const TemporaryFile gpu(R"({"type": "discrete"})");
        EngineOptions options = engine_options(Precision::strict);
        options.device.caps_profile = gpu.path();
        std::vector<Wish> wishes;
        for (size_t i = 0; i < 33; ++i) wishes.push_back({some_ids(2, i), greedy(1)});
        options.sequences = uint32_t(wishes.size());
        const std::vector<Outcome> got = together(wishes, options, 0, wide),
                                   expected = alone(wishes, options, wide);
        for (size_t i = 0; i < wishes.size(); ++i) CHECK(got[i].tokens == expected[i].tokens);
    }

    TEST_CASE("what a model says is never sampled is in no answer: alone, guessed, in a batch" *
              needs_fixtures()) {
        std::vector<Wish> wishes(4);
        for (size_t i = 0; i < wishes.size(); ++i) wishes[i] = {some_ids(9 + i, i), greedy(12)};
        wishes[1].options.sampling = {.temperature = 1, .seed = 4};
        for (const size_t i : {2, 3})
            wishes[i].options.output_grammar =
                std::make_shared<const grammar::Program>(grammar::parse_gbnf("root ::= [a-z ]+"));
        PromptLookup lookup;
        wishes[3].options.proposer = &lookup;
        auto model = std::make_shared<Model>(*tiny());
        for (const Outcome& outcome : alone(wishes, deterministic(1)))
            model->suppressed.insert(model->suppressed.end(), outcome.tokens.begin(),
                                     outcome.tokens.begin() + 3);
        const std::vector<Outcome> got = alone(wishes, deterministic(1), model);
        std::ranges::sort(model->suppressed);
        const auto twice = std::ranges::unique(model->suppressed);
        model->suppressed.erase(twice.begin(), twice.end());
        std::vector<Wish> biased = wishes;
        for (Wish& wish : biased) {
            wish.options.proposer = nullptr;
            for (const TokenId id : model->suppressed)
                wish.options.sampling.logit_bias.push_back({id, -INFINITY});
        }
        check_equal(got, alone(biased, deterministic(1)));
        for (Wish& wish : wishes) wish.options.proposer = nullptr;
        check_equal(together(wishes, deterministic(4), 0, model), got);
    }

    TEST_CASE("an answer of which nothing can follow fails alone" * needs_fixtures()) {
        auto model = std::make_shared<Model>(*tiny());
        for (uint32_t id = 0; id < model->tokenizer->size(); ++id)
            if (model->tokenizer->piece(TokenId(id), false) == "q") model->suppressed.push_back(TokenId(id));
        REQUIRE(model->suppressed.size() == 1);
        Engine engine(model, deterministic(2));
        std::vector<Session> sessions;
        std::vector<Answered> answers(2);
        Batcher batcher(engine);
        for (size_t i = 0; i < 2; ++i) {
            GenerateOptions options = greedy(6);
            if (i == 1)
                options.output_grammar =
                    std::make_shared<const grammar::Program>(grammar::parse_gbnf("root ::= \"q\""));
            batcher.add(sessions.emplace_back(engine), some_ids(5, i), options, answers[i].taken());
        }
        while (batcher.step()) {
        }
        CHECK(answers[0].error == "");
        CHECK(answers[0].result.tokens.size() == 6);
        CHECK(answers[1].error.find("the model suppresses") != std::string::npos);
        CHECK(sessions[1].tokens().empty());  // as before it was asked
    }

    TEST_CASE("a text is cut, a limit is kept, a callback stops its own answer alone" * needs_fixtures()) {
        std::vector<Wish> wishes;
        for (size_t i = 0; i < 4; ++i) wishes.push_back({some_ids(10 + 7 * i, i), greedy(12)});
        const std::vector<Outcome> plain = alone(wishes, deterministic(1));
        Engine engine(tiny(), deterministic(4));
        std::vector<Session> sessions;
        for (size_t i = 0; i < 4; ++i) sessions.emplace_back(engine);
        std::vector<Answered> answers(5);
        wishes[1].options.on_token = [&, left = 3](TokenId) mutable { return --left > 0; };
        wishes[2].options.on_token = [&, left = 5](TokenId) mutable -> bool {
            if (--left == 0) throw std::runtime_error("the host's own");
            return true;
        };
        std::atomic<bool> cancel{false};
        wishes[3].options.cancel = &cancel;
        Batcher batcher(engine);
        wishes[0].options.on_token = [&, seen = 0](TokenId) mutable {
            if (++seen == 6) cancel = true;
            CHECK_THROWS_WITH_AS(batcher.step(), doctest::Contains("from inside"), Error);
            return true;
        };
        for (size_t i = 0; i < 4; ++i)
            batcher.add(sessions[i], wishes[i].ids, wishes[i].options, answers[i].taken());
        CHECK(batcher.size() == 4);
        while (batcher.step()) {
        }
        CHECK(answers[0].result.tokens == plain[0].tokens);
        CHECK(answers[1].result.reason == StopReason::cancelled);
        CHECK(answers[1].result.tokens.size() == 3);
        CHECK(answers[2].error == "the host's own");
        CHECK(answers[2].result.tokens.size() == 5);
        CHECK(answers[3].result.reason == StopReason::cancelled);
        CHECK(answers[3].result.tokens.size() <= 6);
        // All go on from where they are.
        for (size_t i = 1; i < 4; ++i) {
            const size_t more = 12 - answers[i].result.tokens.size();
            const std::vector<TokenId> rest(plain[i].tokens.end() - std::ptrdiff_t(more),
                                            plain[i].tokens.end());
            CHECK(sessions[i].generate(greedy(uint32_t(more))).tokens == rest);
        }
    }

    TEST_CASE("one that takes its turn keeps what it has when it is stopped" * needs_fixtures()) {
        Engine engine(tiny(), deterministic(2));
        Session session(engine);
        PromptLookup lookup;
        GenerateOptions options = greedy(12);
        options.proposer = &lookup;
        options.on_token = [left = 5](TokenId) mutable -> bool {
            if (--left == 0) throw std::runtime_error("the host's own");
            return true;
        };
        Answered answer;
        Batcher batcher(engine);
        batcher.add(session, some_ids(10), options, answer.taken());
        while (batcher.step()) {
        }
        CHECK(answer.error == "the host's own");
        CHECK(session.tokens().size() == 15);
    }

    TEST_CASE("who is done makes room: in the batch, and in the cache" * needs_fixtures()) {
        std::vector<Wish> wishes;
        for (size_t i = 0; i < 6; ++i) wishes.push_back({some_ids(20 + i, i), greedy(50)});
        const std::vector<Outcome> expected = alone(wishes, deterministic(1));
        EngineOptions options = deterministic(6);
        options.context = 128;
        options.shared_context = 256;  // of answers of up to 96, four at a time: some are computed again
        Engine engine(tiny(), options);
        CHECK(engine.memory_plan().shared == 256);
        std::vector<std::unique_ptr<Session>> sessions;
        std::vector<std::vector<TokenId>> got(6);
        Batcher batcher(engine);
        size_t added = 0;
        const std::function<void()> add = [&] {
            if (added == 6) return;
            const size_t i = added++;
            sessions.push_back(std::make_unique<Session>(engine));
            batcher.add(*sessions.back(), wishes[i].ids, wishes[i].options,
                        [&, i](GenerateResult result, std::exception_ptr error) {
                            CHECK_FALSE(error);
                            got[i] = std::move(result.tokens);
                            sessions[i].reset();
                            add();
                        });
        };
        for (int i = 0; i < 4; ++i) add();
        size_t steps = 0;
        while (batcher.step()) ++steps;
        for (size_t i = 0; i < 6; ++i) CHECK(got[i] == expected[i].tokens);
        CHECK(steps > 98);  // as if four had room, and then two
        CHECK(steps < 4 * 50);
    }

    TEST_CASE("a cache that others have ends an answer with a reason, and refuses a prompt by name" *
              needs_fixtures()) {
        EngineOptions options = deterministic(3);
        options.context = options.shared_context = 128;
        Engine engine(tiny(), options);
        std::vector<Session> sessions;
        for (int i = 0; i < 3; ++i) sessions.emplace_back(engine);
        std::vector<Answered> answers(3);
        Batcher batcher(engine);
        batcher.add(sessions[0], some_ids(40), greedy(100), answers[0].taken());
        batcher.add(sessions[1], some_ids(30, 1), greedy(100), answers[1].taken());
        while (batcher.step()) {
        }
        for (size_t i = 0; i < 2; ++i) {
            CHECK(answers[i].error == "");
            CHECK(answers[i].result.reason == StopReason::context_full);
        }
        CHECK(sessions[0].tokens().size() + sessions[1].tokens().size() >= 128);
        batcher.add(sessions[2], some_ids(3), greedy(4), answers[2].taken());
        while (batcher.step()) {
        }
        CHECK(answers[2].error.find("expected room for a prompt of 3 tokens") != std::string::npos);
        CHECK_THROWS_WITH_AS(sessions[2].append(some_ids(3)), doctest::Contains("cache that sessions share"),
                             Error);
        sessions[0].truncate(0);
        CHECK(sessions[2].tokens().empty());
        sessions[2].append(some_ids(3));
        CHECK(sessions[2].generate(greedy(4)).tokens.size() == 4);
    }

    TEST_CASE("who takes its turn finds room: others are computed again" * needs_fixtures()) {
        PromptLookup lookup;
        std::vector<Wish> wishes{{some_ids(60), greedy(40)}, {some_ids(50, 1), greedy(20)}};
        const std::vector<Outcome> expected = alone(wishes, deterministic(1));
        wishes[1].options.proposer = &lookup;
        EngineOptions options = deterministic(2);
        options.context = options.shared_context = 128;  // both come to 170
        Engine engine(tiny(), options);
        std::vector<Session> sessions;
        std::vector<Answered> answers(2);
        Batcher batcher(engine);
        for (size_t i = 0; i < 2; ++i) {
            batcher.add(sessions.emplace_back(engine), wishes[i].ids, wishes[i].options,
                        [&, i](GenerateResult result, const std::exception_ptr& error) {
                            answers[i].taken()(std::move(result), error);
                            sessions[i].truncate(0);
                        });
            for (int steps = 0; steps < 5; ++steps) batcher.step();
        }
        while (batcher.step()) {
        }
        for (size_t i = 0; i < 2; ++i) {
            CAPTURE(i);
            CHECK(answers[i].error == "");
            CHECK(answers[i].result.tokens == expected[i].tokens);
        }
    }

    TEST_CASE("where all take turns, who waits makes room" * needs_fixtures_and_time()) {
        const auto model = std::make_shared<const Model>(open_model(fixtures() + "/models/t5"));
        const std::vector<TokenId> start{0};
        std::vector<std::vector<TokenId>> sources{some_ids(40), some_ids(40, 1)};
        for (std::vector<TokenId>& source : sources)
            for (TokenId& id : source) id %= 200;
        EngineOptions options = deterministic(2);
        options.context = options.shared_context = 128;  // which both sources fill
        Engine engine(model, options);
        std::vector<Session> sessions;
        for (size_t i = 0; i < 2; ++i) {
            sessions.emplace_back(engine).encode(sources[i]);
            sessions[i].append(start);
            if (i == 0) sessions[0].truncate(0);
        }
        std::vector<Answered> answers(2);
        Batcher batcher(engine);
        for (size_t i = 0; i < 2; ++i)
            batcher.add(sessions[i], i == 0 ? start : std::vector<TokenId>(), greedy(80),
                        [&, i](GenerateResult result, const std::exception_ptr& error) {
                            answers[i].taken()(std::move(result), error);
                            sessions[i].evict();
                        });
        while (batcher.step()) {
        }
        options.sequences = 1;
        options.shared_context = 0;
        Engine other(model, options);
        for (size_t i = 0; i < 2; ++i) {
            CAPTURE(i);
            Session session(other);
            session.encode(sources[i]);
            session.append(start);
            CHECK(answers[i].error == "");
            CHECK(answers[i].result.tokens == session.generate(greedy(80)).tokens);
        }
    }

    TEST_CASE("bad calls are refused and change nothing" * needs_fixtures()) {
        Engine engine(tiny(), deterministic(2)), other(tiny(), deterministic(1));
        Session session(engine), foreign(other);
        Batcher batcher(engine);
        const auto refused = [&](Session& of, std::vector<TokenId> ids, GenerateOptions options,
                                 const char* why) {
            CHECK_THROWS_WITH_AS(batcher.add(of, ids, options), doctest::Contains(why), Error);
            CHECK(of.tokens().empty());
        };
        refused(foreign, {3}, greedy(1), "of the batcher's engine");
        refused(session, {}, greedy(1), "at least one token");
        refused(session, {-1}, greedy(1), "expected ids from 0");
        refused(session, some_ids(100000), greedy(1), "more tokens in a context");
        GenerateOptions options = greedy(1);
        options.sampling.temperature = -1;
        refused(session, {3}, options, "expected temperature");
        options = greedy(1);
        options.logprobs = 65;
        refused(session, {3}, options, "log-probabilities");
        CHECK_FALSE(batcher.step());
        batcher.add(session, some_ids(3), greedy(1));
        CHECK_THROWS_WITH_AS(batcher.add(session, some_ids(3), greedy(1)),
                             doctest::Contains("not in the batch"), Error);
        EngineOptions many = deterministic(65);
        CHECK_THROWS_WITH_AS(Engine(tiny(), many), doctest::Contains("expected 1 to 64"), Error);
        many = deterministic(2);
        many.context = 128;
        many.shared_context = 64;
        CHECK_THROWS_WITH_AS(Engine(tiny(), many), doctest::Contains("for all sequences"), Error);
    }

    TEST_CASE("memory given up amid an answer comes back, and so does the answer" * needs_fixtures()) {
        std::vector<Wish> wishes;
        for (size_t i = 0; i < 3; ++i) wishes.push_back({some_ids(30 + 9 * i, i), greedy(10)});
        wishes[1].options.sampling = {.temperature = 1, .seed = 3};
        const std::vector<Outcome> expected = alone(wishes, deterministic(1));
        Engine engine(tiny(), deterministic(3));
        std::vector<Session> sessions;
        std::vector<Answered> answers(3);
        Batcher batcher(engine);
        for (size_t i = 0; i < 3; ++i)
            batcher.add(sessions.emplace_back(engine), wishes[i].ids, wishes[i].options, answers[i].taken());
        for (int steps = 0; batcher.step(); ++steps) {
            if (steps == 3) engine.evict();
            if (steps == 6) sessions[1].evict();
        }
        for (size_t i = 0; i < 3; ++i) CHECK(answers[i].result.tokens == expected[i].tokens);
    }
}

}  // namespace batching
