// See bench_batch.h.
#include "bench_batch.h"

#include "batcher.h"
#include "clock.h"
#include "common.h"

#include <algorithm>

namespace scoria::cli {
namespace {

/// Seconds that `tokens` more tokens of each session take, after a `prompt` of so many, for each another.
double answer_all(Engine& engine, std::span<Session> sessions, uint32_t prompt, uint32_t tokens) {
    Batcher batcher(engine);
    std::exception_ptr error;
    for (size_t i = 0; i < sessions.size(); ++i)
        batcher.add(sessions[i], some_ids(prompt, engine.model().architecture.vocab, uint32_t(i)),
                    {.sampling = {}, .max_tokens = tokens, .ignore_end = true, .on_token = {}},
                    [&](GenerateResult, std::exception_ptr thrown) {
                        if (thrown) error = thrown;
                    });
    const auto start = Clock::now();
    while (batcher.step()) {
    }
    if (error) std::rethrow_exception(error);
    return seconds_since(start);
}

}  // namespace

std::vector<TokenId> some_ids(uint32_t count, uint32_t vocab, uint32_t seed) {
    std::vector<TokenId> ids(count);
    for (uint32_t i = 0; i < count; ++i) ids[i] = TokenId((uint64_t{i} * 2654435761u + 12345 + seed) % vocab);
    return ids;
}

std::vector<BenchRow> bench_batches(Engine& engine, std::span<const uint32_t> batches,
                                    std::span<const uint32_t> generates, std::span<const uint32_t> depths,
                                    uint32_t repetitions) {
    std::vector<Session> sessions;
    for (uint32_t i = 0; i < std::ranges::max(batches); ++i) sessions.emplace_back(engine);
    std::vector<BenchRow> rows;
    const auto add = [&](uint32_t depth, uint32_t tokens, uint32_t answers) {
        BenchRow row{.test = cat("tg", tokens, "x", answers), .tokens = tokens * answers, .depth = depth};
        row.chunk = engine.memory_plan().chunk;
        row.kv = kv_type_names[size_t(engine.options().kv_type())];
        const std::span<Session> some = std::span(sessions).first(answers);
        for (uint32_t round = 0; round <= repetitions; ++round) {
            for (Session& session : some) session.truncate(0);
            answer_all(engine, some, std::max(depth, 1u), 1);
            const double seconds = answer_all(engine, some, 0, tokens);
            if (round > 0) row.seconds.push_back(seconds);  // the first compiles pipelines
        }
        rows.push_back(std::move(row));
    };
    for (const uint32_t depth : depths)
        for (const uint32_t tokens : generates)
            for (const uint32_t answers : batches)
                if (tokens > 0) add(depth, tokens, answers);
    return rows;
}

}  // namespace scoria::cli
