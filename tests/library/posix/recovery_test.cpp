// A device of our own that is lost (our layer of tests/layer says so on the N-th call): the engine opens it
// again, uploads the weights, replays the sessions, and the answer goes on as if nothing had happened.
#include "batch_run.h"
#include "support/layers.h"

#include <atomic>
#include <optional>
#include <thread>

using namespace scoria::test;

namespace {

std::atomic<int> losses{0};

/// Counts recoveries, and lets the device that comes next live.
void on_log(void*, const char* line) {
    if (std::string(line).find("was lost") == std::string::npos) return;
    ++losses;
    Layers::spare();
}

struct Answer {
    std::vector<int32_t> ids;
    std::string text_of_callbacks;  // what a host saw: each token once
    bool operator==(const Answer&) const = default;
};

/// 12 tokens after the prompt and 6 more, drawn at random with a seed, under --deterministic.
Answer answer_of(scoria_session* session) {
    Answer answer;
    scoria_generate_options options = greedy(12);
    options.temperature = 0.9f;
    options.seed = 11;
    options.user = &answer;
    options.on_token = [](void* user, int32_t id, const char*, size_t) {
        static_cast<Answer*>(user)->text_of_callbacks += std::to_string(id) + " ";
        return 1;
    };
    REQUIRE_OK(scoria_session_replace(session, some_prompt.data(), some_prompt.size()));
    REQUIRE_OK(scoria_session_generate(session, &options, nullptr));
    options.max_tokens = 6;
    REQUIRE_OK(scoria_session_append(session, some_prompt.data(), some_prompt.size()));
    REQUIRE_OK(scoria_session_generate(session, &options, nullptr));
    answer.ids.resize(2 * some_prompt.size() + 18);
    size_t count = 0;
    REQUIRE_OK(scoria_session_tokens(session, answer.ids.data(), answer.ids.size(), &count));
    REQUIRE(count == answer.ids.size());
    return answer;
}

/// Calls `answers(engine)` with the device lost at one call, each of them in its turn; losses while the
/// engine is made leave none.
template <class Answers>
void lose_at_each_call(const scoria_engine_options& options, const Answers& answers) {
    REQUIRE_OK(scoria_set_log(on_log, nullptr));
    size_t recovered = 0;
    for (const char* function : {"vkQueueSubmit", "vkWaitSemaphores"}) {
        const size_t recovered_before = recovered;
        const int step = deep() ? 1 : 5;
        // A loss that the rehearsal in the background meets is none, so that a few in a row are not yet the
        // end.
        for (int call = 1, untouched = 0; untouched < 4; call += step) {
            CAPTURE(std::string(function));
            CAPTURE(call);
            const Layers layers(
                "", std::string(function) + ":" + std::to_string(call) + ":VK_ERROR_DEVICE_LOST", false);
            const int before = losses;
            scoria_engine* engine = nullptr;
            const scoria_status status = scoria_engine_create(&options, &engine);
            if (status != SCORIA_OK) {  // nothing to go on with
                CHECK(status == SCORIA_DEVICE_LOST);
                continue;
            }
            const int loaded = losses;
            answers(engine);
            CHECK(losses <= before + 1);
            recovered += size_t(losses - loaded);
            untouched = losses == before ? untouched + 1 : 0;
            CHECK(scoria_engine_destroy(engine) == SCORIA_OK);
        }
        MESSAGE(std::string(function) << ": " << recovered - recovered_before << " losses survived");
    }
    scoria_set_log(nullptr, nullptr);
    CHECK(recovered >= (deep() ? 40 : 8));
}

}  // namespace

TEST_CASE("a lost device is opened again and answers go on" * needs_fixtures()) {
    const Answer expected = answer_of(Loaded(deterministic()).session);
    lose_at_each_call(deterministic(), [&](scoria_engine* engine) {
        scoria_session* session = nullptr;
        REQUIRE_OK(scoria_session_create(engine, &session));
        CHECK(answer_of(session) == expected);
        CHECK(scoria_session_destroy(session) == SCORIA_OK);
    });
}

TEST_CASE("a device is lost in the middle of a batch" * needs_fixtures()) {
    scoria_engine_options options = deterministic();
    options.sequences = 4;
    const auto answers_of = [&](scoria_engine* engine) {
        scoria_batch* batch = make_batch(engine);
        std::vector<std::vector<BatchAnswer>> answers;
        {
            scoria_generate_options random = greedy(12);
            random.temperature = 0.9f;
            random.seed = 11;
            BatchMember one(batch, engine, {{some_prompt, random}, {some_prompt, greedy(6)}}),
                other(batch, engine, {{{9, 8, 7}, greedy(20)}});
            for (BatchMember* each : {&one, &other}) REQUIRE_OK(each->add());
            REQUIRE_OK(run_batch(batch));
            answers = {one.answers, other.answers};
        }
        REQUIRE_OK(scoria_batch_destroy(batch));
        return answers;
    };
    const auto expected = answers_of(Loaded(options).engine);
    for (const std::vector<BatchAnswer>& each : expected)
        for (const BatchAnswer& answer : each) CHECK(answer.status == SCORIA_OK);
    lose_at_each_call(options, [&](scoria_engine* engine) { CHECK(answers_of(engine) == expected); });
}

