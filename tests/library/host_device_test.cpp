// A host's own VkDevice: the same answer as on ours, only what is enabled is used, and nothing is left on it.
#define VK_NO_PROTOTYPES
#include "library.h"
#include "vulkan_host.h"

using namespace scoria::test;

namespace {

struct HostCase {
    const char* what;
    Enabled enabled;
};
const HostCase host_cases[] = {
    {"everything", {}},
    {"timelineSemaphore alone", {.everything = false}},
    {"features in their own structs", {.as_own_structs = true}},
};

std::string joined(const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    return text;
}

}  // namespace

TEST_CASE("a host's device computes the same and is left empty" * needs_fixtures()) {
    const std::vector<int32_t> expected = generated(Loaded().session, some_prompt, 12);
    for (const HostCase& each : host_cases) {
        CAPTURE(each.what);
        VulkanHost host(each.enabled);
        if (!host.validated()) MESSAGE("without the validation layer");
        scoria_engine_options options = engine_options(tiny_model());
        options.vulkan = host.description();
        for (int round = 0; round < 2; ++round) {
            const Loaded loaded(options);
            CHECK(generated(loaded.session, some_prompt, 12) == expected);
            CHECK(std::string(info_of(loaded.engine).device_name) != "");
        }
        CHECK(host.locks() > 0);
        host.destroy_device();
        CHECK_MESSAGE(host.errors().empty(), joined(host.errors()));
    }
}

TEST_CASE("a layer that sees objects left behind says so") {
    VulkanHost host({});
    if (!host.validated()) return;
    const auto get = [&](const char* name) {
        return host.description()->get_instance_proc_addr(host.description()->instance, name);
    };
    const auto create = reinterpret_cast<PFN_vkCreateSemaphore>(get("vkCreateSemaphore"));
    const VkSemaphoreCreateInfo info{VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, nullptr, 0};
    VkSemaphore semaphore = VK_NULL_HANDLE;
    REQUIRE(create(host.description()->device, &info, nullptr, &semaphore) == VK_SUCCESS);
    host.destroy_device();
    CHECK(!host.errors().empty());
}

TEST_CASE("what lacks on a host's device is named" * needs_fixtures()) {
    const auto refused = [](VulkanHost& host, const char* named) {
        scoria_engine_options options = engine_options(tiny_model());
        options.vulkan = host.description();
        scoria_engine* engine = nullptr;
        CHECK(scoria_engine_create(&options, &engine) == SCORIA_UNSUPPORTED);
        CHECK_MESSAGE(std::string(scoria_last_error()).find(named) != std::string::npos, scoria_last_error());
        host.destroy_device();
        CHECK_MESSAGE(host.errors().empty(), joined(host.errors()));
    };
    VulkanHost no_timeline({.timeline = false});
    refused(no_timeline, "timelineSemaphore");
    VulkanHost old({});
    old.description()->api_version = VK_API_VERSION_1_1;
    refused(old, "Vulkan 1.2");
    VulkanHost no_family({});
    no_family.description()->queue_family = 77;
    refused(no_family, "queue");
}
