// Layers that remember by a state instead of keys: wherever a sequence is left and taken up again, it is the
// sequence computed at once, bit for bit.
#include "batcher.h"
#include "engine.h"
#include "fail.h"
#include "made_gguf.h"
#include "reference/executor.h"
#include "session_impl.h"
#include "speculation.h"
#include "support/compare.h"
#include "support/device.h"
#include "support/fused_and_not.h"
#include "support/golden.h"
#include "validate/model_check.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>

using namespace scoria;
using namespace scoria::test;

namespace recurring {
namespace {

struct Recurrent {
    MadeModel made;
    std::shared_ptr<const Model> model;
    std::shared_ptr<const void> file;
};

/// One of each kind of recurrence, and one that is nothing else, or one of all; deep, all.
std::vector<Recurrent> recurrent_models() {
    const auto wanted = [](const std::string& name) {
        return deep() || name == "qwen3_5_text" ||
               (!few_models() && (name == "lfm2" || name == "granitemoehybrid-mamba" || name == "mamba2" ||
                                  name == "mamba" || name == "minimax"));
    };
    std::vector<Recurrent> all;
    for (MadeModel& made : made_models(wanted)) {
        auto folder = std::make_shared<TemporaryFolder>(made.folder);
        auto model = std::make_shared<const Model>(open_model(folder->path()));
        if (model->architecture.recurrent())
            all.push_back({std::move(made), std::move(model), std::move(folder)});
    }
    const auto wanted_files = [](const std::string& name) {
        return deep() ? name == "plamo2" || name == "rwkv7" || name == "arwkv7"
                      : !few_models() && name == "rwkv7";
    };
    for (MadeGguf& made : made_ggufs(wanted_files)) {
        auto file = std::make_shared<TemporaryFile>(made.file.bytes());
        auto model = std::make_shared<const Model>(open_model(file->path()));
        all.push_back({{made.name, made.name, {}, made.ids, {}, made.logits}, model, file});
    }
    REQUIRE(all.size() == (deep() ? 32 : few_models() ? 1 : 7));
    return all;
}

/// Whether two devices can share its layers: those of RWKV-7 read values of the first one.
bool shareable(const Recurrent& r) { return r.model->architecture.recurrence().kind != RecurrenceKind::wkv; }
std::string two_devices(const Recurrent& r) { return shareable(r) ? "0,0" : "0"; }

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

TEST_CASE("vulkan: a recurrence cut back behind its prompt goes on from what was kept of that" *
          doctest::skip(floor_tier())) {
    for (const Recurrent& r : recurrent_models()) {
        CAPTURE(r.made.name);
        std::vector<TokenId> ids;
        while (ids.size() < 160) ids.insert(ids.end(), r.made.ids.begin(), r.made.ids.end());
        const auto of = [&](size_t from, size_t to) { return std::span(ids).subspan(from, to - from); };
        // Where windows have gone on, a sequence is computed anew.
        const bool windows = std::ranges::any_of(
            r.model->architecture.layers, [](const Layer& layer) { return layer.attention.window != 0; });
        EngineOptions options = deterministic(1);
        options.prompt_chunk = 32;
        options.context = 160;
        Engine one(r.model, options);
        options.device.select = two_devices(r);
        Engine two(r.model, options);
        for (Engine* const engine : {&one, &two}) {
            Session session(*engine);
            const auto goes_on = [&](uint32_t length, uint32_t stands, std::span<const TokenId> more) {
                CAPTURE(length);
                session.truncate(length);
                if (!windows) CHECK(session.impl().computed == stands);
                session.append(more);
                const std::vector<TokenId> all(session.tokens().begin(), session.tokens().end());
                CHECK(same_bits(session.logits(), at_once(one, all)));
            };
            session.append(of(0, 90));  // kept: 74
            (void)session.generate(greedy(5));
            goes_on(88, 74, of(88, 155));  // 139
            (void)session.generate(greedy(5));
            goes_on(153, 139, of(1, 3));
            goes_on(130, 74, of(30, 35));   // a message before is another
            goes_on(134, 106, of(40, 60));  // its first chunk's stand yet; 138
            goes_on(150, 138, of(0, 1));
            goes_on(90, 74, of(90, 93));
            goes_on(73, 0, of(73, 90));
            session.evict();
            goes_on(85, 0, of(5, 9));
            // Two that begin alike are followed by a third.
            session.truncate(0);
            session.append(of(0, 150));
            goes_on(110, 0, of(20, 50));
            (void)session.generate(greedy(5));
            goes_on(100, 94, of(3, 55));
            goes_on(97, 94, of(8, 10));
        }
        // Of prompts that a batch computes, too.
        EngineOptions shared = deterministic(2);
        shared.prompt_chunk = 32;
        shared.context = 160;
        Engine engine(r.model, shared);
        Session session(engine), other(engine);
        Batcher batcher(engine);
        batcher.add(session, of(0, 100), greedy(5));
        batcher.add(other, of(0, 150), greedy(9));
        while (batcher.step()) {
        }
        session.truncate(98);
        other.truncate(140);
        if (!windows) CHECK(session.impl().computed == 84);
        if (!windows) CHECK(other.impl().computed == 134);
        batcher.add(session, of(50, 60), greedy(3));
        batcher.add(other, of(50, 60), greedy(3));
        while (batcher.step()) {
        }
        for (Session* each : {&session, &other}) {
            const std::vector<TokenId> all(each->tokens().begin(), each->tokens().end());
            CHECK(same_bits(each->logits(), at_once(one, all)));
        }
        CHECK(engine.device().validation_errors() == 0);
    }
}

TEST_CASE("vulkan: answers of a recurrence are the reference's, and it goes on behind them" *
          doctest::skip(floor_tier())) {
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
        CHECK(engine.device().validation_errors() == 0);
    }
}

/// What a batch of sessions answers, one after the other's prompt, and its passes. Who is done keeps nothing.
std::pair<std::vector<std::vector<TokenId>>, size_t>
answers(Engine& engine, const MadeModel& made, std::span<const uint32_t> lengths, size_t tokens) {
    std::vector<std::vector<TokenId>> all(lengths.size());
    std::vector<Session> sessions;
    Batcher batcher(engine);
    for (size_t i = 0; i < lengths.size(); ++i) sessions.emplace_back(engine);
    for (size_t i = 0; i < lengths.size(); ++i)
        batcher.add(sessions[i], part(made, 0, lengths[i]), greedy(tokens),
                    [&, i](GenerateResult result, const std::exception_ptr& error) {
                        CHECK(error == nullptr);
                        all[i] = std::move(result.tokens);
                        sessions[i].truncate(0);
                    });
    size_t passes = 0;
    do ++passes;
    while (batcher.step());
    return {all, passes};
}

/// Guesses what an answer is known to be, every so often with one wrong token in it.
struct HalfRight final : Proposer {
    std::vector<TokenId> answer;
    size_t begin, wrong_every, asked = 0;
    HalfRight(std::vector<TokenId> known, size_t first, size_t wrong)
        : answer(std::move(known)), begin(first), wrong_every(wrong) {}
    bool promising(std::span<const TokenId>) const override { return true; }
    std::vector<TokenId> propose(std::span<const TokenId> tokens, uint32_t most,
                                 const SamplingOptions&) override {
        std::vector<TokenId> guess;
        for (size_t at = tokens.size() - begin; at < answer.size() && guess.size() < most; ++at)
            guess.push_back(++asked % wrong_every ? answer[at] : answer[at] ^ 1);
        return guess;
    }
};

TEST_CASE("vulkan: guesses leave the answers of recurrences as they are, where they are wrong, too" *
          doctest::skip(floor_tier())) {
    for (const Recurrent& r : recurrent_models()) {
        CAPTURE(r.made.name);
        Engine one(r.model, deterministic(1));
        EngineOptions options = deterministic(1);
        options.device.select = two_devices(r);
        Engine two(r.model, options);
        Session session(one);
        session.append(part(r.made, 0, 12));
        const std::vector<TokenId> wanted = session.generate(greedy(40)).tokens;
        session.append(part(r.made, 3, 5));
        const std::vector<float> end = session.logits();
        for (Engine* const engine : {&one, &two})
            for (const size_t wrong_every : {1000, 2, 3, 5, 12}) {
                CAPTURE(wrong_every);
                HalfRight proposer(wanted, 12, wrong_every);
                GenerateOptions guessing = greedy(40);
                guessing.proposer = &proposer;
                Session guessed(*engine);
                guessed.append(part(r.made, 0, 12));
                const GenerateResult result = guessed.generate(guessing);
                CHECK(result.tokens == wanted);
                CHECK(result.accepted > 0);
                CHECK((result.accepted == result.proposed) == (wrong_every == 1000));
                guessed.append(part(r.made, 3, 5));
                CHECK(same_bits(guessed.logits(), end));
            }
        // A model that drafts for itself, cut back to what it knew before each guess.
        DraftModel draft(std::make_shared<Engine>(r.model, deterministic(1)), *r.model);
        GenerateOptions guessing = greedy(40);
        guessing.proposer = &draft;
        Session guessed(one);
        guessed.append(part(r.made, 0, 12));
        const GenerateResult result = guessed.generate(guessing);
        CHECK(result.tokens == wanted);
        CHECK(result.accepted == result.proposed);
        CHECK(one.device().validation_errors() == 0);
    }
}

TEST_CASE("vulkan: recurrences in one pass are each alone, bit for bit") {
    constexpr std::array lengths{24u, 1u, 7u, 13u};
    for (const Recurrent& r : recurrent_models()) {
        CAPTURE(r.made.name);
        Engine one(r.model, deterministic(1));
        EngineOptions options = deterministic(4);
        options.prompt_chunk = 8;  // prompts in pieces beside answers
        Engine engine(r.model, options);
        std::vector<Session> sessions;
        for (size_t i = 0; i < lengths.size(); ++i) sessions.emplace_back(engine);
        sessions[3].append(part(r.made, 0, 5));  // by itself, before
        std::vector<std::vector<TokenId>> together(lengths.size());
        Batcher batcher(engine);
        size_t passes = 0;
        for (const bool again : {false, true}) {
            for (size_t i = 0; i < lengths.size(); ++i) {
                const size_t held = again ? 0 : sessions[i].tokens().size();
                const auto ids = again ? part(r.made, 3, 8) : part(r.made, held, lengths[i]);
                batcher.add(sessions[i], ids, greedy(again ? 4 : 6),
                            [&, i](const GenerateResult& result, const std::exception_ptr& error) {
                                CHECK(error == nullptr);
                                together[i].insert(together[i].end(), result.tokens.begin(),
                                                   result.tokens.end());
                            });
            }
            do ++passes;
            while (batcher.step());
        }
        CHECK(passes > 2 * lengths.size());  // which turns would take
        for (size_t i = 0; i < lengths.size(); ++i) {
            Session session(one);
            session.append(part(r.made, 0, lengths[i]));
            std::vector<TokenId> alone = session.generate(greedy(6)).tokens;
            session.append(part(r.made, 3, 8));
            for (const TokenId token : session.generate(greedy(4)).tokens) alone.push_back(token);
            CHECK(together[i] == alone);
            CHECK(same_bits(sessions[i].logits(), session.logits()));
        }
        CHECK(engine.device().validation_errors() == 0);
    }
}

TEST_CASE("vulkan: a recurrence that gives way in a full cache is computed again" *
          doctest::skip(floor_tier())) {
    constexpr std::array lengths{24u, 20u, 9u};
    for (const Recurrent& r : recurrent_models()) {
        CAPTURE(r.made.name);
        EngineOptions options = deterministic(3);
        options.context = 64;
        Engine roomy(r.model, options);
        options.shared_context = 96;  // of the 101 that they come to, in blocks of 32
        Engine full(r.model, options);
        const auto [wanted, passes] = answers(roomy, r.made, lengths, 16);
        const auto [given, more_passes] = answers(full, r.made, lengths, 16);
        CHECK(given == wanted);
        CHECK(more_passes > passes);
    }
}

TEST_CASE("vulkan: recurrences of more sequences than a binding holds take turns" *
          doctest::skip(floor_tier())) {
    for (const Recurrent& r : recurrent_models()) {
        CAPTURE(r.made.name);
        constexpr std::array lengths{9u, 5u};
        EngineOptions options = deterministic(64);
        options.context = 32;
        options.shared_context = 256;
        Engine wide(r.model, options);
        const TemporaryFile caps("{}");
        options.device.caps_profile = caps.path();
        const auto [wanted, passes] = answers(wide, r.made, lengths, 4);
        std::vector<const char*> limits{R"({"max_storage_range": 65536})"};
        if (r.made.name == "qwen3_5_text")  // of the others no layer has states of a megabyte
            limits.push_back(R"({"max_allocation": 1048576})");
        for (const char* limit : limits) {
            CAPTURE(limit);
            std::ofstream(options.device.caps_profile) << limit;
            Engine narrow(r.model, options);
            const auto [given, turns] = answers(narrow, r.made, lengths, 4);
            CHECK(given == wanted);
            CHECK(turns < passes);
            CHECK(turns == lengths.size());
        }
        // Nor does an engine of one sequence compute several, but its batches take prompts in pieces, too.
        EngineOptions one = deterministic(1);
        one.prompt_chunk = 8;
        Engine alone(r.model, one);
        Session session(alone), other(alone);
        session.append(r.made.ids);
        Batcher batcher(alone);
        std::vector<TokenId> tokens;
        batcher.add(other, r.made.ids, greedy(6),
                    [&](const GenerateResult& result, const std::exception_ptr&) { tokens = result.tokens; });
        while (batcher.step()) {
        }
        CHECK(tokens == session.generate(greedy(6)).tokens);
        CHECK(alone.device().validation_errors() == 0);
    }
}

TEST_CASE("vulkan: recurrences on two devices, and kernel by kernel beside the reference") {
    for (const Recurrent& r : recurrent_models()) {
        CAPTURE(r.made.name);
        EngineOptions options = deterministic(1);
        options.prompt_chunk = 8;
        Engine one(r.model, options);
        options.device.select = "0,0";
        if (!shareable(r))
            CHECK_THROWS_WITH_AS(Engine(r.model, options), doctest::Contains("some that share"), Error);
        options.device.select = two_devices(r);
        Engine two(r.model, options);
        CHECK(same_bits(at_once(one, r.made.ids), at_once(two, r.made.ids)));
        Session session(one), shared(two);
        if (shareable(r))
            options.memory_budgets = {800ull << 20, 80ull << 20};  // the last layer alone, of attention
        Engine uneven(r.model, options);
        Session apart(uneven);
        for (Session* each : {&session, &shared, &apart}) each->append(part(r.made, 0, 9));
        const std::vector<TokenId> answer = session.generate(greedy(5)).tokens;
        CHECK(answer == shared.generate(greedy(5)).tokens);
        CHECK(answer == apart.generate(greedy(5)).tokens);
        for (Engine* engine : {&two, &uneven})
            for (const vk::Device* device : engine->devices()) CHECK(device->validation_errors() == 0);
        // Not of experts, whose choice, and gates of one column, near 0 are within no bound of a row.
        if (r.model->architecture.layers.back().feed_forward.routing.experts != 0) continue;
        const auto checked = validate::check_model(one, part(r.made, 0, 8));
        CHECK(checked.passed());
        CHECK(std::ranges::any_of(checked.ops,
                                  [](const auto& op) { return op.op == "convolve" || op.op == "shift"; }));
        CHECK(one.device().validation_errors() == 0);
    }
}

TEST_CASE("vulkan: q, k and v of a recurrence stand side by side, whatever their types, and without fusion") {
    MadeModel made = made_model("kimi_linear");
    for (const char* half : {"0.self_attn.v_proj", "0.self_attn.f_a_proj", "2.self_attn.k_proj"}) {
        auto& tensor = made.folder.tensors.at("model.layers." + std::string(half) + ".weight");
        std::string upper;  // BF16, cut off
        for (size_t i = 2; i < tensor.bytes.size(); i += 4) upper += tensor.bytes.substr(i, 2);
        tensor.type = "BF16";
        tensor.bytes = upper;
    }
    const TemporaryFolder folder(made.folder);
    const auto model = std::make_shared<const Model>(open_model(folder.path()));
    reference::Executor executor(*model);
    const std::vector<double> expected = executor.forward(made.ids).logits;
    check_fused_and_not(model, made.ids, expected);
}

TEST_CASE("vulkan: a model without attention caches nothing by position, and has all of its file's") {
    const MadeModel made = made_model("mamba2");
    const TemporaryFolder folder(made.folder);
    const auto model = std::make_shared<const Model>(open_model(folder.path()));
    EngineOptions options = deterministic(1);
    options.context = model->architecture.context;
    CHECK(options.context == 1 << 20);
    Engine engine(model, options);
    CHECK(engine.memory_plan().kv + engine.memory_plan().host_kv == 0);
    CHECK(engine.memory_plan().kv_parts.empty());
    CHECK(engine.memory_plan().recurrences == 3);
    std::vector<TokenId> ids;
    for (TokenId i = 0; i < 9000; ++i) ids.push_back((7 * i * i + 3 * i) % 61 + 3);
    ids.insert(ids.end(), made.ids.begin(), made.ids.end());  // what is long past decays
    const std::vector<float> far = at_once(engine, ids), near = at_once(engine, std::span(ids).last(2000));
    CHECK(largest_error(std::vector<double>(near.begin(), near.end()), far) <= strict_error);
    ++options.context;
    CHECK_THROWS_WITH_AS(Engine(model, options), doctest::Contains("expected at most 1048576 positions"),
                         Error);
}

}  // namespace recurring
