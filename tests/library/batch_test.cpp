// Batches: whoever is computed beside a session, its answer is the one that it has alone; sessions come and
// go at any time, and what goes wrong is told to whom it concerns.
#include "batch_run.h"

#include <atomic>
#include <list>
#include <thread>

using namespace scoria::test;

namespace {

scoria_engine_options sharing(uint32_t sequences) {
    scoria_engine_options options = deterministic();
    options.sequences = sequences;
    return options;
}

std::vector<int32_t> some_ids(size_t count, size_t seed = 0) {
    std::vector<int32_t> ids(count);
    for (size_t i = 0; i < count; ++i) ids[i] = int32_t(3 + (i * 37 + i * i + seed * 11) % 250);
    return ids;
}

scoria_generate_options sampled(uint32_t tokens, uint64_t seed) {
    scoria_generate_options options = greedy(tokens);
    options.temperature = 0.9f;
    options.seed = seed;
    options.repetition_penalty = 1.2f;
    return options;
}

/// Of two answers of one session each.
std::vector<std::vector<BatchWish>> some_wishes(const std::vector<std::string>& stop) {
    return {{{some_prompt, greedy(12)}, {some_ids(9), sampled(9, 5)}},
            {{some_ids(150), sampled(20, 7)}, {{}, greedy(3)}},
            {{some_ids(40, 3), greedy(24), stop}, {some_ids(3), greedy(2)}},
            {{some_ids(2, 4), greedy(40), {}, R"({"enum": ["yes", "no", 12345]})"}, {some_ids(1), greedy(1)}},
            {{some_ids(70, 5), sampled(1, 1)}, {some_ids(60, 6), greedy(30)}}};
}

/// The same, session by session.
std::vector<std::vector<BatchAnswer>> alone(const std::vector<std::vector<BatchWish>>& all) {
    std::vector<std::vector<BatchAnswer>> answers;
    for (const std::vector<BatchWish>& wishes : all) {
        const Loaded loaded(deterministic());
        answers.emplace_back();
        for (const BatchWish& wish : wishes) {
            BatchAnswer& answer = answers.back().emplace_back();
            if (!wish.prompt.empty())
                REQUIRE_OK(scoria_session_append(loaded.session, wish.prompt.data(), wish.prompt.size()));
            scoria_generate_result result{};
            result.size = sizeof result;
            answer.status = wish.with_options(&answer, [&](scoria_generate_options options) {
                options.on_token = [](void* user, int32_t id, const char* text, size_t bytes) {
                    static_cast<BatchAnswer*>(user)->on_token(id, {text, bytes});
                    return 1;
                };
                return scoria_session_generate(loaded.session, &options, &result);
            });
            answer.stop = result.stop;
            answer.message.clear();
        }
    }
    return answers;
}

/// A text in the middle of what the model says after the third of the wishes.
std::vector<std::string> some_stop() {
    const BatchAnswer free = alone({{{some_ids(40, 3), greedy(24)}}})[0][0];
    REQUIRE(free.text.size() > 12);
    return {free.text.substr(free.text.size() / 2, 3)};
}

/// An engine with a batch, destroyed in order.
struct Batched {
    scoria_engine* engine = nullptr;
    scoria_batch* batch = nullptr;
    std::list<BatchMember> members;

    explicit Batched(const scoria_engine_options& options) {
        REQUIRE_OK(scoria_engine_create(&options, &engine));
        batch = make_batch(engine);
    }
    ~Batched() {
        CHECK(scoria_batch_destroy(batch) == SCORIA_OK);
        members.clear();
        CHECK(scoria_engine_destroy(engine) == SCORIA_OK);
    }
    Batched(const Batched&) = delete;
    BatchMember& member(std::vector<BatchWish> wishes) {
        return members.emplace_back(batch, engine, std::move(wishes));
    }
    void add(const std::vector<std::vector<BatchWish>>& all) {
        for (const std::vector<BatchWish>& wishes : all) REQUIRE_OK(member(wishes).add());
    }
    void check(const std::vector<std::vector<BatchAnswer>>& expected) {
        size_t index = 0;
        for (const BatchMember& each : members) {
            CAPTURE(index);
            REQUIRE(each.answers.size() == expected[index].size());
            for (size_t turn = 0; turn < each.answers.size(); ++turn) {
                CAPTURE(turn);
                CHECK(each.answers[turn].message == "");
                CHECK(each.answers[turn].text == expected[index][turn].text);
                CHECK(each.answers[turn] == expected[index][turn]);
            }
            ++index;
        }
    }
};

}  // namespace

