// The frame budget: prompts and steps are cut into submissions, whose number follows the milliseconds that
// the host asks for while the answer stays the same, and between which the host has the queue.
#define VK_NO_PROTOTYPES
#include "library.h"
#include "vulkan_host.h"

#include <algorithm>
#include <utility>

using namespace scoria::test;

namespace {

constexpr float tiny = 1e-4f, huge = 1e6f;  // ms: every kernel alone; all at once
constexpr uint32_t steps = 6;

std::vector<int32_t> long_prompt() {
    std::vector<int32_t> ids(150);  // so many that matrices are cut, too
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = int32_t(3 + i * 7 % 90);
    return ids;
}

/// Submissions since it was last asked.
struct Watch {
    size_t submissions = 0;
    float longest = 0;
    PFN_vkQueueSubmit submit = nullptr;  // if set, an empty submission of the host's goes in between
    VulkanHost* host = nullptr;

    static void on_submission(void* user, float ms) {
        auto& watch = *static_cast<Watch*>(user);
        ++watch.submissions;
        watch.longest = std::max(watch.longest, ms);
        if (!watch.submit) return;
        const scoria_vulkan& vulkan = *watch.host->description();
        vulkan.lock_queue(vulkan.user);
        CHECK(watch.submit(vulkan.queue, 0, nullptr, VK_NULL_HANDLE) == VK_SUCCESS);
        vulkan.unlock_queue(vulkan.user);
    }
    static void cancel(void* user, float) {
        CHECK(scoria_session_cancel(*static_cast<scoria_session**>(user)) == SCORIA_OK);
    }
    size_t taken() { return std::exchange(submissions, 0); }
};

scoria_engine_options watched(Watch& watch, float ms, bool deterministic = false,
                              const std::string& model = tiny_model()) {
    scoria_engine_options options = engine_options(model);
    options.submission_ms = ms;
    options.on_submission = Watch::on_submission;
    options.user = &watch;
    options.deterministic = deterministic;
    return options;
}

}  // namespace

TEST_CASE("the milliseconds decide how many submissions there are, and nothing else" * needs_fixtures()) {
    const std::vector<int32_t> prompt = long_prompt();
    for (const bool deterministic : {false, true}) {
        Watch watch;
        const Loaded whole(watched(watch, huge, deterministic));
        const std::vector<int32_t> expected = generated(whole.session, prompt, steps);
        // The prompt, and a step for every token but the first, which is the prompt's.
        CHECK(watch.taken() == 1 + steps - 1);

        const Loaded cut(watched(watch, tiny, deterministic));
        REQUIRE_OK(scoria_session_append(cut.session, prompt.data(), prompt.size()));
        const size_t of_prompt = watch.taken();
        CHECK(generated(cut.session, prompt, steps) == expected);
        const size_t last_token = watch.submissions / (steps + 1);
        CHECK(last_token > 8);              // every matrix of two layers, attention, the head
        CHECK(of_prompt > 2 * last_token);  // its matrices are cut by rows as well
        CHECK(watch.longest > 0);
    }
}

TEST_CASE("experts and heads are cut by tokens where each reads its own" * needs_fixtures()) {
    std::vector<int32_t> prompt = long_prompt();
    prompt.resize(40);  // too few for other matrices to be cut
    for (const std::string name : {"mixtral", "deepseek-v3"})
        for (const bool deterministic : {false, true}) {
            CAPTURE(name);
            CAPTURE(deterministic);
            const std::string model = fixtures() + "/gguf/" + name + ".gguf";
            Watch watch;
            const Loaded whole(watched(watch, huge, deterministic, model));
            const std::vector<int32_t> expected = generated(whole.session, prompt, steps);
            const Loaded cut(watched(watch, tiny, deterministic, model));
            watch.taken();
            REQUIRE_OK(scoria_session_append(cut.session, prompt.data(), prompt.size()));
            // Gate and up, down; sorted by expert, all tokens go together, and rows are too few to be cut.
            CHECK((watch.taken() >= 2 * prompt.size()) == deterministic);
            CHECK(generated(cut.session, prompt, steps) == expected);
        }
}

TEST_CASE("another budget holds from the next token on" * needs_fixtures()) {
    Watch watch;
    const Loaded loaded(watched(watch, huge));
    const std::vector<int32_t> expected = generated(loaded.session, some_prompt, 3 * steps);
    std::vector<int32_t> ids = some_prompt;
    const auto more = [&] {
        REQUIRE_OK(scoria_session_replace(loaded.session, ids.data(), ids.size()));
        watch.taken();
        ids = generated(loaded.session, ids, steps);
        return watch.taken();
    };
    const size_t at_once = more();
    CHECK(scoria_engine_set_submission_ms(loaded.engine, tiny) == SCORIA_OK);
    const size_t in_pieces = more();
    CHECK(in_pieces > 8 * at_once);
    CHECK(scoria_engine_set_submission_ms(loaded.engine, huge) == SCORIA_OK);
    CHECK(more() == at_once);
    CHECK(ids == expected);
    for (const float wrong : {-1.0f, 1e9f})
        CHECK(scoria_engine_set_submission_ms(loaded.engine, wrong) == SCORIA_BAD_ARGUMENT);
}

TEST_CASE("a prompt is cancelled between two submissions" * needs_fixtures()) {
    scoria_session* session = nullptr;
    scoria_engine_options options = engine_options(tiny_model());
    options.submission_ms = tiny;
    options.on_submission = Watch::cancel;
    options.user = &session;
    const Loaded loaded(options);
    session = loaded.session;
    const std::vector<int32_t> prompt = long_prompt();
    CHECK(scoria_session_append(session, prompt.data(), prompt.size()) == SCORIA_CANCELLED);
    size_t count = 1;
    REQUIRE_OK(scoria_session_tokens(session, nullptr, 0, &count));
    CHECK(count == 0);  // a chunk of it was not done
}

TEST_CASE("guesses of several tokens are cut, too" * needs_fixtures()) {
    Watch watch;
    const Loaded loaded(watched(watch, tiny));
    const std::vector<int32_t> expected = generated(loaded.session, some_prompt, 40);
    scoria_generate_options options = greedy(40);
    options.lookup = 1;
    REQUIRE_OK(scoria_session_replace(loaded.session, some_prompt.data(), some_prompt.size()));
    REQUIRE_OK(scoria_session_generate(loaded.session, &options, nullptr));
    std::vector<int32_t> ids(expected.size());
    size_t count = 0;
    REQUIRE_OK(scoria_session_tokens(loaded.session, ids.data(), ids.size(), &count));
    CHECK(ids == expected);
}

TEST_CASE("between two submissions the queue is the host's" * needs_fixtures()) {
    const std::vector<int32_t> expected = generated(Loaded().session, some_prompt, steps);
    VulkanHost host({});
    Watch watch;
    watch.host = &host;
    watch.submit = reinterpret_cast<PFN_vkQueueSubmit>(
        host.description()->get_instance_proc_addr(host.description()->instance, "vkQueueSubmit"));
    scoria_engine_options options = watched(watch, tiny);
    options.vulkan = host.description();
    {
        const Loaded loaded(options);
        const size_t loading = host.locks();
        CHECK(generated(loaded.session, some_prompt, steps) == expected);
        // The host's and the library's, and few of the latter that are no slice: what begins a step.
        CHECK(host.locks() - loading >= 2 * watch.submissions);
        CHECK(host.locks() - loading < 2 * watch.submissions + 8);
    }
    host.destroy_device();
    for (const std::string& error : host.errors()) FAIL_CHECK(error);
}
