// Every function of the C interface with NULL, with handles that are none, with sizes that cannot be, in the
// wrong order and from inside callbacks: a status comes back, and the library goes on.
#include "batch_run.h"

#include "scoria_vulkan.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>

using namespace scoria::test;

namespace {

struct Handles {
    scoria_engine* engine = nullptr;
    scoria_session* session = nullptr;
    scoria_batch* batch = nullptr;
};

constexpr uint32_t takes_session = 1, takes_engine = 2, takes_batch = 3;

struct Call {
    const char* name;
    scoria_status (*run)(const Handles&);  // everything but the handles NULL or 0
    scoria_status with_null = SCORIA_BAD_ARGUMENT;
    uint32_t takes = 0;
    scoria_status (*sized)(const Handles&, size_t size) = nullptr;  // with its struct of this size
};

/// A struct in the middle of zeros: a garbage size must not make the library read beyond.
template <class T> struct Sized {
    T value{};
    explicit Sized(size_t size) { value.size = size; }
};

template <class T> scoria_status call_init(scoria_status (*init)(T*, size_t), size_t size) {
    T options{};
    return init(&options, size);
}

const Call calls[] = {
    {"scoria_set_log", [](const Handles&) { return scoria_set_log(nullptr, nullptr); }, SCORIA_OK},
    {"scoria_list_devices", [](const Handles&) { return scoria_list_devices(nullptr, nullptr); }},
    {"scoria_engine_options_init", [](const Handles&) { return scoria_engine_options_init(nullptr, 64); },
     SCORIA_BAD_ARGUMENT, 0,
     [](const Handles&, size_t size) { return call_init(scoria_engine_options_init, size); }},
    {"scoria_engine_create", [](const Handles&) { return scoria_engine_create(nullptr, nullptr); },
     SCORIA_BAD_ARGUMENT, 0,
     [](const Handles&, size_t size) {
         const Sized<scoria_engine_options> options(size);
         scoria_engine* engine = nullptr;
         return scoria_engine_create(&options.value, &engine);
     }},
    {"scoria_engine_destroy", [](const Handles& h) { return scoria_engine_destroy(h.engine); }, SCORIA_OK,
     takes_engine},
    {"scoria_plan_memory", [](const Handles&) { return scoria_plan_memory(nullptr, nullptr); },
     SCORIA_BAD_ARGUMENT, 0,
     [](const Handles&, size_t size) {
         const Sized<scoria_engine_options> options(size);
         Sized<scoria_memory> memory(sizeof(scoria_memory));
         return scoria_plan_memory(&options.value, &memory.value);
     }},
    {"scoria_engine_memory", [](const Handles& h) { return scoria_engine_memory(h.engine, nullptr); },
     SCORIA_BAD_ARGUMENT, takes_engine,
     [](const Handles& h, size_t size) {
         Sized<scoria_memory> memory(size);
         return scoria_engine_memory(h.engine, &memory.value);
     }},
    {"scoria_engine_get_info", [](const Handles& h) { return scoria_engine_get_info(h.engine, nullptr); },
     SCORIA_BAD_ARGUMENT, takes_engine,
     [](const Handles& h, size_t size) {
         Sized<scoria_engine_info> info(size);
         return scoria_engine_get_info(h.engine, &info.value);
     }},
    {"scoria_engine_set_submission_ms",
     [](const Handles& h) { return scoria_engine_set_submission_ms(h.engine, -1); }, SCORIA_BAD_ARGUMENT,
     takes_engine},
    {"scoria_engine_evict", [](const Handles& h) { return scoria_engine_evict(h.engine); },
     SCORIA_BAD_ARGUMENT, takes_engine},
    {"scoria_engine_restore",
     [](const Handles& h) { return scoria_engine_restore(h.engine, nullptr, nullptr); }, SCORIA_BAD_ARGUMENT,
     takes_engine},
    {"scoria_tokenize",
     [](const Handles& h) { return scoria_tokenize(h.engine, nullptr, 1, 0, nullptr, 0, nullptr); },
     SCORIA_BAD_ARGUMENT, takes_engine},
    {"scoria_detokenize",
     [](const Handles& h) { return scoria_detokenize(h.engine, nullptr, 1, 0, nullptr, 0, nullptr); },
     SCORIA_BAD_ARGUMENT, takes_engine},
    {"scoria_chat_text",
     [](const Handles& h) { return scoria_chat_text(h.engine, nullptr, nullptr, 0, nullptr); },
     SCORIA_BAD_ARGUMENT, takes_engine,
     [](const Handles& h, size_t size) {
         const Sized<scoria_chat_options> options(size);
         size_t length = 0;
         return scoria_chat_text(h.engine, &options.value, nullptr, 0, &length);
     }},
    {"scoria_chat_tokens",
     [](const Handles& h) { return scoria_chat_tokens(h.engine, nullptr, nullptr, 0, nullptr); },
     SCORIA_BAD_ARGUMENT, takes_engine,
     [](const Handles& h, size_t size) {
         const Sized<scoria_chat_options> options(size);
         size_t count = 0;
         return scoria_chat_tokens(h.engine, &options.value, nullptr, 0, &count);
     }},
    {"scoria_session_create", [](const Handles& h) { return scoria_session_create(h.engine, nullptr); },
     SCORIA_BAD_ARGUMENT, takes_engine},
    {"scoria_session_destroy", [](const Handles& h) { return scoria_session_destroy(h.session); }, SCORIA_OK,
     takes_session},
    {"scoria_session_cancel", [](const Handles& h) { return scoria_session_cancel(h.session); },
     SCORIA_BAD_ARGUMENT, takes_session},
    {"scoria_session_append", [](const Handles& h) { return scoria_session_append(h.session, nullptr, 1); },
     SCORIA_BAD_ARGUMENT, takes_session},
    {"scoria_session_replace", [](const Handles& h) { return scoria_session_replace(h.session, nullptr, 1); },
     SCORIA_BAD_ARGUMENT, takes_session},
    {"scoria_session_truncate", [](const Handles& h) { return scoria_session_truncate(h.session, 0); },
     SCORIA_BAD_ARGUMENT, takes_session},
    {"scoria_session_evict", [](const Handles& h) { return scoria_session_evict(h.session); },
     SCORIA_BAD_ARGUMENT, takes_session},
    {"scoria_session_restore", [](const Handles& h) { return scoria_session_restore(h.session); },
     SCORIA_BAD_ARGUMENT, takes_session},
    {"scoria_session_share", [](const Handles& h) { return scoria_session_share(h.session, 0, nullptr); },
     SCORIA_BAD_ARGUMENT, takes_session,
     [](const Handles& h, size_t size) {
         Sized<scoria_shared> shared(size);
         return scoria_session_share(h.session, 0, &shared.value);
     }},
    {"scoria_session_watch", [](const Handles& h) { return scoria_session_watch(h.session, 0); },
     SCORIA_BAD_ARGUMENT, takes_session},
    {"scoria_session_wait",
     [](const Handles& h) { return scoria_session_wait(h.session, VK_NULL_HANDLE, 0); }, SCORIA_BAD_ARGUMENT,
     takes_session},
    {"scoria_session_tokens",
     [](const Handles& h) { return scoria_session_tokens(h.session, nullptr, 0, nullptr); },
     SCORIA_BAD_ARGUMENT, takes_session},
    {"scoria_session_logits",
     [](const Handles& h) { return scoria_session_logits(h.session, nullptr, 0, nullptr); },
     SCORIA_BAD_ARGUMENT, takes_session},
    {"scoria_session_encode", [](const Handles& h) { return scoria_session_encode(h.session, nullptr, 1); },
     SCORIA_BAD_ARGUMENT, takes_session},
    {"scoria_session_embed",
     [](const Handles& h) {
         return scoria_session_embed(h.session, nullptr, 1, nullptr, nullptr, 0, nullptr);
     },
     SCORIA_BAD_ARGUMENT, takes_session,
     [](const Handles& h, size_t size) {
         const Sized<scoria_embed_options> options(size);
         size_t count = 0;
         return scoria_session_embed(h.session, some_prompt.data(), 1, &options.value, nullptr, 0, &count);
     }},
    {"scoria_session_rank",
     [](const Handles& h) { return scoria_session_rank(h.session, nullptr, 0, nullptr, 0, nullptr); },
     SCORIA_BAD_ARGUMENT, takes_session},
    {"scoria_generate_options_init", [](const Handles&) { return scoria_generate_options_init(nullptr, 64); },
     SCORIA_BAD_ARGUMENT, 0,
     [](const Handles&, size_t size) { return call_init(scoria_generate_options_init, size); }},
    {"scoria_session_generate",
     [](const Handles& h) { return scoria_session_generate(h.session, nullptr, nullptr); },
     SCORIA_BAD_ARGUMENT, takes_session,
     [](const Handles& h, size_t size) {
         const Sized<scoria_generate_options> options(size);
         return scoria_session_generate(h.session, &options.value, nullptr);
     }},
    {"scoria_batch_create", [](const Handles& h) { return scoria_batch_create(h.engine, nullptr); },
     SCORIA_BAD_ARGUMENT, takes_engine},
    {"scoria_batch_destroy", [](const Handles& h) { return scoria_batch_destroy(h.batch); }, SCORIA_OK,
     takes_batch},
    {"scoria_batch_add",
     [](const Handles& h) { return scoria_batch_add(h.batch, h.session, nullptr, 1, nullptr, nullptr); },
     SCORIA_BAD_ARGUMENT, takes_batch,
     [](const Handles& h, size_t size) {
         const Sized<scoria_generate_options> options(size);
         return scoria_batch_add(h.batch, h.session, some_prompt.data(), 1, &options.value, nullptr);
     }},
    {"scoria_batch_step", [](const Handles& h) { return scoria_batch_step(h.batch, nullptr); },
     SCORIA_BAD_ARGUMENT, takes_batch},
    {"scoria_validate", [](const Handles&) { return scoria_validate(nullptr, nullptr); }, SCORIA_BAD_ARGUMENT,
     0,
     [](const Handles&, size_t size) {
         const Sized<scoria_validate_options> options(size);
         Sized<scoria_check_counts> counts(sizeof(scoria_check_counts));
         return scoria_validate(&options.value, &counts.value);
     }},
    {"scoria_engine_validate",
     [](const Handles& h) { return scoria_engine_validate(h.engine, nullptr, 1, nullptr, nullptr, nullptr); },
     SCORIA_BAD_ARGUMENT, takes_engine,
     [](const Handles& h, size_t size) {
         Sized<scoria_check_counts> counts(size);
         return scoria_engine_validate(h.engine, some_prompt.data(), 1, nullptr, nullptr, &counts.value);
     }},
};
// These return text, never NULL, and take no handle.
const std::set<std::string> text_calls = {"scoria_last_error", "scoria_status_name", "scoria_version"};

std::set<std::string> declared_calls() {
    const std::regex declaration(R"(SCORIA_API [^(;]*\b(scoria_\w+)\()");
    std::set<std::string> names;
    for (const char* path :
         {SCORIA_SOURCE_DIR "/engine/scoria.h", SCORIA_SOURCE_DIR "/engine/scoria_vulkan.h"}) {
        std::ifstream in(path);
        const std::string header(std::istreambuf_iterator<char>(in), {});
        for (std::sregex_iterator at(header.begin(), header.end(), declaration), end; at != end; ++at)
            names.insert((*at)[1]);
    }
    return names;
}

}  // namespace