TEST_CASE("batch: the answers of sessions alone, with options that are gone" * needs_fixtures()) {
    const auto wishes = some_wishes(some_stop());
    const auto expected = alone(wishes);
    CHECK(expected[2][0].stop == SCORIA_STOP_TEXT);
    CHECK((expected[3][0].text == "\"yes\"" || expected[3][0].text == "\"no\"" ||
           expected[3][0].text == "12345"));
    for (const uint32_t sequences : {0u, 3u, 8u}) {  // taking turns, two caches, one
        CAPTURE(sequences);
        Batched batched(sharing(sequences));
        batched.add(wishes);
        CHECK(run_batch(batched.batch) == SCORIA_OK);
        batched.check(expected);
    }
}

TEST_CASE("batch: one that comes late, by a step or by a callback" * needs_fixtures()) {
    const auto wishes = some_wishes(some_stop());
    const auto expected = alone(wishes);
    Batched batched(sharing(8));
    for (const std::vector<BatchWish>& each : wishes) {
        BatchMember& member = batched.member(each);
        if (&member != &batched.members.front())
            std::prev(batched.members.end(), 2)->during = [&member](BatchMember& before) {
                if (before.answers.front().ids.size() == 1 && member.answers.empty())
                    REQUIRE_OK(member.add());
            };
    }
    REQUIRE_OK(batched.members.front().add());
    CHECK(run_batch(batched.batch) == SCORIA_OK);
    batched.check(expected);
}

TEST_CASE("batch: guesses change no answer" * needs_fixtures()) {
    std::vector<std::vector<BatchWish>> wishes = {{{some_prompt, greedy(20)}}, {{some_ids(30), greedy(20)}}};
    const auto expected = alone(wishes);
    Batched batched(sharing(2));
    wishes[0][0].options.lookup = 1;
    wishes[1][0].options.draft = batched.engine;
    batched.add(wishes);
    CHECK(run_batch(batched.batch) == SCORIA_OK);
    batched.check(expected);
    CHECK(scoria_engine_destroy(batched.engine) == SCORIA_BUSY);
}

TEST_CASE("batch: memory is given back and taken again in the middle" * needs_fixtures()) {
    const auto wishes = some_wishes(some_stop());
    const auto expected = alone(wishes);
    for (const bool inside : {false, true}) {
        CAPTURE(inside);
        Batched batched(sharing(8));
        batched.add(wishes);
        const auto evict = [&] {
            CHECK(scoria_session_evict(batched.members.front().session) == SCORIA_BUSY);
            CHECK(scoria_engine_evict(batched.engine) == SCORIA_OK);
            CHECK(memory_of(batched.engine).in_use == 0);
        };
        if (inside)
            batched.members.front().during = [&](BatchMember& member) {
                if (member.answers.back().ids.size() % 4 == 3) evict();
            };
        size_t left = 1;
        for (int step = 0; left != 0; ++step) {
            REQUIRE_OK(scoria_batch_step(batched.batch, &left));
            if (!inside && step % 5 == 3 && step < 10) evict();
        }
        batched.check(expected);
        REQUIRE_OK(scoria_engine_evict(batched.engine));  // and then a prompt
        REQUIRE_OK(batched.member({wishes[1][0]}).add());
        CHECK(run_batch(batched.batch) == SCORIA_OK);
        CHECK(batched.members.back().answers[0] == expected[1][0]);
    }
}

TEST_CASE("batch: memory is taken by others at any time" * needs_fixtures()) {
    const auto wishes = some_wishes(some_stop());
    const auto expected = alone(wishes);
    Batched batched(sharing(8));
    std::atomic<bool> done{false};
    std::atomic<int> wrong{0}, evicted{0};
    std::thread evicting([&] {
        while (!done) {
            const scoria_status status = scoria_engine_evict(batched.engine);
            wrong += status != SCORIA_OK && status != SCORIA_BUSY;
            evicted += status == SCORIA_OK;
            std::this_thread::sleep_for(std::chrono::milliseconds(status == SCORIA_OK ? 5 : 0));
        }
    });
    for (int round = 0; round < (deep() ? 20 : 2) || (evicted == 0 && round < 100); ++round) {
        batched.members.clear();
        batched.add(wishes);
        CHECK(run_batch(batched.batch) == SCORIA_OK);
        batched.check(expected);
        // On a busy machine no gap between two steps may be long enough for the other thread.
        if (evicted == 0) std::this_thread::sleep_for(std::chrono::milliseconds(round));
    }
    done = true;
    evicting.join();
    CHECK(wrong == 0);
    CHECK(evicted > 0);
}

