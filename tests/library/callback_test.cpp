// Calls with arguments that are right, from inside every callback, on the engine that calls back: each
// returns, none fails, and what was asked for is what comes out.
#define VK_NO_PROTOTYPES
#include "library.h"
#include "vulkan_host.h"

#include <atomic>
#include <thread>
#include <utility>

using namespace scoria::test;

namespace {

scoria_status use_session(scoria_engine* engine) {
    scoria_session* session = nullptr;
    scoria_status status = scoria_session_create(engine, &session);
    if (status == SCORIA_OK) status = scoria_session_append(session, some_prompt.data(), some_prompt.size());
    const scoria_generate_options options = greedy(2);
    if (status == SCORIA_OK) status = scoria_session_generate(session, &options, nullptr);
    CHECK(scoria_session_destroy(session) == SCORIA_OK);
    return status;
}

scoria_status use_other_engine(scoria_engine*) {
    const scoria_engine_options options = engine_options(tiny_model());
    scoria_engine* other = nullptr;
    const scoria_status status = scoria_engine_create(&options, &other);
    if (status == SCORIA_OK) CHECK(use_session(other) == SCORIA_OK);
    CHECK(scoria_engine_destroy(other) == SCORIA_OK);
    return status;
}

scoria_status use_plan(scoria_engine*) {
    const scoria_engine_options options = engine_options(tiny_model());
    scoria_memory memory{};
    memory.size = sizeof memory;
    return scoria_plan_memory(&options, &memory);
}

scoria_status use_text(scoria_engine* engine) {
    size_t count = 0;
    const scoria_status status = scoria_tokenize(engine, "a b", 3, 0, nullptr, 0, &count);
    return status == SCORIA_OK ? scoria_detokenize(engine, some_prompt.data(), 1, 0, nullptr, 0, &count)
                               : status;
}

scoria_status use_figures(scoria_engine* engine) {
    (void)memory_of(engine);
    (void)info_of(engine);
    return scoria_engine_set_submission_ms(engine, 1);
}

struct Use {
    const char* name;
    scoria_status (*run)(scoria_engine*);
    bool needs_rest = false;  // busy while the engine computes or is restored
    bool computes = false;    // busy while it is restored
};
const Use uses[] = {
    {"list_devices",
     [](scoria_engine*) { return scoria_list_devices([](void*, const scoria_device*) {}, nullptr); }},
    {"plan_memory", use_plan},
    {"another engine", use_other_engine},
    {"text", use_text},
    {"figures", use_figures},
    {"another session", use_session, false, true},
    {"restore", [](scoria_engine* engine) { return scoria_engine_restore(engine, nullptr, nullptr); }, false,
     true},
    {"evict", scoria_engine_evict, true},
    {"destroy", scoria_engine_destroy, true},
};

enum class Engine { computes, is_restored };

/// What callbacks do: once each, since calls from inside call back, too.
struct Caller {
    scoria_engine* engine = nullptr;
    Engine does = Engine::computes;
    bool inside = false;
    size_t ran = 0;

    void call_all(const char* from) {
        if (inside || !engine) return;
        inside = true;
        ++ran;
        for (const Use& use : uses) {
            CAPTURE(std::string(from));
            CAPTURE(std::string(use.name));
            const bool busy = use.needs_rest || (use.computes && does == Engine::is_restored);
            CHECK(use.run(engine) == (busy ? SCORIA_BUSY : SCORIA_OK));
        }
        inside = false;
    }
    static Caller& of(void* user) { return *static_cast<Caller*>(user); }
    size_t taken() { return std::exchange(ran, size_t{0}); }
};

}  // namespace

TEST_CASE("right calls from inside the callbacks of an answer" * needs_fixtures()) {
    const std::vector<int32_t> expected = generated(Loaded(deterministic()).session, some_prompt, 2);
    VulkanHost host({});
    {
        Caller caller;
        scoria_engine_options options = deterministic();
        options.vulkan = host.description();
        options.user = &caller;
        options.submission_ms = 1e-4f;
        options.on_submission = [](void* user, float) { Caller::of(user).call_all("on_submission"); };
        const Loaded loaded(options);
        REQUIRE_OK(scoria_session_watch(loaded.session, 0));
        REQUIRE_OK(scoria_session_append(loaded.session, some_prompt.data(), some_prompt.size()));

        scoria_generate_options answer = greedy(2);
        answer.user = &caller;
        answer.logprobs = 1;
        answer.on_token = [](void* user, int32_t, const char*, size_t) {
            Caller::of(user).call_all("on_token");
            return 1;
        };
        answer.on_logprobs = [](void* user, int32_t, float, const int32_t*, const float*, size_t) {
            Caller::of(user).call_all("on_logprobs");
        };
        answer.on_attention = [](void* user, const scoria_shared*) {
            Caller::of(user).call_all("on_attention");
        };
        caller.engine = loaded.engine;
        REQUIRE_OK(scoria_session_generate(loaded.session, &answer, nullptr));
        caller.engine = nullptr;
        CHECK(caller.taken() > 6);  // each of four, twice, but for the submissions, of which there are more
        std::vector<int32_t> ids(expected.size());
        size_t count = 0;
        REQUIRE_OK(scoria_session_tokens(loaded.session, ids.data(), ids.size(), &count));
        CHECK(ids == expected);
    }
    host.destroy_device();
    for (const std::string& error : host.errors()) FAIL_CHECK(error);
}

