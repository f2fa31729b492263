// Calls that fail on a host's device (our layer of tests/layer, below the validation layer): a status comes
// back, nothing is left on the device, and unless it is lost the same engine then answers as ever.
#define VK_NO_PROTOTYPES
#include "batch_run.h"
#include "support/layers.h"
#include "vulkan_host.h"

#include <algorithm>
#include <string_view>

using namespace scoria::test;

namespace {

struct Fault {
    const char* function;
    const char* result;
    scoria_status status;
    bool lasting = false;  // all later calls fail too: the allocator tries other kinds of memory
};
const Fault faults[] = {
    {"vkAllocateMemory", "VK_ERROR_OUT_OF_DEVICE_MEMORY", SCORIA_OUT_OF_DEVICE_MEMORY, true},
    {"vkMapMemory", "VK_ERROR_MEMORY_MAP_FAILED", SCORIA_OUT_OF_DEVICE_MEMORY, true},
    {"vkCreateBuffer", "VK_ERROR_OUT_OF_DEVICE_MEMORY", SCORIA_OUT_OF_DEVICE_MEMORY},
    {"vkCreateBuffer", "VK_ERROR_UNKNOWN", SCORIA_FAILED},
    {"vkBindBufferMemory", "VK_ERROR_OUT_OF_DEVICE_MEMORY", SCORIA_OUT_OF_DEVICE_MEMORY, true},
    {"vkCreateSemaphore", "VK_ERROR_OUT_OF_DEVICE_MEMORY", SCORIA_OUT_OF_DEVICE_MEMORY},
    {"vkCreateCommandPool", "VK_ERROR_OUT_OF_HOST_MEMORY", SCORIA_OUT_OF_HOST_MEMORY},
    {"vkAllocateCommandBuffers", "VK_ERROR_OUT_OF_DEVICE_MEMORY", SCORIA_OUT_OF_DEVICE_MEMORY},
    {"vkBeginCommandBuffer", "VK_ERROR_OUT_OF_DEVICE_MEMORY", SCORIA_OUT_OF_DEVICE_MEMORY},
    {"vkEndCommandBuffer", "VK_ERROR_OUT_OF_HOST_MEMORY", SCORIA_OUT_OF_HOST_MEMORY},
    {"vkCreateDescriptorPool", "VK_ERROR_FRAGMENTED_POOL", SCORIA_OUT_OF_DEVICE_MEMORY},
    {"vkAllocateDescriptorSets", "VK_ERROR_OUT_OF_POOL_MEMORY", SCORIA_OUT_OF_DEVICE_MEMORY},
    {"vkCreateDescriptorSetLayout", "VK_ERROR_OUT_OF_DEVICE_MEMORY", SCORIA_OUT_OF_DEVICE_MEMORY},
    {"vkCreatePipelineLayout", "VK_ERROR_OUT_OF_DEVICE_MEMORY", SCORIA_OUT_OF_DEVICE_MEMORY},
    {"vkCreateShaderModule", "VK_ERROR_OUT_OF_HOST_MEMORY", SCORIA_OUT_OF_HOST_MEMORY},
    {"vkCreatePipelineCache", "VK_ERROR_OUT_OF_HOST_MEMORY", SCORIA_OUT_OF_HOST_MEMORY},
    {"vkCreateComputePipelines", "VK_ERROR_UNKNOWN", SCORIA_FAILED},
    {"vkQueueSubmit", "VK_ERROR_DEVICE_LOST", SCORIA_DEVICE_LOST},
    {"vkQueueSubmit", "VK_ERROR_OUT_OF_DEVICE_MEMORY", SCORIA_OUT_OF_DEVICE_MEMORY},
    {"vkCreateQueryPool", "VK_ERROR_OUT_OF_HOST_MEMORY", SCORIA_OUT_OF_HOST_MEMORY},
    {"vkGetQueryPoolResults", "VK_ERROR_DEVICE_LOST", SCORIA_DEVICE_LOST},
    {"vkWaitSemaphores", "VK_ERROR_DEVICE_LOST", SCORIA_DEVICE_LOST},
    {"vkWaitSemaphores", "VK_TIMEOUT", SCORIA_TIMEOUT},
};

/// What any call may return.
const Fault any_result[] = {
    {"", "VK_ERROR_OUT_OF_HOST_MEMORY", SCORIA_OUT_OF_HOST_MEMORY, true},
    {"", "VK_ERROR_OUT_OF_DEVICE_MEMORY", SCORIA_OUT_OF_DEVICE_MEMORY, true},
    {"", "VK_ERROR_DEVICE_LOST", SCORIA_DEVICE_LOST, true},
    {"", "VK_ERROR_UNKNOWN", SCORIA_FAILED, true},
};

/// What a batch meets in its steps.
const Fault batch_faults[] = {
    {"vkQueueSubmit", "VK_ERROR_DEVICE_LOST", SCORIA_DEVICE_LOST, true},
    {"vkQueueSubmit", "VK_ERROR_OUT_OF_DEVICE_MEMORY", SCORIA_OUT_OF_DEVICE_MEMORY},
    {"vkWaitSemaphores", "VK_TIMEOUT", SCORIA_TIMEOUT},
    {"vkEndCommandBuffer", "VK_ERROR_OUT_OF_HOST_MEMORY", SCORIA_OUT_OF_HOST_MEMORY},
    {"vkCreateBuffer", "VK_ERROR_OUT_OF_DEVICE_MEMORY", SCORIA_OUT_OF_DEVICE_MEMORY},
    {"vkAllocateMemory", "VK_ERROR_OUT_OF_DEVICE_MEMORY", SCORIA_OUT_OF_DEVICE_MEMORY, true},
    {"vkCreateComputePipelines", "VK_ERROR_UNKNOWN", SCORIA_FAILED},
};

/// The table; in the deep tier every function of it with every result, too.
std::vector<Fault> faults_of_tier() {
    std::vector<Fault> all(std::begin(faults), std::end(faults));
    for (const Fault& fault : faults)
        for (Fault more : any_result) {
            more.function = fault.function;
            const std::string_view name = fault.function;
            // The allocator tries every kind of memory, and says in the end that there is none.
            const bool allocates = name == "vkAllocateMemory" || name == "vkMapMemory";
            if (allocates) more.status = SCORIA_OUT_OF_DEVICE_MEMORY;
            // Work that can never be waited for still runs: nothing can be freed then.
            more.lasting = name != "vkWaitSemaphores";
            const bool there = std::any_of(all.begin(), all.end(), [&](const Fault& other) {
                return std::string_view(other.function) == more.function &&
                       std::string_view(other.result) == more.result;
            });
            if (deep() && !there) all.push_back(more);
        }
    return all;
}

std::string wish(const Fault& fault, int call) {
    return std::string(fault.function) + ":" + std::to_string(call) + (fault.lasting ? "+:" : ":") +
           fault.result;
}

/// Loads and generates; the first status that is not OK, and whether the same engine answers afterwards.
scoria_status run_on(const VulkanHost& host, const std::vector<int32_t>& expected,
                     const char* cache_folder = nullptr) {
    scoria_engine_options options = engine_options(tiny_model());
    options.vulkan = host.description();
    options.cache_folder = cache_folder;
    scoria_engine* engine = nullptr;
    scoria_session* session = nullptr;
    scoria_status first = scoria_engine_create(&options, &engine);
    const auto note = [&](scoria_status status) {
        if (first == SCORIA_OK) first = status;
        return status;
    };
    const scoria_generate_options generate = greedy(uint32_t(expected.size() - some_prompt.size()));
    for (int attempt = 0; attempt < 3 && engine; ++attempt) {
        if (!session && note(scoria_session_create(engine, &session)) != SCORIA_OK) continue;
        if (note(scoria_session_replace(session, some_prompt.data(), some_prompt.size())) != SCORIA_OK)
            continue;
        if (note(scoria_session_generate(session, &generate, nullptr)) != SCORIA_OK) continue;
        std::vector<int32_t> ids(expected.size());
        size_t count = 0;
        CHECK(scoria_session_tokens(session, ids.data(), ids.size(), &count) == SCORIA_OK);
        CHECK(ids == expected);
        CHECK((attempt == 0 || first != SCORIA_OK));
        break;
    }
    CHECK(scoria_session_destroy(session) == SCORIA_OK);
    CHECK(scoria_engine_destroy(engine) == SCORIA_OK);
    return first;
}

}  // namespace