TEST_CASE("batch: cancelled from another thread, and from inside" * needs_fixtures()) {
    const auto expected = alone({{{some_prompt, greedy(30)}}});
    for (const bool inside : {false, true}) {
        CAPTURE(inside);
        scoria_engine_options options = sharing(4);
        options.prompt_chunk = 16;
        Batched batched(options);
        BatchMember& other = batched.member({{some_prompt, greedy(30)}});
        BatchMember& stopped = batched.member({{some_ids(9), greedy(0)}});
        BatchMember& prompt = batched.member({{some_ids(150), greedy(0)}});
        std::atomic<bool> seen{false}, cancelled{false};
        scoria_status meanwhile = SCORIA_OK;
        const auto cancel = [&] {
            meanwhile = scoria_session_append(stopped.session, some_prompt.data(), 1);
            for (const BatchMember* each : {&stopped, &prompt})
                CHECK(scoria_session_cancel(each->session) == SCORIA_OK);
        };
        stopped.during = [&](BatchMember& member) {
            if (member.answers[0].ids.size() != 3) return;
            if (inside) cancel();
            seen = true;
            while (!inside && !cancelled) std::this_thread::yield();
        };
        for (BatchMember* each : {&other, &stopped, &prompt}) REQUIRE_OK(each->add());
        std::thread canceller([&] {
            while (!seen) std::this_thread::yield();
            if (!inside) cancel();
            cancelled = true;
        });
        CHECK(run_batch(batched.batch) == SCORIA_OK);
        canceller.join();
        CHECK(meanwhile == SCORIA_BUSY);
        CHECK(other.answers == expected[0]);
        for (BatchMember* each : {&stopped, &prompt}) {
            const BatchAnswer& answer = each->answers[0];
            CHECK(answer.status == SCORIA_CANCELLED);
            CHECK(answer.message == "[generate] cancelled by the caller");
            CHECK(answer.stop == SCORIA_STOP_CANCELLED);
            CHECK(answer.ids.size() == (each == &stopped ? 3 : 0));
        }
        CHECK(generated(stopped.session, some_prompt, 30) == generated(other.session, some_prompt, 30));
    }
}

TEST_CASE("batch: from inside its callbacks and from other threads" * needs_fixtures()) {
    Batched batched(sharing(4));
    BatchMember& member = batched.member({{some_prompt, greedy(4)}});
    BatchMember& other = batched.member({{some_prompt, greedy(4)}});
    const scoria_generate_options options = greedy(1);
    const auto call = [&] {
        CHECK(scoria_batch_step(batched.batch, nullptr) == SCORIA_BUSY);
        CHECK(scoria_batch_destroy(batched.batch) == SCORIA_BUSY);
        CHECK(scoria_batch_add(batched.batch, member.session, nullptr, 0, &options, nullptr) ==
              (member.answers[0].status == SCORIA_OK ? SCORIA_OK : SCORIA_BUSY));
    };
    size_t tokens = 0;
    member.during = [&](BatchMember&) {
        ++tokens;
        call();
        scoria_status from_outside[3] = {};
        std::thread([&] {
            from_outside[0] = scoria_batch_add(batched.batch, other.session, nullptr, 0, &options, nullptr);
            from_outside[1] = scoria_batch_step(batched.batch, nullptr);
            from_outside[2] = scoria_batch_destroy(batched.batch);
        }).join();
        for (const scoria_status status : from_outside) CHECK(status == SCORIA_BUSY);
    };
    member.after = [&](BatchMember&) { call(); };
    REQUIRE_OK(member.add());
    CHECK(run_batch(batched.batch) == SCORIA_OK);
    CHECK(tokens >= 4);
    size_t count = 0;
    REQUIRE_OK(scoria_session_tokens(member.session, nullptr, 0, &count));
    CHECK(count == some_prompt.size() + 5);  // one of on_done's
}

TEST_CASE("batch: destroyed with answers in it" * needs_fixtures()) {
    const Loaded loaded(sharing(2));
    scoria_batch* batch = make_batch(loaded.engine);
    const scoria_generate_options options = greedy(8);
    const auto never = [](void*, scoria_session*, scoria_status, const char*, const scoria_generate_result*) {
        FAIL_CHECK("on_done");
    };
    REQUIRE_OK(
        scoria_batch_add(batch, loaded.session, some_prompt.data(), some_prompt.size(), &options, never));
    size_t left = 0;
    for (int step = 0; step < 3; ++step) REQUIRE_OK(scoria_batch_step(batch, &left));
    CHECK(left == 1);
    CHECK(scoria_session_destroy(loaded.session) == SCORIA_BUSY);
    REQUIRE_OK(scoria_batch_destroy(batch));
    CHECK(scoria_batch_step(batch, &left) == SCORIA_BAD_ARGUMENT);
    CHECK(scoria_batch_destroy(batch) == SCORIA_BAD_ARGUMENT);
    CHECK(generated(loaded.session, some_prompt, 8) ==
          generated(Loaded(deterministic()).session, some_prompt, 8));
}

