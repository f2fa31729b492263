// Layers that remember by a state instead of keys: wherever a sequence is left and taken up again, it is the
// sequence computed at once, bit for bit.
#include "batcher.h"
#include "engine.h"
#include "fail.h"
#include "made_models.h"
#include "speculation.h"
#include "support/compare.h"
#include "support/device.h"
#include "validate/model_check.h"

#include <algorithm>
#include <array>
#include <cstring>

using namespace scoria;
using namespace scoria::test;

namespace recurring {
namespace {

struct Recurrent {
    MadeModel made;
    std::shared_ptr<const Model> model;
    std::unique_ptr<TemporaryFolder> folder;
};

/// One of each kind of recurrence, or all.
std::vector<Recurrent> recurrent_models() {
    std::vector<Recurrent> all;
    for (MadeModel& made : made_models()) {
        const bool chosen =
            made.name == "lfm2" || made.name == "qwen3_5_text" || made.name == "granitemoehybrid-mamba";
        if (few_models() && !chosen) continue;
        auto folder = std::make_unique<TemporaryFolder>(made.folder);
        auto model = std::make_shared<const Model>(open_model(folder->path()));
        if (model->architecture.recurrent())
            all.push_back({std::move(made), std::move(model), std::move(folder)});
    }
    REQUIRE(all.size() == (few_models() ? 3 : 7));
    return all;
}

std::span<const TokenId> part(const MadeModel& made, size_t from, size_t to) {
    return std::span(made.ids).subspan(from, to - from);
}

std::vector<float> at_once(Engine& engine, std::span<const TokenId> ids) {
    Session session(engine);
    session.append(ids);
    return session.logits();
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), 4 * a.size()) == 0;
}

}  // namespace

TEST_CASE("vulkan: a recurrence goes on where it was left, after any number of tokens") {
    for (const Recurrent& r : recurrent_models()) {
        CAPTURE(r.made.name);
        Engine engine(r.model, deterministic(1));
        const std::vector<float> whole = at_once(engine, r.made.ids),
                                 half = at_once(engine, part(r.made, 0, 12));
        CHECK(largest_error(r.made.logits.at(23), whole) <= strict_error);
        CHECK(largest_error(r.made.logits.at(11), half) <= strict_error);
        Session session(engine), other(engine);
        size_t done = 0;
        for (const size_t count : {1, 2, 1, 1, 5, 2, 3, 4, 1, 1, 3}) {
            session.append(part(r.made, done, done + count));
            other.append(part(r.made, 0, 1));  // its states are its own
            done += count;
            if (done == 12) CHECK(same_bits(session.logits(), half));
        }
        REQUIRE(done == r.made.ids.size());
        CHECK(same_bits(session.logits(), whole));
        CHECK(engine.memory_plan().states > 0);
        CHECK(engine.device().validation_errors() == 0);
    }
}

TEST_CASE("vulkan: a recurrence cut back is computed anew, unless it stands") {
    for (const Recurrent& r : recurrent_models()) {
        CAPTURE(r.made.name);
        Engine engine(r.model, deterministic(1));
        const std::vector<float> whole = at_once(engine, r.made.ids);
        Session session(engine);
        session.append(r.made.ids);
        for (const uint32_t length : {0u, 7u, 22u, 23u}) {
            CAPTURE(length);
            session.truncate(length);
            session.append(part(r.made, length, 24));
            CHECK(same_bits(session.logits(), whole));
            session.append(part(r.made, 0, 3));  // and what then follows is forgotten
            session.truncate(24);
            CHECK(same_bits(session.logits(), whole));
        }
        // After single tokens the last few states stand; other tokens in their place are not taken for them.
        session.truncate(20);
        for (size_t at = 20; at < 24; ++at) session.append(part(r.made, at, at + 1));
        session.truncate(22);
        session.append(std::array<TokenId, 2>{5, 6});
        session.truncate(22);
        session.append(part(r.made, 22, 24));
        CHECK(same_bits(session.logits(), whole));
        session.evict();
        session.restore();
        CHECK(same_bits(session.logits(), whole));
    }
}

TEST_CASE("vulkan: answers of a recurrence are the reference's, and it goes on behind them") {
    for (const Recurrent& r : recurrent_models()) {
        CAPTURE(r.made.name);
        Engine engine(r.model, deterministic(1));
        Session session(engine);
        session.append(part(r.made, 0, 12));
        std::vector<TokenId> all(r.made.ids.begin(), r.made.ids.begin() + 12);
        for (const size_t count : {5, 1, 3}) {
            const std::vector<TokenId> answer = session.generate(greedy(count)).tokens;
            for (const TokenId token : answer) {  // each the likeliest of those before it
                const std::vector<float> logits = at_once(engine, all);
                CHECK(std::ranges::max_element(logits) - logits.begin() == token);
                all.push_back(token);
            }
            session.append(part(r.made, count, count + 2));
            all.insert(all.end(), r.made.ids.begin() + std::ptrdiff_t(count),
                       r.made.ids.begin() + std::ptrdiff_t(count) + 2);
            CHECK(same_bits(session.logits(), at_once(engine, all)));
        }
        PromptLookup lookup;  // which takes tokens back, and so is left out
        GenerateOptions guessing = greedy(4);
        guessing.proposer = &lookup;
        const GenerateResult guessed = session.generate(guessing);
        CHECK(guessed.proposed == 0);
        Session again(engine);
        again.append(all);
        CHECK(again.generate(greedy(4)).tokens == guessed.tokens);
        CHECK(engine.device().validation_errors() == 0);
    }
}

TEST_CASE("vulkan: recurrences of a batch take turns") {
    for (const Recurrent& r : recurrent_models()) {
        CAPTURE(r.made.name);
        std::vector<std::vector<TokenId>> alone, together(3);
        {
            Engine engine(r.model, deterministic(1));
            for (const size_t length : {24, 7, 13}) {
                Session session(engine);
                session.append(part(r.made, 0, length));
                alone.push_back(session.generate(greedy(6)).tokens);
            }
        }
        Engine engine(r.model, deterministic(2));
        std::vector<Session> sessions;
        Batcher batcher(engine);
        for (size_t i = 0; i < 3; ++i) {
            sessions.emplace_back(engine);
            batcher.add(sessions.back(), part(r.made, 0, std::array{24, 7, 13}[i]), greedy(6),
                        [&, i](GenerateResult result, const std::exception_ptr& error) {
                            CHECK(error == nullptr);
                            together[i] = std::move(result.tokens);
                        });
        }
        while (batcher.step()) {
        }
        CHECK(together == alone);
    }
}

TEST_CASE("vulkan: recurrences on two devices, and kernel by kernel beside the reference") {
    for (const Recurrent& r : recurrent_models()) {
        CAPTURE(r.made.name);
        EngineOptions options = deterministic(1);
        options.prompt_chunk = 8;
        Engine one(r.model, options);
        options.device.select = "0,0";
        Engine two(r.model, options);
        CHECK(same_bits(at_once(one, r.made.ids), at_once(two, r.made.ids)));
        Session session(one), shared(two);
        for (Session* each : {&session, &shared}) each->append(part(r.made, 0, 9));
        CHECK(session.generate(greedy(5)).tokens == shared.generate(greedy(5)).tokens);
        const auto checked = validate::check_model(one, part(r.made, 0, 8));
        CHECK(checked.passed());
        CHECK(std::ranges::any_of(checked.ops,
                                  [](const auto& op) { return op.op.find("convolve") != op.op.npos; }));
        CHECK(one.device().validation_errors() == 0);
    }
}

}  // namespace recurring
