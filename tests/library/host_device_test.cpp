// A host's own VkDevice: the same answer as on ours, only what is enabled is used, and nothing is left on it.
#define VK_NO_PROTOTYPES
#include "library.h"
#include "vulkan_host.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <new>

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

/// A host's allocator that knows what it gave.
class HostHeap {
  public:
    VkAllocationCallbacks callbacks() {
        VkAllocationCallbacks all{};
        all.pUserData = this;
        all.pfnAllocation = [](void* user, size_t size, size_t alignment, VkSystemAllocationScope) {
            return static_cast<HostHeap*>(user)->give(size, alignment);
        };
        all.pfnReallocation = [](void* user, void* old, size_t size, size_t alignment,
                                 VkSystemAllocationScope) -> void* {
            auto& heap = *static_cast<HostHeap*>(user);
            void* const fresh = size ? heap.give(size, alignment) : nullptr;
            if (old && fresh) std::memcpy(fresh, old, std::min(size, heap.size_of(old)));
            if (fresh || !size) heap.take(old);
            return fresh;
        };
        all.pfnFree = [](void* user, void* memory) { static_cast<HostHeap*>(user)->take(memory); };
        return all;
    }
    size_t given = 0, unknown = 0;
    size_t held() {
        const std::lock_guard lock(mutex_);
        return pieces_.size();
    }

  private:
    void* give(size_t size, size_t alignment) {
        const std::lock_guard lock(mutex_);
        void* const memory = ::operator new (size, std::align_val_t{alignment});
        ++given;
        return pieces_.emplace(memory, Piece{size, alignment}), memory;
    }
    void take(void* memory) {
        if (!memory) return;
        const std::lock_guard lock(mutex_);
        const auto node = pieces_.extract(memory);
        if (!node) {
            ++unknown;
            return;
        }
        ::operator delete (memory, std::align_val_t{node.mapped().alignment});
    }
    size_t size_of(void* memory) {
        const std::lock_guard lock(mutex_);
        return pieces_.at(memory).size;
    }
    std::mutex mutex_;
    struct Piece {
        size_t size, alignment;
    };
    std::map<void*, Piece> pieces_;
};

TEST_CASE("every object on a host's device is of its allocator, which gets all of it back" *
          needs_fixtures()) {
    const std::vector<int32_t> expected = generated(Loaded().session, some_prompt, 12);
    VulkanHost host({});
    HostHeap heap;
    {
        // A copy of it is kept, not this.
        const VkAllocationCallbacks allocator = heap.callbacks();
        scoria_engine_options options = engine_options(tiny_model());
        options.vulkan = host.description();
        host.description()->allocator = &allocator;
        const Loaded loaded(options);
        host.description()->allocator = nullptr;
        CHECK(generated(loaded.session, some_prompt, 12) == expected);
        REQUIRE_OK(scoria_engine_evict(loaded.engine));
        CHECK(generated(loaded.session, some_prompt, 12) == expected);
        CHECK(heap.held() > 20);
    }
    CHECK(heap.given > 100);
    CHECK(heap.held() == 0);
    CHECK(heap.unknown == 0);

    const VkAllocationCallbacks half{};
    host.description()->allocator = &half;
    scoria_engine_options options = engine_options(tiny_model());
    options.vulkan = host.description();
    scoria_engine* engine = nullptr;
    CHECK(scoria_engine_create(&options, &engine) == SCORIA_BAD_ARGUMENT);
    host.description()->allocator = nullptr;
    host.destroy_device();
    CHECK_MESSAGE(host.errors().empty(), joined(host.errors()));
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