TEST_CASE("calls that fail on a host's device" * needs_fixtures()) {
    const std::vector<int32_t> expected = generated(Loaded().session, some_prompt, deep() ? 16 : 3);
    std::string unreached;
    size_t injected = 0;
    for (const Fault& fault : faults_of_tier()) {
        size_t reached = 0, missed = 0;
        // Deep: every call there is, with growing steps; the second one past the last ends it.
        for (int call = 1; deep() ? missed < 2 : call <= 4; call += deep() ? 1 + call / 24 : 3) {
            CAPTURE(std::string(fault.function));
            CAPTURE(call);
            // Version 1.3.239 of the validation layer takes a submission that failed for one in flight.
            const bool validation = std::string(fault.function) != "vkQueueSubmit";
            const Layers layers("", wish(fault, call), validation);
            VulkanHost host({.everything = false, .validation = validation});
            const scoria_status status = run_on(host, expected);
            ++(status != SCORIA_OK ? reached : missed);
            CHECK((status == SCORIA_OK || status == fault.status));
            host.destroy_device();
            for (const std::string& error : host.errors()) FAIL_CHECK(error);
        }
        injected += reached;
        if (reached == 0) unreached += std::string(fault.function) + " ";
    }
    CHECK_MESSAGE(unreached.empty(), unreached);
    MESSAGE(injected << " faults");
    if (deep()) CHECK(injected >= 500);
}

