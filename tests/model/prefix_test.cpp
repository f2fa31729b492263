// Sequences that begin alike have blocks of the cache in common: what is not computed again changes no bit.
#include "batcher.h"
#include "engine.h"
#include "support/compare.h"
#include "support/device.h"
#include "support/families.h"
#include "support/golden.h"

#include <memory>

using namespace scoria;
using namespace scoria::test;

namespace prefixes {
namespace {

/// Full, latent, with experts, shared by layers; positions learned, as biases; and one with windows.
const char* const of_each_kind[] = {"llama3", "deepseek-v2", "mixtral",    "hunyuan-large",
                                    "gpt2",   "bloom",       "gemma3-text"};

struct Outcome {
    std::vector<TokenId> tokens;
    std::vector<float> logits;
    bool operator==(const Outcome&) const = default;
};

Outcome answer(Session& session, std::span<const TokenId> ids, uint32_t tokens = 5) {
    session.append(ids);
    GenerateResult result = session.generate(greedy(tokens));
    return {std::move(result.tokens), session.logits()};
}

/// `count` ids, of which those from `from` on are another sequence's.
std::vector<TokenId> ids_of(size_t count, uint32_t vocab, size_t from = SIZE_MAX) {
    std::vector<TokenId> ids(count);
    for (size_t i = 0; i < count; ++i) ids[i] = TokenId((3 + i * 37 + i * i + (i >= from ? 5 : 0)) % vocab);
    return ids;
}

std::shared_ptr<const Model> tiny() {
    static const auto model = std::make_shared<const Model>(open_model(fixtures() + "/models/llama3"));
    return model;
}
constexpr uint32_t vocab = 256;

}  // namespace

TEST_CASE("vulkan: prompts that begin alike are computed once, and each is answered as alone" *
          needs_fixtures_and_time()) {
    for (const std::string& family : decoders_or(of_each_kind)) {
        CAPTURE(family);
        const auto model = std::make_shared<const Model>(open_model(fixtures() + "/models/" + family));
        const Architecture& a = model->architecture;
        if (!a.encoder.empty()) continue;
        const uint32_t context = a.context ? std::min(a.context, 128u) : 128,
                       shared = std::min(70u, context * 2 / 3);
        std::vector<std::vector<TokenId>> prompts;
        for (const size_t more : {12, 3, 20, 0, 1})
            prompts.push_back(ids_of(shared + more, a.vocab, shared - more));
        EngineOptions options = deterministic(1);
        options.context = context;
        options.prompt_chunk = 16;
        std::vector<Outcome> expected;
        {
            Engine engine(model, options);
            for (const std::vector<TokenId>& ids : prompts) {
                Session session(engine);
                expected.push_back(answer(session, ids));
            }
        }
        options.sequences = 5;
        Engine engine(model, options);
        const bool shares = engine.impl().one_pass() && [&] {
            Session session(engine);
            return engine.impl().standing != nullptr;
        }();
        std::vector<Session> sessions;
        std::vector<GenerateResult> results(prompts.size());
        Batcher batcher(engine);
        for (size_t i = 0; i < prompts.size(); ++i)
            batcher.add(sessions.emplace_back(engine), prompts[i], greedy(5),
                        [&, i](GenerateResult result, const std::exception_ptr& error) {
                            CHECK_FALSE(error);
                            results[i] = std::move(result);
                        });
        while (batcher.step()) {
        }
        for (size_t i = 0; i < prompts.size(); ++i) {
            CAPTURE(i);
            CHECK(results[i].tokens == expected[i].tokens);
            CHECK(largest_error(expected[i].logits, sessions[i].logits()) == 0);
            const size_t alike =
                std::mismatch(prompts[0].begin(), prompts[0].end(), prompts[i].begin(), prompts[i].end())
                    .first -
                prompts[0].begin();
            const size_t blocks = std::min(alike, prompts[i].size() - 1) / kv_block_tokens;
            CHECK(results[i].reused >= (shares && i > 0 ? blocks * kv_block_tokens : 0));
            CHECK((shares || results[i].reused == 0));
        }
        CHECK(engine.device().validation_errors() == 0);
    }
}

TEST_SUITE("prefixes") {
    TEST_CASE("what a session has computed outlives it, until the engine's memory is given up" *
              needs_fixtures()) {
        const std::vector<TokenId> ids = ids_of(100, vocab);
        Engine engine(tiny(), deterministic(2));
        const auto ask = [&] {
            Session session(engine);
            session.append(ids);
            GenerateResult result = session.generate(greedy(40));
            return std::pair(result.tokens, result.reused);
        };
        const auto [tokens, reused] = ask();
        CHECK(reused == 0);
        CHECK(ask() == std::pair(tokens, 96u));
        {
            // A conversation that goes on from what was answered.
            Session session(engine);
            std::vector<TokenId> all = ids;
            all.insert(all.end(), tokens.begin(), tokens.end());
            session.append(all);
            CHECK(session.generate(greedy(1)).reused == 128);
        }
        engine.evict();
        CHECK(ask() == std::pair(tokens, 0u));
    }

    TEST_CASE("a block that others have is copied before it is written" * needs_fixtures()) {
        const std::vector<TokenId> ids = ids_of(80, vocab), other = ids_of(80, vocab, 43);
        Engine alone(tiny(), deterministic(1)), engine(tiny(), deterministic(3));
        const auto expected = [&](std::span<const TokenId> of, uint32_t tokens) {
            Session session(alone);
            return answer(session, of, tokens);
        };
        Session one(engine), two(engine);
        one.append(ids);
        two.append(ids);  // has blocks 0 and 1 of the other
        const uint32_t before = engine.impl().standing->free_blocks();
        two.truncate(43);  // in the midst of block 1
        CHECK(answer(two, std::span(other).subspan(43), 5) == expected(other, 5));
        CHECK(engine.impl().standing->free_blocks() == before - 1);
        CHECK(answer(one, {}, 5) == expected(ids, 5));
        // A third takes either's.
        for (const auto* of : {&ids, &other}) {
            Session three(engine);
            CHECK(answer(three, *of, 3) == expected(*of, 3));
        }
        // The last token is computed again for its logits: of what is now alone in its block.
        two.truncate(64);
        CHECK(answer(two, {}, 2) == expected(std::span(other).first(64), 2));
        Session four(engine);
        CHECK(answer(four, other, 3) == expected(other, 3));
        CHECK(engine.device().validation_errors() == 0);
    }

    TEST_CASE("where the cache is full, what nobody holds makes room, and no copy is a reason, not a crash" *
              needs_fixtures()) {
        EngineOptions options = deterministic(3);
        options.context = options.shared_context = 160;  // five blocks
        Engine alone(tiny(), deterministic(1)), engine(tiny(), options);
        const auto expected = [&](std::span<const TokenId> of) {
            Session session(alone);
            return answer(session, of, 3);
        };
        for (const size_t from : {0u, 10u, 40u, 70u, 0u, 90u}) {
            Session session(engine);
            const std::vector<TokenId> ids = ids_of(100, vocab, from);
            CHECK(answer(session, ids, 3) == expected(ids));
        }
        const std::vector<TokenId> ids = ids_of(129, vocab);
        Session one(engine), two(engine);
        one.append(std::span(ids).first(98));
        two.append(std::span(ids).first(65));
        two.truncate(40);
        one.append(std::span(ids).subspan(98));
        CHECK(engine.impl().standing->free_blocks() == 0);
        CHECK_THROWS_WITH_AS(two.append(ids_of(4, vocab, 0)), doctest::Contains("cache that sessions share"),
                             Error);
        CHECK(two.tokens().size() == 40);
        CHECK(answer(one, {}, 3) == expected(ids));
        one.truncate(0);
        CHECK(answer(two, std::span(ids).subspan(40), 3) == expected(ids));
    }
}

}  // namespace prefixes
