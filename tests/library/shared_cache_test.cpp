// Sessions that share one cache: what stands after calls that do nothing, or that found no room.
#include "batch_run.h"

using namespace scoria::test;

namespace {

constexpr uint32_t context = 192;

/// Sessions of an engine whose cache holds one of them whole.
struct Sharing {
    scoria_engine* engine = nullptr;
    scoria_session *one = nullptr, *other = nullptr;

    explicit Sharing(const char* device = nullptr, uint32_t prompt_chunk = 0) {
        scoria_engine_options options = deterministic();
        options.prompt_chunk = prompt_chunk;
        options.device = device;
        options.context = options.shared_context = context;
        options.sequences = 2;
        REQUIRE_OK(scoria_engine_create(&options, &engine));
        for (scoria_session** session : {&one, &other}) REQUIRE_OK(scoria_session_create(engine, session));
    }
    ~Sharing() {
        for (scoria_session* session : {one, other}) CHECK(scoria_session_destroy(session) == SCORIA_OK);
        CHECK(scoria_engine_destroy(engine) == SCORIA_OK);
    }
    Sharing(const Sharing&) = delete;
};

std::vector<int32_t> ids_of(uint32_t count, uint32_t step) {
    std::vector<int32_t> ids;
    for (uint32_t i = 0; i < count; ++i) ids.push_back(int32_t(1 + i * step % 100));
    return ids;
}

scoria_status append(scoria_session* session, const std::vector<int32_t>& ids) {
    return scoria_session_append(session, ids.data(), ids.size());
}

std::vector<int32_t> tokens_of(scoria_session* session) {
    std::vector<int32_t> ids(context);
    size_t length = 0;
    REQUIRE_OK(scoria_session_tokens(session, ids.data(), ids.size(), &length));
    ids.resize(length);
    return ids;
}

}  // namespace

TEST_CASE("nothing appended to nothing is nothing" * needs_fixtures()) {
    const Loaded alone(deterministic());
    const Sharing sharing;
    for (scoria_session* session : {alone.session, sharing.one}) {
        REQUIRE_OK(append(session, {}));
        CHECK(tokens_of(session).empty());
        REQUIRE_OK(append(session, some_prompt));
        const std::vector<float> logits = logits_of(session);
        REQUIRE_OK(append(session, {}));
        CHECK(logits_of(session) == logits);
        REQUIRE_OK(scoria_session_truncate(session, 0));
        REQUIRE_OK(append(session, some_prompt));
        CHECK(logits_of(session) == logits);
    }
}

TEST_CASE("an answer that found no room goes on as if there had been some" * needs_fixtures()) {
    scoria_engine_options options = deterministic();
    options.context = context;
    const Loaded alone(options);
    const std::vector<int32_t> expected = generated(alone.session, some_prompt, 80);
    for (const uint32_t lookup : {0u, 1u}) {
        CAPTURE(lookup);
        const Sharing sharing;
        REQUIRE_OK(append(sharing.other, ids_of(130, 3)));  // leaves one block
        REQUIRE_OK(append(sharing.one, some_prompt));
        scoria_generate_options greedily = greedy(80);
        greedily.lookup = lookup;
        scoria_generate_result result{};
        result.size = sizeof result;
        REQUIRE_OK(scoria_session_generate(sharing.one, &greedily, &result));
        CHECK(result.stop == SCORIA_STOP_CONTEXT_FULL);
        const size_t reached = tokens_of(sharing.one).size();
        CHECK(reached > some_prompt.size());
        CHECK(result.tokens == reached - some_prompt.size());
        // No token more has room.
        CHECK(scoria_session_generate(sharing.one, &greedily, nullptr) == SCORIA_CONTEXT_FULL);
        CHECK(tokens_of(sharing.one).size() == reached);
        REQUIRE_OK(scoria_session_truncate(sharing.other, 0));
        greedily.max_tokens = uint32_t(expected.size() - reached);
        REQUIRE_OK(scoria_session_generate(sharing.one, &greedily, nullptr));
        CHECK(tokens_of(sharing.one) == expected);
    }
}