TEST_CASE("calls that fail in the middle of a batch" * needs_fixtures()) {
    scoria_engine_options options = deterministic();
    options.sequences = 2;
    const BatchWish wishes[] = {{some_prompt, greedy(6)}, {{9, 8, 7}, greedy(9)}};
    // Answers of those that could be added; steps that fail are tried again.
    const auto answers_on = [&](const VulkanHost& host, scoria_status& first) {
        options.vulkan = host.description();
        std::vector<BatchAnswer> answers;
        scoria_engine* engine = nullptr;
        first = scoria_engine_create(&options, &engine);
        if (!engine) return answers;
        scoria_batch* batch = make_batch(engine);
        scoria_session* sessions[2] = {};
        for (scoria_session*& session : sessions)
            if (const scoria_status status = scoria_session_create(engine, &session); status != SCORIA_OK)
                first = status;
        if (first == SCORIA_OK) {
            BatchMember one(batch, sessions[0], {wishes[0]}), other(batch, sessions[1], {wishes[1]});
            for (BatchMember* each : {&one, &other}) REQUIRE_OK(each->add());
            first = run_batch(batch, 3);
            CHECK(scoria_batch_destroy(batch) == SCORIA_OK);
            answers = {one.answers[0], other.answers[0]};
        } else {
            CHECK(scoria_batch_destroy(batch) == SCORIA_OK);
            for (scoria_session* session : sessions) CHECK(scoria_session_destroy(session) == SCORIA_OK);
        }
        CHECK(scoria_engine_destroy(engine) == SCORIA_OK);
        return answers;
    };
    scoria_status status = SCORIA_OK;
    const std::vector<BatchAnswer> expected = answers_on(VulkanHost({.everything = false}), status);
    REQUIRE(status == SCORIA_OK);
    size_t steps_failed = 0;
    for (const Fault& fault : batch_faults)
        for (int call = 1, missed = 0; missed < 2; call += deep() ? 1 : 2) {
            CAPTURE(std::string(fault.function));
            CAPTURE(std::string(fault.result));
            CAPTURE(call);
            const bool validation = std::string(fault.function) != "vkQueueSubmit";
            const Layers layers("", wish(fault, call), validation);
            VulkanHost host({.everything = false, .validation = validation});
            const std::vector<BatchAnswer> answers = answers_on(host, status);
            missed += status == SCORIA_OK;
            CHECK((status == SCORIA_OK || status == fault.status));
            steps_failed += status != SCORIA_OK && !answers.empty();
            for (size_t i = 0; i < answers.size(); ++i)
                if (fault.status != SCORIA_DEVICE_LOST && !fault.lasting) {
                    CHECK(answers[i] == expected[i]);
                } else if (status != SCORIA_OK && answers[i].status != SCORIA_OK) {
                    CHECK(answers[i].message == "never done");
                }
            host.destroy_device();
            for (const std::string& error : host.errors()) FAIL_CHECK(error);
        }
    MESSAGE(steps_failed << " failed in steps");
    CHECK(steps_failed >= (deep() ? 40 : 20));
}

TEST_CASE("calls whose failure costs no answer" * needs_fixtures()) {
    const std::vector<int32_t> expected = generated(Loaded().session, some_prompt, 3);
    const Scratch scratch;
    const std::string folder = scratch.path.string();
    static std::string logged;
    REQUIRE_OK(scoria_set_log([](void*, const char* line) { logged += line; }, nullptr));
    for (const std::string function : {"vkResetCommandPool", "vkGetPipelineCacheData"}) {
        CAPTURE(function);
        const Layers layers("", function + ":1+:VK_ERROR_DEVICE_LOST");
        VulkanHost host({.everything = false});
        CHECK(run_on(host, expected, folder.c_str()) == SCORIA_OK);
        host.destroy_device();
        for (const std::string& error : host.errors()) FAIL_CHECK(error);
    }
    scoria_set_log(nullptr, nullptr);
    CHECK(logged.find("vkGetPipelineCacheData") != std::string::npos);
}