TEST_CASE("batch: what is no answer leaves the session free" * needs_fixtures()) {
    const Loaded loaded(sharing(2)), elsewhere;
    scoria_batch* batch = make_batch(loaded.engine);
    const auto add = [&](scoria_session* session, const std::vector<int32_t>& ids,
                         const scoria_generate_options& options) {
        return scoria_batch_add(batch, session, ids.data(), ids.size(), &options, nullptr);
    };
    scoria_generate_options cold = greedy(1), both = greedy(1), unspelt = greedy(1);
    cold.temperature = -1;
    both.lookup = 1;
    both.draft = loaded.engine;
    unspelt.grammar = "root ::= (";
    const std::vector<int32_t> outside = {1 << 20}, none;
    CHECK(add(loaded.session, some_prompt, cold) == SCORIA_BAD_ARGUMENT);
    CHECK(add(loaded.session, some_prompt, both) == SCORIA_BAD_ARGUMENT);
    CHECK(add(loaded.session, some_prompt, unspelt) != SCORIA_OK);
    CHECK(add(loaded.session, outside, greedy(1)) == SCORIA_BAD_ARGUMENT);
    CHECK(add(loaded.session, none, greedy(1)) == SCORIA_BAD_ARGUMENT);
    CHECK(add(elsewhere.session, some_prompt, greedy(1)) == SCORIA_BAD_ARGUMENT);
    const std::vector<int32_t> long_one(info_of(loaded.engine).context + 1, 3);
    CHECK(add(loaded.session, long_one, greedy(1)) == SCORIA_CONTEXT_FULL);
    CHECK(scoria_batch_add(batch, loaded.session, nullptr, 1, &cold, nullptr) == SCORIA_BAD_ARGUMENT);
    size_t count = 1;
    REQUIRE_OK(scoria_session_tokens(loaded.session, nullptr, 0, &count));
    CHECK(count == 0);
    REQUIRE_OK(add(loaded.session, some_prompt, greedy(1)));
    CHECK(add(loaded.session, some_prompt, greedy(1)) == SCORIA_BUSY);
    CHECK(run_batch(batch) == SCORIA_OK);
    REQUIRE_OK(scoria_batch_destroy(batch));

    const Loaded encoder(fixtures() + "/gguf/bert.gguf");
    batch = make_batch(encoder.engine);
    CHECK(scoria_engine_destroy(encoder.engine) == SCORIA_BUSY);
    CHECK(add(encoder.session, some_prompt, greedy(1)) == SCORIA_UNSUPPORTED);
    REQUIRE_OK(scoria_batch_destroy(batch));
}

TEST_CASE("batch: a cache that is shared is planned, and full at some time" * needs_fixtures()) {
    scoria_engine_options options = sharing(65);
    scoria_engine* none = nullptr;
    CHECK(scoria_engine_create(&options, &none) == SCORIA_BAD_ARGUMENT);
    options = sharing(4);
    options.context = 128;
    options.shared_context = 160;
    options.prompt_chunk = 16;
    Batched batched(options);
    CHECK(memory_of(batched.engine).shared == 160);
    // Two that cannot be there at once: the second waits, and comes when the first gives its part back.
    BatchMember& first = batched.member({{some_ids(90), greedy(20)}});
    BatchMember& second = batched.member({{some_ids(90, 1), greedy(20)}});
    first.after = [](BatchMember& member) { CHECK(scoria_session_evict(member.session) == SCORIA_OK); };
    for (BatchMember* each : {&first, &second}) REQUIRE_OK(each->add());
    CHECK(run_batch(batched.batch) == SCORIA_OK);
    const auto expected = alone({first.wishes, second.wishes});
    CHECK(first.answers == expected[0]);
    CHECK(second.answers == expected[1]);
    // Without anybody who does, it is told.
    BatchMember& third = batched.member({{some_ids(90, 2), greedy(20)}});
    REQUIRE_OK(third.add());
    CHECK(run_batch(batched.batch) == SCORIA_OK);
    // One that begins as the second did has room: most of it is there.
    BatchMember& fourth = batched.member({{some_ids(90, 1), greedy(5)}});
    REQUIRE_OK(fourth.add());
    CHECK(run_batch(batched.batch) == SCORIA_OK);
    CHECK(fourth.answers == alone({fourth.wishes})[0]);
    CHECK(third.answers[0].status == SCORIA_CONTEXT_FULL);
    CHECK(third.answers[0].message.find("free blocks") != std::string::npos);
}