TEST_CASE("the table of calls is the header's") {
    std::set<std::string> listed = text_calls;
    for (const Call& call : calls) listed.insert(call.name);
    CHECK(listed == declared_calls());
}

TEST_CASE("texts are never NULL") {
    CHECK(scoria_last_error() != nullptr);
    CHECK(std::strlen(scoria_version()) >= 5);
    CHECK(std::string(scoria_status_name(SCORIA_BUSY)) == "SCORIA_BUSY");
    for (const int status : {-1, 13, 1 << 30})
        CHECK(std::string(scoria_status_name(scoria_status(status))) == "unknown status");
}

TEST_CASE("NULL, and handles that are none") {
    int on_stack = 0;
    for (const Call& call : calls) {
        CAPTURE(std::string(call.name));
        CHECK(call.run({}) == call.with_null);
        if (call.takes == 0) continue;
        for (void* const handle : {static_cast<void*>(&on_stack), reinterpret_cast<void*>(~uintptr_t{0})}) {
            CHECK(call.run({static_cast<scoria_engine*>(handle), static_cast<scoria_session*>(handle),
                            static_cast<scoria_batch*>(handle)}) == SCORIA_BAD_ARGUMENT);
            CHECK(std::string(scoria_last_error()).find("got what is none") != std::string::npos);
        }
    }
}