TEST_CASE("every sequence has its whole context where nothing else is said" * needs_fixtures()) {
    scoria_engine_options options = deterministic();
    options.context = 33;  // two blocks, of which it fills one
    options.sequences = 4;
    scoria_engine* engine = nullptr;
    REQUIRE_OK(scoria_engine_create(&options, &engine));
    scoria_session* sessions[4];
    for (int i = 0; i < 4; ++i) {
        REQUIRE_OK(scoria_session_create(engine, &sessions[i]));
        CHECK(append(sessions[i], ids_of(33, uint32_t(3 + i))) == SCORIA_OK);
    }
    for (scoria_session* session : sessions) CHECK(scoria_session_destroy(session) == SCORIA_OK);
    CHECK(scoria_engine_destroy(engine) == SCORIA_OK);
}

TEST_CASE("a prompt that found no room is not appended in part" * needs_fixtures()) {
    const Sharing sharing(nullptr, 16);
    REQUIRE_OK(append(sharing.other, ids_of(100, 3)));  // leaves two blocks
    REQUIRE_OK(append(sharing.one, some_prompt));
    const std::vector<float> logits = logits_of(sharing.one);
    CHECK(append(sharing.one, ids_of(130, 7)) == SCORIA_CONTEXT_FULL);
    CHECK(tokens_of(sharing.one) == some_prompt);
    CHECK(logits_of(sharing.one) == logits);
    CHECK(append(sharing.other, ids_of(30, 7)) == SCORIA_OK);  // the room is free again
}

TEST_CASE("what is shortened makes room on every device" * needs_fixtures()) {
    for (const char* device : {"0", "0,0"}) {
        CAPTURE(std::string(device));
        const Sharing sharing(device);
        REQUIRE_OK(append(sharing.other, ids_of(130, 3)));
        CHECK(append(sharing.one, ids_of(130, 7)) == SCORIA_CONTEXT_FULL);
        REQUIRE_OK(scoria_session_truncate(sharing.one, 0));
        REQUIRE_OK(scoria_session_truncate(sharing.other, 0));
        CHECK(append(sharing.one, ids_of(130, 7)) == SCORIA_OK);
    }
}

TEST_CASE("an embedding that found no room leaves nothing" * needs_fixtures()) {
    const Sharing sharing;
    REQUIRE_OK(append(sharing.other, ids_of(100, 3)));
    const std::vector<int32_t> ids = ids_of(190, 7);
    size_t count = 0;
    CHECK(scoria_session_embed(sharing.one, ids.data(), ids.size(), nullptr, nullptr, 0, &count) ==
          SCORIA_CONTEXT_FULL);
    CHECK(tokens_of(sharing.one).empty());
    CHECK(append(sharing.one, ids_of(60, 7)) == SCORIA_OK);
}

TEST_CASE("what others had computed is told however an answer is made" * needs_fixtures()) {
    for (const uint32_t lookup : {0u, 1u}) {
        const Sharing sharing;
        const std::vector<int32_t> prompt = ids_of(100, 3);
        REQUIRE_OK(append(sharing.one, prompt));
        scoria_batch* batch = nullptr;
        REQUIRE_OK(scoria_batch_create(sharing.engine, &batch));
        scoria_generate_options options = greedy(5);
        options.lookup = lookup;
        uint32_t reused = 0;
        options.user = &reused;
        REQUIRE_OK(scoria_batch_add(
            batch, sharing.other, prompt.data(), prompt.size(), &options,
            [](void* user, scoria_session*, scoria_status, const char*,
               const scoria_generate_result* result) { *static_cast<uint32_t*>(user) = result->reused; }));
        for (size_t left = 1; left != 0;) REQUIRE_OK(scoria_batch_step(batch, &left));
        CHECK(reused == 96);
        CHECK(scoria_batch_destroy(batch) == SCORIA_OK);
    }
}
