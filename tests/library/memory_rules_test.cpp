// What a host has a say in: every piece of device memory, how many there are, and how much may be planned
// with.
#include "library.h"

#include <atomic>
#include <mutex>

using namespace scoria::test;

namespace {

/// What the callbacks were told.
struct Ledger {
    std::mutex mutex;
    uint64_t bytes = 0, pieces = 0, asked = 0;
    uint64_t refuse_from = ~uint64_t{0};  // of `asked`
    bool consistent = true;               // with what the library says of itself
    uint64_t available = ~uint64_t{0};
    std::atomic<int> budget_asked{0};

    static int allocate(void* user, const scoria_allocation* allocation) {
        auto& ledger = *static_cast<Ledger*>(user);
        const std::lock_guard lock(ledger.mutex);
        if (allocation->size != sizeof *allocation || allocation->bytes == 0 ||
            allocation->device_local > 1 || allocation->in_use != ledger.bytes ||
            allocation->count != ledger.pieces)
            ledger.consistent = false;
        if (++ledger.asked >= ledger.refuse_from) return 0;
        ledger.bytes += allocation->bytes;
        ++ledger.pieces;
        return 1;
    }
    static void free(void* user, const scoria_allocation* allocation) {
        auto& ledger = *static_cast<Ledger*>(user);
        const std::lock_guard lock(ledger.mutex);
        ledger.bytes -= allocation->bytes;
        --ledger.pieces;
        if (allocation->in_use != ledger.bytes || allocation->count != ledger.pieces)
            ledger.consistent = false;
    }
};

scoria_engine_options kept(Ledger& ledger) {
    scoria_engine_options options = engine_options(tiny_model());
    options.user = &ledger;
    options.on_allocate = Ledger::allocate;
    options.on_free = Ledger::free;
    return options;
}

bool says(const char* what) { return std::string(scoria_last_error()).find(what) != std::string::npos; }

}  // namespace

TEST_CASE("a host hears of every piece of memory" * needs_fixtures()) {
    Ledger ledger;
    {
        const Loaded loaded(kept(ledger));
        CHECK(generated(loaded.session, some_prompt, 4).size() == some_prompt.size() + 4);
        CHECK(ledger.bytes == memory_of(loaded.engine).in_use);
        CHECK(ledger.pieces > 0);
        REQUIRE_OK(scoria_engine_evict(loaded.engine));
        CHECK(ledger.bytes == 0);
        CHECK(generated(loaded.session, some_prompt, 4).size() == some_prompt.size() + 4);
    }
    CHECK(ledger.bytes == 0);
    CHECK(ledger.pieces == 0);
    CHECK(ledger.consistent);
}

TEST_CASE("a host that refuses memory gets a status" * needs_fixtures()) {
    const std::vector<int32_t> expected = generated(Loaded().session, some_prompt, 4);
    Ledger all;
    { const Loaded loaded(kept(all)); }
    REQUIRE(all.asked > 0);
    for (uint64_t from = 1; from <= all.asked; from += deep() ? 1 : 3) {
        CAPTURE(from);
        Ledger ledger;
        ledger.refuse_from = from;
        const scoria_engine_options options = kept(ledger);
        scoria_engine* engine = nullptr;
        scoria_session* session = nullptr;
        scoria_status status = scoria_engine_create(&options, &engine);
        if (status == SCORIA_OK) status = scoria_session_create(engine, &session);
        CHECK(status == SCORIA_OUT_OF_DEVICE_MEMORY);
        CHECK(says("the host refused"));
        if (engine) {  // and with a change of mind
            ledger.refuse_from = ~uint64_t{0};
            REQUIRE_OK(scoria_session_create(engine, &session));
            CHECK(generated(session, some_prompt, 4) == expected);
        }
        CHECK(scoria_session_destroy(session) == SCORIA_OK);
        CHECK(scoria_engine_destroy(engine) == SCORIA_OK);
        CHECK(ledger.bytes == 0);
        CHECK(ledger.consistent);
    }
}

TEST_CASE("no more pieces of memory than the host allows" * needs_fixtures()) {
    const std::vector<int32_t> expected = generated(Loaded().session, some_prompt, 4);
    Ledger ledger;
    {
        scoria_engine_options options = kept(ledger);
        options.max_allocations = 2;
        const Loaded loaded(options);
        std::vector<scoria_session*> sessions;
        scoria_status status = SCORIA_OK;
        while (status == SCORIA_OK && sessions.size() < 100) {
            sessions.push_back(nullptr);
            status = scoria_session_create(loaded.engine, &sessions.back());
        }
        CHECK(status == SCORIA_OUT_OF_DEVICE_MEMORY);
        CHECK(says("max_allocations"));
        CHECK(sessions.back() == nullptr);
        CHECK(ledger.pieces == 2);
        CHECK(generated(loaded.session, some_prompt, 4) == expected);
        for (scoria_session* session : sessions) CHECK(scoria_session_destroy(session) == SCORIA_OK);
    }
    CHECK(ledger.pieces == 0);
    CHECK(ledger.consistent);
}

TEST_CASE("calls from inside on_allocate are busy" * needs_fixtures()) {
    scoria_engine_options options = engine_options(tiny_model());
    std::atomic<int> asked{0};
    options.user = &asked;
    options.on_allocate = [](void* user, const scoria_allocation*) {
        ++*static_cast<std::atomic<int>*>(user);
        scoria_engine* engine = nullptr;
        scoria_engine_options inner{};
        inner.size = sizeof inner;
        CHECK(scoria_engine_create(&inner, &engine) == SCORIA_BUSY);
        CHECK(says("on_allocate"));
        return 1;
    };
    { const Loaded loaded(options); }
    CHECK(asked > 0);
}

TEST_CASE("how much memory there is, asked anew" * needs_fixtures()) {
    Ledger ledger;
    scoria_engine_options options = engine_options(tiny_model());
    options.user = &ledger;
    options.available_memory = [](void* user) {
        auto& asked = *static_cast<Ledger*>(user);
        ++asked.budget_asked;
        return asked.available;
    };
    scoria_engine* engine = nullptr;
    for (const uint64_t little : {uint64_t{0}, uint64_t{4096}}) {
        ledger.available = little;
        CHECK(scoria_engine_create(&options, &engine) == SCORIA_OUT_OF_DEVICE_MEMORY);
        CHECK(engine == nullptr);
    }
    options.memory_budget = 1 << 30;  // one or the other
    CHECK(scoria_engine_create(&options, &engine) == SCORIA_BAD_ARGUMENT);
    options.memory_budget = 0;
    ledger.available = ~uint64_t{0};
    const Loaded loaded(options);
    const std::vector<int32_t> expected = generated(loaded.session, some_prompt, 6);
    const int before = ledger.budget_asked;
    REQUIRE_OK(scoria_engine_evict(loaded.engine));
    ledger.available = 4096;
    CHECK(scoria_session_restore(loaded.session) == SCORIA_OUT_OF_DEVICE_MEMORY);
    CHECK(ledger.budget_asked > before);
    ledger.available = ~uint64_t{0};
    CHECK(generated(loaded.session, some_prompt, 6) == expected);
}