TEST_CASE("handles of the other kind, and destroyed ones" * needs_fixtures()) {
    Handles old;
    {
        const Loaded loaded;
        old = {loaded.engine, loaded.session, make_batch(loaded.engine)};
        const Handles swapped{reinterpret_cast<scoria_engine*>(old.session),
                              reinterpret_cast<scoria_session*>(old.batch),
                              reinterpret_cast<scoria_batch*>(old.engine)};
        for (const Call& call : calls) {
            CAPTURE(std::string(call.name));
            if (call.takes) CHECK(call.run(swapped) == SCORIA_BAD_ARGUMENT);
        }
        CHECK(scoria_engine_destroy(loaded.engine) == SCORIA_BUSY);  // it has a session
        CHECK(scoria_batch_destroy(old.batch) == SCORIA_OK);
    }
    for (const Call& call : calls) {
        CAPTURE(std::string(call.name));
        if (call.takes) CHECK(call.run(old) == SCORIA_BAD_ARGUMENT);
    }
}

TEST_CASE("sizes that cannot be" * needs_fixtures()) {
    const Loaded loaded;
    scoria_batch* const batch = make_batch(loaded.engine);
    for (const Call& call : calls) {
        if (!call.sized) continue;
        CAPTURE(std::string(call.name));
        for (const size_t size :
             {size_t{0}, size_t{1}, size_t{7}, size_t{9}, size_t{4097}, size_t{1} << 40, ~size_t{0}}) {
            CAPTURE(size);
            CHECK(call.sized({loaded.engine, loaded.session, batch}, size) == SCORIA_BAD_ARGUMENT);
            CHECK(std::string(scoria_last_error()).find("`size`") != std::string::npos);
        }
    }
    CHECK(scoria_batch_destroy(batch) == SCORIA_OK);
}

