// Device memory given back on request: nothing is held then, and sessions go on as if nothing had been.
#include "library.h"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

using namespace scoria::test;

namespace {

uint64_t in_use(scoria_engine* engine) { return memory_of(engine).in_use; }

std::vector<int32_t> more_tokens(scoria_session* session, uint32_t count) {
    const scoria_generate_options options = greedy(count);
    REQUIRE_OK(scoria_session_generate(session, &options, nullptr));
    size_t length = 0;
    REQUIRE_OK(scoria_session_tokens(session, nullptr, 0, &length));
    std::vector<int32_t> ids(length);
    REQUIRE_OK(scoria_session_tokens(session, ids.data(), ids.size(), &length));
    return ids;
}

/// A prompt, or the source of a pair and what its decoder begins with.
void begin(const Loaded& loaded) {
    const scoria_engine_info info = info_of(loaded.engine);
    if (info.kind != SCORIA_ENCODER_DECODER) {
        REQUIRE_OK(scoria_session_append(loaded.session, some_prompt.data(), some_prompt.size()));
        return;
    }
    REQUIRE_OK(scoria_session_encode(loaded.session, some_prompt.data(), some_prompt.size()));
    REQUIRE_OK(scoria_session_append(loaded.session, &info.decoder_start, 1));
}

enum class Way { engine, engine_ahead, session, session_ahead };
struct EvictCase {
    const char* what;
    Way way;
};
const EvictCase evict_cases[] = {
    {"engine, restored by the next call", Way::engine},
    {"engine, restored ahead", Way::engine_ahead},
    {"session, restored by the next call", Way::session},
    {"session, restored ahead", Way::session_ahead},
};

void evict(const Loaded& loaded, Way way) {
    const uint64_t before = in_use(loaded.engine);
    if (way == Way::engine || way == Way::engine_ahead) {
        for (int twice = 0; twice < 2; ++twice) REQUIRE_OK(scoria_engine_evict(loaded.engine));
        CHECK(in_use(loaded.engine) == 0);
        if (way == Way::engine) return;
        uint64_t uploaded = 0;
        REQUIRE_OK(scoria_engine_restore(
            loaded.engine,
            [](void* user, uint64_t done, uint64_t) {
                *static_cast<uint64_t*>(user) = done;
                return 1;
            },
            &uploaded));
        CHECK(uploaded > 0);
        CHECK(in_use(loaded.engine) > 0);
        CHECK(in_use(loaded.engine) <= before);
        return;
    }
    for (int twice = 0; twice < 2; ++twice) REQUIRE_OK(scoria_session_evict(loaded.session));
    CHECK(in_use(loaded.engine) <= before);
    if (way == Way::session_ahead) REQUIRE_OK(scoria_session_restore(loaded.session));
}

}  // namespace

TEST_CASE("what is evicted holds nothing, and the answer goes on" * needs_fixtures()) {
    for (const char* model : {"/gguf/llama1.gguf", "/gguf/t5.gguf"}) {
        const std::string path = fixtures() + model;
        const Loaded whole(deterministic(path));
        begin(whole);
        const std::vector<int32_t> expected = more_tokens(whole.session, 24);
        for (const EvictCase& each : evict_cases) {
            CAPTURE(std::string(model));
            CAPTURE(std::string(each.what));
            const Loaded loaded(deterministic(path));
            begin(loaded);
            std::vector<int32_t> ids;
            for (int round = 0; round < 3; ++round) {
                ids = more_tokens(loaded.session, 8);
                if (round < 2) evict(loaded, each.way);
            }
            CHECK(ids == expected);
        }
    }
}

TEST_CASE("what is evicted can be shortened" * needs_fixtures()) {
    const Loaded loaded(deterministic());
    const std::vector<int32_t> expected = generated(loaded.session, some_prompt, 6), other = {3, 40, 9};
    for (const EvictCase& each : evict_cases) {
        CAPTURE(std::string(each.what));
        for (const std::vector<int32_t>& before : {some_prompt, other}) {
            (void)generated(loaded.session, before, 6);
            evict(loaded, each.way);
            CHECK(generated(loaded.session, some_prompt, 6) == expected);
        }
    }
}

TEST_CASE("sessions that are evicted give their memory back" * needs_fixtures()) {
    const Loaded loaded(deterministic());
    const std::vector<int32_t> expected = generated(loaded.session, some_prompt, 6);
    const uint64_t alone = in_use(loaded.engine);
    std::vector<scoria_session*> sessions;
    while (in_use(loaded.engine) < 4 * alone) {
        sessions.push_back(nullptr);
        REQUIRE_OK(scoria_session_create(loaded.engine, &sessions.back()));
    }
    const uint64_t many = in_use(loaded.engine);
    for (scoria_session* session : sessions) CHECK(scoria_session_evict(session) == SCORIA_OK);
    CHECK(in_use(loaded.engine) < many);  // the allocator keeps a block for later
    CHECK(generated(sessions.front(), some_prompt, 6) == expected);
    CHECK(generated(loaded.session, some_prompt, 6) == expected);
    for (scoria_session* session : sessions) CHECK(scoria_session_destroy(session) == SCORIA_OK);
}

