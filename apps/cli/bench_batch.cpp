// See bench_batch.h.
#include "bench_batch.h"

#include "batcher.h"
#include "clock.h"
#include "common.h"

#include <algorithm>
#include <optional>

namespace scoria::cli {
namespace {

/// Seconds that `tokens` more tokens of each session take, after a `prompt` of so many, for each another.
double answer_all(Engine& engine, std::span<Session> sessions, uint32_t prompt, uint32_t tokens) {
    Batcher batcher(engine);
    std::exception_ptr error;
    for (size_t i = 0; i < sessions.size(); ++i)
        batcher.add(sessions[i], some_ids(prompt, engine.model().architecture.vocab, uint32_t(i)),
                    {.sampling = {}, .max_tokens = tokens, .ignore_end = true, .on_token = {}},
                    [&](const GenerateResult&, const std::exception_ptr& thrown) {
                        if (thrown) error = thrown;
                    });
    const auto start = Clock::now();
    while (batcher.step()) {
    }
    if (error) std::rethrow_exception(error);
    return seconds_since(start);
}

/// A prompt that joins answers which come already.
struct Joined {
    double seconds = 0;           // to its first token
    std::vector<double> waits{};  // of the others for theirs meanwhile
};

Joined join(Engine& engine, std::span<Session> answers, Session& newcomer, uint32_t prompt, uint32_t seed) {
    constexpr uint32_t before = 4;  // tokens of each answer
    const uint32_t vocab = engine.model().architecture.vocab;
    std::exception_ptr error;
    const auto fails = [&](const GenerateResult&, const std::exception_ptr& thrown) {
        if (thrown) error = thrown;
    };
    Joined joined;
    std::optional<Clock::time_point> joins;
    std::vector<Clock::time_point> last(answers.size());
    size_t tokens = 0;
    Batcher batcher(engine);
    for (size_t i = 0; i < answers.size(); ++i) {
        const auto on_token = [&, i](TokenId) {
            if (joins) joined.waits.push_back(seconds_since(last[i]));
            last[i] = Clock::now();
            ++tokens;
            return true;
        };
        batcher.add(answers[i], {},
                    {.sampling = {}, .max_tokens = before + prompt, .ignore_end = true, .on_token = on_token},
                    fails);
    }
    while (tokens < before * answers.size() && batcher.step()) {
    }
    joins = Clock::now();
    bool done = false;
    batcher.add(newcomer, some_ids(prompt, vocab, seed),
                {.sampling = {}, .max_tokens = 1, .ignore_end = true, .on_token = {}},
                [&](const GenerateResult& result, const std::exception_ptr& thrown) {
                    fails(result, thrown);
                    done = true;
                });
    while (!done && batcher.step()) {
    }
    if (error) std::rethrow_exception(error);
    joined.seconds = seconds_since(*joins);
    return joined;
}

}  // namespace

std::vector<TokenId> some_ids(uint32_t count, uint32_t vocab, uint32_t seed) {
    std::vector<TokenId> ids(count);
    for (uint32_t i = 0; i < count; ++i) ids[i] = TokenId((uint64_t{i} * 2654435761u + 12345 + seed) % vocab);
    return ids;
}

std::vector<BenchRow> bench_batches(Engine& engine, const BatchTests& tests) {
    const uint32_t most = std::ranges::max(tests.answers);
    std::vector<Session> sessions;
    for (uint32_t i = 0; i <= most; ++i) sessions.emplace_back(engine);
    std::vector<BenchRow> rows;
    uint32_t seed = most;  // of one prompt alone: what was computed before would be shared
    const auto add = [&](std::string test, uint32_t tokens, uint32_t depth, uint32_t answers, auto measure) {
        BenchRow row{.test = std::move(test), .tokens = tokens, .depth = depth};
        row.chunk = engine.memory_plan().chunk;
        row.kv = kv_type_names[size_t(engine.options().kv_type())];
        const std::span<Session> some = std::span(sessions).first(answers);
        for (uint32_t round = 0; round <= tests.repetitions; ++round) {
            for (Session& session : sessions) session.truncate(0);
            answer_all(engine, some, std::max(depth, 1u), 1);
            if (round == 1) row.seconds.clear(), row.waits.clear();  // the first compiles pipelines
            measure(row, some);
        }
        rows.push_back(std::move(row));
    };
    for (const uint32_t depth : tests.depths)
        for (const uint32_t answers : tests.answers) {
            for (const uint32_t tokens : tests.generates)
                if (tokens > 0)
                    add(cat("tg", tokens, "x", answers), tokens * answers, depth, answers,
                        [&](BenchRow& row, std::span<Session> some) {
                            row.seconds.push_back(answer_all(engine, some, 0, tokens));
                        });
            for (const uint32_t prompt : tests.prompts)
                if (prompt > 0)
                    add(cat("pp", prompt, " beside ", answers), prompt, depth, answers,
                        [&](BenchRow& row, std::span<Session> some) {
                            Joined joined = join(engine, some, sessions.back(), prompt, ++seed);
                            row.seconds.push_back(joined.seconds);
                            row.waits.insert(row.waits.end(), joined.waits.begin(), joined.waits.end());
                        });
        }
    return rows;
}

}  // namespace scoria::cli