TEST_CASE("right calls from inside the callbacks of what restores an engine" * needs_fixtures()) {
    Caller caller;
    caller.does = Engine::is_restored;
    scoria_engine_options options = deterministic();
    options.user = &caller;
    options.available_memory = [](void* user) {
        Caller::of(user).call_all("available_memory");
        return ~uint64_t{0};
    };
    const Loaded loaded(options);
    const std::vector<int32_t> expected = generated(loaded.session, some_prompt, 4);
    REQUIRE_OK(scoria_engine_evict(loaded.engine));
    caller.engine = loaded.engine;
    const auto progress = [](void* user, uint64_t, uint64_t) {
        Caller::of(user).call_all("progress");
        return 1;
    };
    REQUIRE_OK(scoria_engine_restore(loaded.engine, progress, &caller));
    CHECK(caller.taken() >= 2);
    REQUIRE_OK(scoria_engine_evict(loaded.engine));
    REQUIRE_OK(scoria_session_restore(loaded.session));
    CHECK(caller.taken() == 1);
    caller.engine = nullptr;
    CHECK(generated(loaded.session, some_prompt, 4) == expected);
}

TEST_CASE("calls from inside on_allocate and on_free are busy" * needs_fixtures()) {
    struct Asked {
        size_t allocate = 0, free = 0;
        static void call_all(scoria_engine* engine) {
            size_t count = 0;
            CHECK(scoria_list_devices([](void*, const scoria_device*) {}, nullptr) == SCORIA_BUSY);
            CHECK(scoria_tokenize(engine, "a", 1, 0, nullptr, 0, &count) == SCORIA_BUSY);
            CHECK(scoria_engine_restore(engine, nullptr, nullptr) == SCORIA_BUSY);
            CHECK(scoria_engine_evict(engine) == SCORIA_BUSY);
            CHECK(scoria_engine_destroy(engine) == SCORIA_BUSY);
            scoria_session* session = nullptr;
            CHECK(scoria_session_create(engine, &session) == SCORIA_BUSY);
            CHECK(scoria_session_destroy(session) == SCORIA_BUSY);
        }
    } asked;
    static scoria_engine* calling = nullptr;  // once there is one
    scoria_engine_options options = engine_options(tiny_model());
    options.user = &asked;
    options.on_allocate = [](void* user, const scoria_allocation*) {
        ++static_cast<Asked*>(user)->allocate;
        Asked::call_all(calling);
        return 1;
    };
    options.on_free = [](void* user, const scoria_allocation*) {
        ++static_cast<Asked*>(user)->free;
        Asked::call_all(calling);
    };
    {
        const Loaded loaded(options);
        calling = loaded.engine;
        REQUIRE_OK(scoria_engine_evict(loaded.engine));
        CHECK(generated(loaded.session, some_prompt, 2).size() == some_prompt.size() + 2);
    }
    CHECK(asked.allocate > 0);
    CHECK(asked.free > 0);
}

namespace {

/// Loads a model with a cache folder that cannot be made, which is logged.
void load_and_say_so() {
    const std::string folder = tiny_model() + "/folder";
    scoria_engine_options options = engine_options(tiny_model());
    options.cache_folder = folder.c_str();
    const Loaded other(options);
}

}  // namespace

TEST_CASE("a log callback waits for an engine that another thread restores, which has something to say, too" *
          needs_fixtures()) {
    const Loaded loaded;
    struct Shared {
        scoria_engine* engine;
        std::atomic<bool> inside = false, restoring = false;
    } shared{loaded.engine};
    REQUIRE_OK(scoria_engine_evict(loaded.engine));
    const auto on_line = [](void* user, const char*) {
        auto& [engine, inside, restoring] = *static_cast<Shared*>(user);
        if (inside.exchange(true)) return;
        while (!restoring) std::this_thread::yield();
        (void)memory_of(engine);  // when it is there
    };
    REQUIRE_OK(scoria_set_log(on_line, &shared));
    std::thread other(load_and_say_so);
    while (!shared.inside) std::this_thread::yield();
    const auto progress = [](void* user, uint64_t, uint64_t) {
        if (!static_cast<Shared*>(user)->restoring.exchange(true)) load_and_say_so();
        return 1;
    };
    CHECK(scoria_engine_restore(loaded.engine, progress, &shared) == SCORIA_OK);
    CHECK(shared.restoring);
    other.join();
    REQUIRE_OK(scoria_set_log(nullptr, nullptr));
}
