// Many threads on one engine: on a driver, and on a stub that thread sanitizers see through.
#define VK_NO_PROTOTYPES
#include "library.h"
#include "stub_vulkan.h"

#include <atomic>
#include <thread>

using namespace scoria::test;

namespace {

constexpr int thread_count = 8;

/// A session from its creation to its end, evicted once, while the engine is asked other things.
bool answers_right(scoria_engine* engine, const std::vector<int32_t>& expected) {
    scoria_session* session = nullptr;
    if (scoria_session_create(engine, &session) != SCORIA_OK) return false;
    const scoria_generate_options options = greedy(uint32_t(expected.size() - some_prompt.size()));
    bool right = true;
    for (int round = 0; round < 2; ++round) {
        std::vector<int32_t> ids(expected.size());
        size_t count = 0, tokens = 0;
        scoria_memory memory{};
        memory.size = sizeof memory;
        right = right &&
                scoria_session_replace(session, some_prompt.data(), some_prompt.size()) == SCORIA_OK &&
                scoria_session_generate(session, &options, nullptr) == SCORIA_OK &&
                scoria_session_tokens(session, ids.data(), ids.size(), &count) == SCORIA_OK &&
                scoria_tokenize(engine, "a", 1, 0, nullptr, 0, &tokens) == SCORIA_OK &&
                scoria_engine_memory(engine, &memory) == SCORIA_OK &&
                scoria_engine_set_submission_ms(engine, float(round)) == SCORIA_OK &&
                scoria_session_evict(session) == SCORIA_OK && ids == expected;
    }
    return scoria_session_destroy(session) == SCORIA_OK && right;
}

/// The same by a batch of two, which share a cache with each other or with other threads' sessions.
bool batch_right(scoria_engine* engine, const std::vector<int32_t>& expected) {
    scoria_batch* batch = nullptr;
    if (scoria_batch_create(engine, &batch) != SCORIA_OK) return false;
    scoria_session* sessions[2] = {};
    const scoria_generate_options options = greedy(uint32_t(expected.size() - some_prompt.size()));
    bool right = true;
    for (scoria_session*& session : sessions)
        right = right && scoria_session_create(engine, &session) == SCORIA_OK &&
                scoria_batch_add(batch, session, some_prompt.data(), some_prompt.size(), &options, nullptr) ==
                    SCORIA_OK;
    for (size_t left = 2; right && left != 0;) right = scoria_batch_step(batch, &left) == SCORIA_OK;
    for (scoria_session* session : sessions) {
        std::vector<int32_t> ids(expected.size());
        size_t count = 0;
        right = right && scoria_session_tokens(session, ids.data(), ids.size(), &count) == SCORIA_OK &&
                ids == expected && scoria_session_destroy(session) == SCORIA_OK;
    }
    return scoria_batch_destroy(batch) == SCORIA_OK && right;
}

void check_threads(scoria_engine_options engine) {
    engine.sequences = 3;
    const Loaded loaded(engine);
    const std::vector<int32_t> expected = generated(loaded.session, some_prompt, 16);
    std::atomic<int> right{0};
    {
        std::vector<std::jthread> threads;
        for (int t = 0; t < thread_count; ++t)
            threads.emplace_back([&, answers = t % 2 ? batch_right : answers_right] {
                right += answers(loaded.engine, expected);
            });
    }
    CHECK(right == thread_count);
}

}  // namespace

TEST_CASE("eight threads, one engine, each a session, while others ask it things" * needs_fixtures()) {
    check_threads(deterministic());
}

TEST_CASE("what a destroy has ended is gone, whoever just called it" * needs_fixtures()) {
    const Loaded loaded(deterministic());
    for (int round = 0; round < 500; ++round) {
        scoria_session* session = nullptr;
        REQUIRE_OK(scoria_session_create(loaded.engine, &session));
        std::atomic<bool> over{false};
        std::vector<std::jthread> callers;
        for (int i = 0; i < 3; ++i)
            callers.emplace_back([&] {
                while (!over) (void)scoria_session_truncate(session, 0);
            });
        while (scoria_session_destroy(session) == SCORIA_BUSY) {
        }
        CHECK(scoria_engine_destroy(loaded.engine) == SCORIA_BUSY);
        CHECK(std::string(scoria_last_error()).find("got 1 of them") != std::string::npos);  // loaded's own
        over = true;
    }
}

TEST_CASE("eight threads on a stub driver" * needs_fixtures()) {
    const size_t before = StubVulkan::objects();
    {
        const StubVulkan stub;
        scoria_engine_options options = deterministic();
        options.vulkan = stub.description();
        check_threads(options);
    }
    CHECK(StubVulkan::objects() == before);
}