TEST_CASE("an engine that computes is not evicted" * needs_fixtures()) {
    const Loaded loaded(deterministic());
    const std::vector<int32_t> expected = generated(loaded.session, some_prompt, 6);
    scoria_generate_options options = greedy(6);
    options.user = loaded.engine;
    options.on_token = [](void* engine, int32_t, const char*, size_t) {
        CHECK(scoria_engine_evict(static_cast<scoria_engine*>(engine)) == SCORIA_BUSY);
        scoria_status elsewhere = SCORIA_OK;
        std::thread([&] { elsewhere = scoria_engine_evict(static_cast<scoria_engine*>(engine)); }).join();
        CHECK(elsewhere == SCORIA_BUSY);
        const auto restore = [&] {
            return scoria_engine_restore(static_cast<scoria_engine*>(engine), nullptr, nullptr);
        };
        CHECK(restore() == SCORIA_OK);
        std::thread([&] { elsewhere = restore(); }).join();  // there is nothing to wait for
        CHECK(elsewhere == SCORIA_OK);
        return 1;
    };
    REQUIRE_OK(scoria_session_replace(loaded.session, some_prompt.data(), some_prompt.size()));
    REQUIRE_OK(scoria_session_generate(loaded.session, &options, nullptr));
    CHECK(more_tokens(loaded.session, 1).size() == expected.size() + 1);
}

TEST_CASE("an answer stopped while what was evicted is computed again has a result" * needs_fixtures()) {
    scoria_session* stopped = nullptr;
    scoria_engine_options options = deterministic();
    options.prompt_chunk = 2;
    options.user = &stopped;
    options.on_submission = [](void* user, float) {
        (void)scoria_session_cancel(*static_cast<scoria_session**>(user));
    };
    const Loaded loaded(options);
    const std::vector<int32_t> expected = generated(loaded.session, some_prompt, 6);
    REQUIRE_OK(scoria_session_truncate(loaded.session, some_prompt.size()));
    REQUIRE_OK(scoria_engine_evict(loaded.engine));
    stopped = loaded.session;
    scoria_generate_result result{};
    result.size = sizeof result;
    const scoria_generate_options answer = greedy(6);
    CHECK(scoria_session_generate(loaded.session, &answer, &result) == SCORIA_CANCELLED);
    CHECK(result.stop == SCORIA_STOP_CANCELLED);
    CHECK(result.tokens == 0);
    stopped = nullptr;
    REQUIRE_OK(scoria_session_generate(loaded.session, &answer, &result));
    CHECK(result.tokens == 6);
    CHECK(generated(loaded.session, some_prompt, 6) == expected);
}

TEST_CASE("restoring can be stopped, and can fail, and then succeed" * needs_fixtures()) {
    const Scratch scratch;
    const std::filesystem::path file = scratch.path / "model.gguf";
    std::filesystem::copy_file(tiny_model(), file);
    const auto size = std::filesystem::file_size(file);
    // Of whole seconds: finer ones cannot be set by MinGW's library.
    const auto written = std::chrono::floor<std::chrono::seconds>(std::filesystem::last_write_time(file));
    std::filesystem::last_write_time(file, written);
    {
        const Loaded loaded(deterministic(file.string()));
        const std::vector<int32_t> expected = generated(loaded.session, some_prompt, 12);
        REQUIRE_OK(scoria_engine_evict(loaded.engine));
        CHECK(scoria_engine_restore(
                  loaded.engine, [](void*, uint64_t, uint64_t) { return 0; }, nullptr) == SCORIA_CANCELLED);
        std::filesystem::resize_file(file, size / 2);
        CHECK(scoria_session_restore(loaded.session) == SCORIA_BAD_FILE);
        CHECK(scoria_engine_restore(loaded.engine, nullptr, nullptr) == SCORIA_BAD_FILE);
        size_t count = 0;
        CHECK(scoria_session_logits(loaded.session, nullptr, 0, &count) == SCORIA_BAD_FILE);
        // The same file again, not another one in its place, and not another's bytes in it.
        std::ifstream from(tiny_model(), std::ios::binary);
        const std::string bytes(std::istreambuf_iterator<char>(from), {});
        std::ofstream(file, std::ios::binary | std::ios::in)
            .write(bytes.data(), std::streamsize(bytes.size()));
        std::filesystem::last_write_time(file, written + std::chrono::seconds(1));
        CHECK(scoria_engine_restore(loaded.engine, nullptr, nullptr) == SCORIA_BAD_FILE);
        std::filesystem::last_write_time(file, written);
        CHECK(generated(loaded.session, some_prompt, 12) == expected);
    }
}

TEST_CASE("evicting while others come and go" * needs_fixtures()) {
    const Loaded loaded(deterministic());
    const std::vector<int32_t> expected = generated(loaded.session, some_prompt, 12);
    std::atomic<bool> done{false};
    std::atomic<int> wrong{0};
    std::thread evicting([&] {
        while (!done) {
            const scoria_status status = scoria_engine_evict(loaded.engine);
            if (status != SCORIA_OK && status != SCORIA_BUSY) ++wrong;
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
    });
    for (int round = 0; round < (deep() ? 40 : 6); ++round)
        CHECK(generated(loaded.session, some_prompt, 12) == expected);
    done = true;
    evicting.join();
    CHECK(wrong == 0);
}
