// A host proves the kernels of its device, and its model on it.
#define VK_NO_PROTOTYPES
#include "library.h"
#include "stub_vulkan.h"
#include "vulkan_host.h"

using namespace scoria::test;

namespace {

struct Seen {
    uint32_t cases = 0, failed = 0, others = 0, most = ~0u;
    std::string op;

    static int hear(void* user, const scoria_check* check) {
        auto& seen = *static_cast<Seen*>(user);
        ++seen.cases;
        seen.failed += !check->passed;
        seen.others += !seen.op.empty() && seen.op != check->op;
        CHECK(check->passed == (check->share <= 1));
        return seen.cases < seen.most;
    }
};

scoria_check_counts no_counts() {
    scoria_check_counts counts{};
    counts.size = sizeof counts;
    return counts;
}

}  // namespace

TEST_CASE("kernels of one op are proven, and it can be stopped") {
    Seen seen{.op = "glu"};
    scoria_validate_options options{};
    options.size = sizeof options;
    options.op = "glu";
    options.on_check = Seen::hear;
    options.user = &seen;
    scoria_check_counts counts = no_counts();
    REQUIRE_OK(scoria_validate(&options, &counts));
    CHECK(counts.cases > 4);
    CHECK(counts.failed == 0);
    CHECK((seen.cases == counts.cases && seen.failed == 0 && seen.others == 0));

    seen = {.most = 2, .op = "glu"};
    CHECK(scoria_validate(&options, &counts) == SCORIA_CANCELLED);
    CHECK(seen.cases == 2);
    options.op = "none";
    CHECK(scoria_validate(&options, &counts) == SCORIA_BAD_ARGUMENT);
    options.op = nullptr;
    options.device = "no such device";
    CHECK(scoria_validate(&options, &counts) == SCORIA_BAD_ARGUMENT);
}

TEST_CASE("a model is compared with the reference, on a host's device too" * needs_fixtures()) {
    VulkanHost host({});
    scoria_engine_options options = engine_options(tiny_model());
    for (scoria_vulkan* const vulkan : {static_cast<scoria_vulkan*>(nullptr), host.description()}) {
        options.vulkan = vulkan;
        options.sequences = vulkan ? 1 : 2;
        const Loaded loaded(options);
        Seen seen;
        scoria_check_counts counts = no_counts();
        REQUIRE_OK(scoria_engine_validate(loaded.engine, some_prompt.data(), some_prompt.size(), Seen::hear,
                                          &seen, &counts));
        CHECK(counts.cases > info_of(loaded.engine).layers * 4);
        CHECK(counts.failed == 0);
        CHECK(seen.cases == counts.cases);
        seen = {.most = 1};
        CHECK(scoria_engine_validate(loaded.engine, some_prompt.data(), 1, Seen::hear, &seen, &counts) ==
              SCORIA_CANCELLED);
        const int32_t outside = 1 << 20;
        CHECK(scoria_engine_validate(loaded.engine, &outside, 1, nullptr, nullptr, &counts) ==
              SCORIA_BAD_ARGUMENT);
    }
    host.destroy_device();
    for (const std::string& error : host.errors()) FAIL_CHECK(error);
}

TEST_CASE("a device that computes nothing is found out, and its tokens are errors" * needs_fixtures()) {
    const std::pair<uint32_t, scoria_status> words[] = {{0, SCORIA_OK},  // token 0
                                                        {0xFFFFFFFFu, SCORIA_NON_FINITE},
                                                        {0xFFFFFFFEu, SCORIA_FAILED},
                                                        {0x7FFFFFFEu, SCORIA_FAILED},
                                                        {0x10000u, SCORIA_FAILED}};
    for (const auto& [word, status] : words) {
        CAPTURE(word);
        const StubVulkan stub(word);
        scoria_engine_options options = engine_options(tiny_model());
        options.vulkan = stub.description();
        const Loaded loaded(options);
        scoria_check_counts counts = no_counts();
        REQUIRE_OK(scoria_engine_validate(loaded.engine, some_prompt.data(), some_prompt.size(), nullptr,
                                          nullptr, &counts));
        CHECK(counts.failed > 0);
        scoria_generate_options wanted = greedy(4);
        wanted.logprobs = 3;
        REQUIRE_OK(scoria_session_append(loaded.session, some_prompt.data(), some_prompt.size()));
        CHECK(scoria_session_generate(loaded.session, &wanted, nullptr) == status);
        size_t count = 0;
        REQUIRE_OK(scoria_session_tokens(loaded.session, nullptr, 0, &count));
        CHECK(count == some_prompt.size() + (status == SCORIA_OK ? 4 : 0));
    }
}