TEST_CASE("sessions of several threads survive the loss of their device" * needs_fixtures()) {
    const Answer expected = answer_of(Loaded(deterministic()).session);
    REQUIRE_OK(scoria_set_log(on_log, nullptr));
    {
        const Layers layers("", "vkQueueSubmit:60:VK_ERROR_DEVICE_LOST", false);
        const int before = losses;
        const Loaded loaded(deterministic());
        std::vector<std::thread> threads;
        std::vector<Answer> answers(3);
        for (Answer& answer : answers)
            threads.emplace_back([&] {
                scoria_session* session = nullptr;
                if (scoria_session_create(loaded.engine, &session) != SCORIA_OK) return;
                answer = answer_of(session);
                scoria_session_destroy(session);
            });
        for (std::thread& thread : threads) thread.join();
        for (const Answer& answer : answers) CHECK(answer == expected);
        CHECK(losses == before + 1);
    }
    scoria_set_log(nullptr, nullptr);
}

TEST_CASE("one of two devices that share a model is lost" * needs_fixtures()) {
    const Answer expected = answer_of(Loaded(deterministic()).session);
    REQUIRE_OK(scoria_set_log(on_log, nullptr));
    for (const int call : {12, 20, 30}) {
        CAPTURE(call);
        const Layers layers("", "vkQueueSubmit:" + std::to_string(call) + ":VK_ERROR_DEVICE_LOST", false);
        const int before = losses;
        scoria_engine_options options = deterministic();
        options.device = "0,0";
        CHECK(answer_of(Loaded(options).session) == expected);
        CHECK(losses > before);
    }
    scoria_set_log(nullptr, nullptr);
}

TEST_CASE("a draft whose device was lost guesses again" * needs_fixtures()) {
    std::optional<Loaded> target(std::in_place, deterministic());
    REQUIRE_OK(scoria_set_log(on_log, nullptr));
    const int before = losses;
    scoria_engine* draft = nullptr;
    const Layers layers("", "vkQueueSubmit:60+:VK_ERROR_DEVICE_LOST", false);
    const scoria_engine_options options = deterministic();
    REQUIRE_OK(scoria_engine_create(&options, &draft));
    scoria_generate_options drafted = greedy(24);
    drafted.draft = draft;
    scoria_generate_result result{};
    for (int answer = 0; answer < 4; ++answer) {
        REQUIRE_OK(scoria_session_replace(target->session, some_prompt.data(), some_prompt.size()));
        result.size = sizeof result;
        REQUIRE_OK(scoria_session_generate(target->session, &drafted, &result));
    }
    CHECK(result.proposed > 0);
    CHECK(losses == before + 1);
    target.reset();  // whose session has one of the draft's
    CHECK(scoria_engine_destroy(draft) == SCORIA_OK);
    scoria_set_log(nullptr, nullptr);
}

TEST_CASE("a device that is lost for good is a status, not a crash" * needs_fixtures()) {
    const Layers layers("", "vkQueueSubmit:40+:VK_ERROR_DEVICE_LOST", false);
    const Loaded loaded(deterministic());
    const scoria_generate_options options = greedy(200);
    REQUIRE_OK(scoria_session_replace(loaded.session, some_prompt.data(), some_prompt.size()));
    CHECK(scoria_session_generate(loaded.session, &options, nullptr) == SCORIA_DEVICE_LOST);
    // What was said stays said.
    size_t count = 0;
    scoria_session_tokens(loaded.session, nullptr, 0, &count);
    CHECK(count > some_prompt.size());
}

TEST_CASE("a device that hangs is a status, and what runs on it is not freed" * needs_fixtures()) {
    const Answer expected = answer_of(Loaded(deterministic()).session);
    {
        // No wait ends any more, and the driver cannot say what has.
        const Layers layers(
            "", "vkWaitSemaphores:60+:VK_TIMEOUT,vkGetSemaphoreCounterValue:1+:VK_ERROR_UNKNOWN", false);
        const Loaded loaded(deterministic());
        const scoria_generate_options options = greedy(200);
        REQUIRE_OK(scoria_session_replace(loaded.session, some_prompt.data(), some_prompt.size()));
        for (int attempt = 0; attempt < 2; ++attempt)
            CHECK(scoria_session_generate(loaded.session, &options, nullptr) == SCORIA_TIMEOUT);
        CHECK(std::string(scoria_last_error()).find("has not finished after") != std::string::npos);
    }
    CHECK(answer_of(Loaded(deterministic()).session) == expected);
}