TEST_CASE("structs of other versions" * needs_fixtures()) {
    const Loaded loaded;
    struct Newer {
        scoria_memory known;
        uint64_t more[2];
    } newer{};
    newer.known.size = sizeof newer;
    newer.more[0] = newer.more[1] = 7;
    REQUIRE_OK(scoria_engine_memory(loaded.engine, &newer.known));
    CHECK(newer.known.size == sizeof newer);
    CHECK(newer.known.weights > 0);
    CHECK(newer.known.in_use >= newer.known.weights);
    CHECK((newer.more[0] == 0 && newer.more[1] == 0));
    scoria_memory older{};
    older.size = offsetof(scoria_memory, kv);
    REQUIRE_OK(scoria_engine_memory(loaded.engine, &older));
    CHECK(older.weights == newer.known.weights);
    CHECK(older.kv == 0);  // not written

    struct NewerOptions {
        scoria_generate_options known;
        uint64_t more;
    } options{greedy(2), 0};
    options.known.size = sizeof options;
    REQUIRE_OK(scoria_session_append(loaded.session, some_prompt.data(), some_prompt.size()));
    CHECK(scoria_session_generate(loaded.session, &options.known, nullptr) == SCORIA_OK);
    options.more = 1;
    CHECK(scoria_session_generate(loaded.session, &options.known, nullptr) == SCORIA_UNSUPPORTED);
    scoria_chat_options chat{};
    chat.size = sizeof chat;
    chat.reserved = 1;
    CHECK(scoria_chat_text(loaded.engine, &chat, nullptr, 0, nullptr) == SCORIA_BAD_ARGUMENT);
    CHECK(std::string(scoria_last_error()).find("`reserved` to be 0") != std::string::npos);
    // An old caller's struct ends before `max_tokens`: the defaults, which go on to the end of the context.
    scoria_generate_options short_one{};
    short_one.size = offsetof(scoria_generate_options, user);
    int left = 3;
    short_one.on_token = [](void*, int32_t, const char*, size_t) { return 0; };
    CHECK(scoria_session_generate(loaded.session, &short_one, nullptr) == SCORIA_CANCELLED);
    CHECK(left == 3);
}

TEST_CASE("calls in the wrong order" * needs_fixtures()) {
    const Loaded loaded;
    const scoria_generate_options options = greedy(2);
    CHECK(scoria_session_generate(loaded.session, &options, nullptr) == SCORIA_BAD_ARGUMENT);
    size_t count = 0;
    CHECK(scoria_session_logits(loaded.session, nullptr, 0, &count) == SCORIA_BAD_ARGUMENT);
    CHECK(scoria_session_encode(loaded.session, some_prompt.data(), 2) == SCORIA_UNSUPPORTED);
    const int32_t outside = 1 << 20;
    CHECK(scoria_session_append(loaded.session, &outside, 1) == SCORIA_BAD_ARGUMENT);
    size_t length = 0;
    CHECK(scoria_detokenize(loaded.engine, &outside, 1, 0, nullptr, 0, &length) == SCORIA_BAD_ARGUMENT);
    CHECK(scoria_session_cancel(loaded.session) == SCORIA_OK);  // nothing runs: forgotten
    CHECK(generated(loaded.session, some_prompt, 2).size() == some_prompt.size() + 2);
}

TEST_CASE("every call from inside every callback" * needs_fixtures()) {
    struct Context {
        Handles handles;
        const char* from;
        size_t ran = 0;
    };
    const auto call_all = [](void* user) {
        auto& context = *static_cast<Context*>(user);
        ++context.ran;
        for (const Call& call : calls) {
            CAPTURE(context.from);
            CAPTURE(std::string(call.name));
            const bool cancel = std::string(call.name) == "scoria_session_cancel";
            if (cancel || std::string(call.name) == "scoria_set_log") continue;
            const scoria_status status = call.run(context.handles);
            if (call.takes == takes_session) CHECK(status == SCORIA_BUSY);
            const bool adds = std::string(call.name) == "scoria_batch_add";
            if (call.takes == takes_batch && context.handles.batch)
                CHECK(status == (adds ? SCORIA_BAD_ARGUMENT : SCORIA_BUSY));
            if (std::string(call.name) == "scoria_engine_destroy") CHECK(status == SCORIA_BUSY);
            CHECK(status != SCORIA_FAILED);
        }
    };
    const Loaded loaded;
    REQUIRE_OK(scoria_session_append(loaded.session, some_prompt.data(), some_prompt.size()));
    struct Both {
        Context tokens, logprobs;
        decltype(call_all) run;
    } both{{{loaded.engine, loaded.session}, "on_token"},
           {{loaded.engine, loaded.session}, "on_logprobs"},
           call_all};
    scoria_generate_options options = greedy(2);
    options.user = &both;
    options.on_token = [](void* user, int32_t, const char*, size_t) {
        static_cast<Both*>(user)->run(&static_cast<Both*>(user)->tokens);
        return 1;
    };
    options.on_logprobs = [](void* user, int32_t, float, const int32_t*, const float*, size_t) {
        static_cast<Both*>(user)->run(&static_cast<Both*>(user)->logprobs);
    };
    CHECK(scoria_session_generate(loaded.session, &options, nullptr) == SCORIA_OK);
    CHECK(both.tokens.ran >= 2);
    CHECK(both.logprobs.ran == 2);

    const Handles of_batch{loaded.engine, loaded.session, make_batch(loaded.engine)};
    both.tokens = {of_batch, "a batch's on_token"};
    both.logprobs = {of_batch, "a batch's on_logprobs"};
    CHECK(scoria_batch_add(of_batch.batch, loaded.session, nullptr, 0, &options, nullptr) == SCORIA_OK);
    CHECK(run_batch(of_batch.batch) == SCORIA_OK);
    CHECK(both.tokens.ran >= 2);
    CHECK(both.logprobs.ran == 2);
    CHECK(scoria_batch_destroy(of_batch.batch) == SCORIA_OK);

    // A new engine's progress: other engines are not in use.
    scoria_engine_options loading = engine_options(tiny_model());
    size_t steps = 0;
    loading.user = &steps;
    loading.progress = [](void* user, uint64_t done, uint64_t total) {
        ++*static_cast<size_t*>(user);
        CHECK(done <= total);
        for (const Call& call : calls)
            if (std::string(call.name) != "scoria_set_log") CHECK(call.run({}) == call.with_null);
        return 1;
    };
    const Loaded second(loading);
    CHECK(steps > 0);
    loading.progress = [](void*, uint64_t, uint64_t) { return 0; };
    scoria_engine* stopped = nullptr;
    CHECK(scoria_engine_create(&loading, &stopped) == SCORIA_CANCELLED);
    CHECK(stopped == nullptr);

    static scoria_status log_inside_log = SCORIA_OK;
    REQUIRE_OK(scoria_list_devices([](void*, const scoria_device*) { CHECK(scoria_version() != nullptr); },
                                   nullptr));
    REQUIRE_OK(scoria_set_log([](void*, const char*) { log_inside_log = scoria_set_log(nullptr, nullptr); },
                              nullptr));
    scoria_engine_options warned = engine_options(tiny_model());
    const std::string folder = tiny_model() + "/folder";  // cannot be made, which is logged
    warned.cache_folder = folder.c_str();
    { const Loaded third(warned); }
    CHECK(log_inside_log == SCORIA_BUSY);
    REQUIRE_OK(scoria_set_log(nullptr, nullptr));
}

TEST_CASE("hosts' devices that are none") {
    scoria_engine_options options = engine_options(tiny_model());
    scoria_vulkan vulkan{};
    options.vulkan = &vulkan;
    scoria_engine* engine = nullptr;
    for (const size_t size : {size_t{0}, sizeof(vulkan) + 1, size_t{1} << 20, sizeof(vulkan)}) {
        vulkan.size = size;
        CHECK(scoria_engine_create(&options, &engine) == SCORIA_BAD_ARGUMENT);
        CHECK(engine == nullptr);
    }
}
