// What a session computed, read by the host on its own device: buffers and timeline semaphores in both
// directions, under the validation layer.
#define VK_NO_PROTOTYPES
#include "library.h"
#include "vulkan_host.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

using namespace scoria::test;

namespace {

template <class Struct> Struct typed(VkStructureType type, const void* next = nullptr) {
    Struct result{};
    result.sType = type;
    result.pNext = next;
    return result;
}

/// What a host's renderer does: waits for the library's semaphore on the queue, reads its buffer, signals a
/// semaphore of its own.
class Renderer {
    template <class Function, class... Arguments> auto run(const char* name, Arguments... arguments) const {
        const scoria_vulkan& vulkan = *host_.description();
        return reinterpret_cast<Function>(vulkan.get_instance_proc_addr(vulkan.instance, name))(arguments...);
    }
    template <class Function, class... Arguments> void call(const char* name, Arguments... arguments) const {
        CAPTURE(std::string(name));
        REQUIRE(run<Function>(name, arguments...) == VK_SUCCESS);
    }

  public:
    explicit Renderer(VulkanHost& host) : host_(host), device_(host.description()->device) {
        auto type = typed<VkSemaphoreTypeCreateInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO);
        type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
        const auto semaphore = typed<VkSemaphoreCreateInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, &type);
        call<PFN_vkCreateSemaphore>("vkCreateSemaphore", device_, &semaphore, nullptr, &done_);
        auto pool = typed<VkCommandPoolCreateInfo>(VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO);
        pool.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
        pool.queueFamilyIndex = host.description()->queue_family;
        call<PFN_vkCreateCommandPool>("vkCreateCommandPool", device_, &pool, nullptr, &pool_);
        auto buffer = typed<VkBufferCreateInfo>(VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO);
        buffer.size = bytes;
        buffer.usage = VK_BUFFER_USAGE_TRANSFER_DST_BIT;
        call<PFN_vkCreateBuffer>("vkCreateBuffer", device_, &buffer, nullptr, &buffer_);
        bind_memory();
    }
    ~Renderer() {
        for (const auto& [imported, memory] : imported_) {
            run<PFN_vkDestroyBuffer>("vkDestroyBuffer", device_, imported, nullptr);
            run<PFN_vkFreeMemory>("vkFreeMemory", device_, memory, nullptr);
        }
        run<PFN_vkDestroyBuffer>("vkDestroyBuffer", device_, buffer_, nullptr);
        run<PFN_vkFreeMemory>("vkFreeMemory", device_, memory_, nullptr);
        run<PFN_vkDestroyCommandPool>("vkDestroyCommandPool", device_, pool_, nullptr);
        run<PFN_vkDestroySemaphore>("vkDestroySemaphore", device_, done_, nullptr);
    }
    Renderer(const Renderer&) = delete;

    std::vector<float> read(const scoria_shared& shared) {
        REQUIRE(shared.bytes <= bytes);
        VkCommandBuffer commands = VK_NULL_HANDLE;
        auto allocate = typed<VkCommandBufferAllocateInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO);
        allocate.commandPool = pool_;
        allocate.commandBufferCount = 1;
        call<PFN_vkAllocateCommandBuffers>("vkAllocateCommandBuffers", device_, &allocate, &commands);
        const auto begin = typed<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
        call<PFN_vkBeginCommandBuffer>("vkBeginCommandBuffer", commands, &begin);
        const VkBufferCopy region{shared.offset, 0, shared.bytes};
        run<PFN_vkCmdCopyBuffer>("vkCmdCopyBuffer", commands, shared.buffer, buffer_, 1, &region);
        auto visible = typed<VkMemoryBarrier>(VK_STRUCTURE_TYPE_MEMORY_BARRIER);
        visible.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
        visible.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
        run<PFN_vkCmdPipelineBarrier>("vkCmdPipelineBarrier", commands, VK_PIPELINE_STAGE_TRANSFER_BIT,
                                      VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &visible, 0, nullptr, 0, nullptr);
        call<PFN_vkEndCommandBuffer>("vkEndCommandBuffer", commands);

        const uint64_t value = ++value_;
        auto timeline =
            typed<VkTimelineSemaphoreSubmitInfo>(VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO);
        timeline.waitSemaphoreValueCount = timeline.signalSemaphoreValueCount = 1;
        timeline.pWaitSemaphoreValues = &shared.value;
        timeline.pSignalSemaphoreValues = &value;
        const VkPipelineStageFlags stage = VK_PIPELINE_STAGE_TRANSFER_BIT;
        auto submit = typed<VkSubmitInfo>(VK_STRUCTURE_TYPE_SUBMIT_INFO, &timeline);
        submit.waitSemaphoreCount = submit.signalSemaphoreCount = submit.commandBufferCount = 1;
        submit.pWaitSemaphores = &shared.semaphore;
        submit.pWaitDstStageMask = &stage;
        submit.pSignalSemaphores = &done_;
        submit.pCommandBuffers = &commands;
        const scoria_vulkan& vulkan = *host_.description();
        vulkan.lock_queue(vulkan.user);
        call<PFN_vkQueueSubmit>("vkQueueSubmit", vulkan.queue, 1u, &submit, VkFence{VK_NULL_HANDLE});
        vulkan.unlock_queue(vulkan.user);
        wait(value);
        std::vector<float> values(shared.bytes / sizeof(float));
        std::memcpy(values.data(), mapped_, shared.bytes);
        return values;
    }
    /// Memory of this device's as a file.
    int exported(const scoria_shared& shared) const {
        auto info = typed<VkMemoryGetFdInfoKHR>(VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR);
        info.memory = shared.memory;
        info.handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
        int file = -1;
        call<PFN_vkGetMemoryFdKHR>("vkGetMemoryFdKHR", device_, &info, &file);
        return file;
    }
    /// What another device shares, on this one: its memory by such a file, which goes with it, and no
    /// semaphore.
    scoria_shared import(int file, scoria_shared shared) {
        auto as =
            typed<VkExternalMemoryBufferCreateInfo>(VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO);
        as.handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
        auto buffer = typed<VkBufferCreateInfo>(VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, &as);
        buffer.size = shared.offset + shared.bytes;
        buffer.usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT;
        auto from = typed<VkImportMemoryFdInfoKHR>(VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR);
        from.handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
        from.fd = file;
        auto info = typed<VkMemoryAllocateInfo>(VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, &from);
        info.allocationSize = shared.memory_bytes;
        info.memoryTypeIndex = shared.memory_type;
        auto& [imported, memory] = imported_.emplace_back();
        call<PFN_vkCreateBuffer>("vkCreateBuffer", device_, &buffer, nullptr, &imported);
        call<PFN_vkAllocateMemory>("vkAllocateMemory", device_, &info, nullptr, &memory);
        call<PFN_vkBindBufferMemory>("vkBindBufferMemory", device_, imported, memory, VkDeviceSize{0});
        shared.buffer = imported;
        shared.semaphore = done_;
        shared.value = 0;
        return shared;
    }
    void signal(uint64_t value) {
        value_ = value;
        auto info = typed<VkSemaphoreSignalInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO);
        info.semaphore = done_;
        info.value = value;
        call<PFN_vkSignalSemaphore>("vkSignalSemaphore", device_, &info);
    }
    void wait(uint64_t value) const {
        auto info = typed<VkSemaphoreWaitInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO);
        info.semaphoreCount = 1;
        info.pSemaphores = &done_;
        info.pValues = &value;
        call<PFN_vkWaitSemaphores>("vkWaitSemaphores", device_, &info, 60'000'000'000ull);
    }
    VkSemaphore semaphore() const { return done_; }
    uint64_t value() const { return value_; }

  private:
    static constexpr VkDeviceSize bytes = 1 << 20;

    void bind_memory() {
        VkMemoryRequirements needs{};
        run<PFN_vkGetBufferMemoryRequirements>("vkGetBufferMemoryRequirements", device_, buffer_, &needs);
        VkPhysicalDeviceMemoryProperties memory{};
        run<PFN_vkGetPhysicalDeviceMemoryProperties>("vkGetPhysicalDeviceMemoryProperties",
                                                     host_.description()->physical_device, &memory);
        auto info = typed<VkMemoryAllocateInfo>(VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO);
        info.allocationSize = needs.size;
        constexpr VkMemoryPropertyFlags wanted =
            VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
        while (!(needs.memoryTypeBits >> info.memoryTypeIndex & 1) ||
               (memory.memoryTypes[info.memoryTypeIndex].propertyFlags & wanted) != wanted)
            ++info.memoryTypeIndex;
        call<PFN_vkAllocateMemory>("vkAllocateMemory", device_, &info, nullptr, &memory_);
        call<PFN_vkBindBufferMemory>("vkBindBufferMemory", device_, buffer_, memory_, VkDeviceSize{0});
        call<PFN_vkMapMemory>("vkMapMemory", device_, memory_, VkDeviceSize{0}, bytes, VkMemoryMapFlags{0},
                              &mapped_);
    }

    VulkanHost& host_;
    VkDevice device_;
    VkSemaphore done_ = VK_NULL_HANDLE;
    uint64_t value_ = 0;
    VkCommandPool pool_ = VK_NULL_HANDLE;
    VkBuffer buffer_ = VK_NULL_HANDLE;
    VkDeviceMemory memory_ = VK_NULL_HANDLE;
    void* mapped_ = nullptr;
    std::vector<std::pair<VkBuffer, VkDeviceMemory>> imported_;
};

scoria_shared share(scoria_session* session, uint32_t what) {
    scoria_shared shared{};
    shared.size = sizeof shared;
    REQUIRE_OK(scoria_session_share(session, what, &shared));
    CHECK(shared.bytes == 4ull * shared.rows * shared.cols);
    return shared;
}

/// An engine on the device of a host that draws; nothing is left there, and validation is silent.
template <class Work> void beside_renderer(const Work& work) {
    VulkanHost host({});
    {
        scoria_engine_options options = engine_options(tiny_model());
        options.vulkan = host.description();
        const Loaded loaded(options);
        Renderer renderer(host);
        work(loaded, renderer);
    }
    host.destroy_device();
    for (const std::string& error : host.errors()) FAIL_CHECK(error);
}

}  // namespace

TEST_CASE("a host reads what was computed from the buffer that it was computed to" * needs_fixtures()) {
    beside_renderer([](const Loaded& loaded, Renderer& renderer) {
        const std::vector<int32_t> expected = generated(loaded.session, some_prompt, 8);
        REQUIRE_OK(scoria_session_replace(loaded.session, some_prompt.data(), some_prompt.size()));
        std::vector<float> hidden;
        for (size_t at = some_prompt.size(); at < expected.size(); ++at) {
            const scoria_shared shared = share(loaded.session, SCORIA_SHARE_LOGITS);
            CHECK(shared.memory == VK_NULL_HANDLE);  // nobody asked for it
            const std::vector<float> logits = renderer.read(shared);
            CHECK(logits == logits_of(loaded.session));
            CHECK(int32_t(std::max_element(logits.begin(), logits.end()) - logits.begin()) == expected[at]);
            const std::vector<float> before =
                std::exchange(hidden, renderer.read(share(loaded.session, SCORIA_SHARE_HIDDEN)));
            CHECK(hidden != before);
            // The next token's kernels write behind the reading.
            CHECK(scoria_session_wait(loaded.session, renderer.semaphore(), renderer.value()) == SCORIA_OK);
            const scoria_generate_options one = greedy(1);
            REQUIRE_OK(scoria_session_generate(loaded.session, &one, nullptr));
        }
        std::vector<int32_t> ids(expected.size());
        size_t count = 0;
        REQUIRE_OK(scoria_session_tokens(loaded.session, ids.data(), ids.size(), &count));
        CHECK(ids == expected);
    });
}

TEST_CASE("the hidden state is what embeddings and the head are made of" * needs_fixtures()) {
    beside_renderer([](const Loaded& loaded, Renderer& renderer) {
        const int32_t id = some_prompt[0];
        scoria_embed_options last{};
        last.size = sizeof last;
        last.pooling = SCORIA_POOL_LAST;
        last.raw = 1;
        std::vector<float> expected(4096);
        size_t count = 0;
        REQUIRE_OK(
            scoria_session_embed(loaded.session, &id, 1, &last, expected.data(), expected.size(), &count));
        expected.resize(count);
        REQUIRE_OK(scoria_session_append(loaded.session, &id, 1));
        CHECK(renderer.read(share(loaded.session, SCORIA_SHARE_HIDDEN)) == expected);
    });
}

TEST_CASE("a session waits for its host's semaphore" * needs_fixtures()) {
    beside_renderer([](const Loaded& loaded, Renderer& renderer) {
        REQUIRE_OK(scoria_session_wait(loaded.session, renderer.semaphore(), 7));
        std::atomic<bool> done{false};
        scoria_status appended = SCORIA_FAILED;
        std::thread computing([&] {
            appended = scoria_session_append(loaded.session, some_prompt.data(), some_prompt.size());
            done = true;
        });
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        CHECK(!done);
        renderer.signal(7);
        computing.join();
        CHECK(appended == SCORIA_OK);
        // Waiting is once.
        CHECK(scoria_session_wait(loaded.session, VK_NULL_HANDLE, 0) == SCORIA_OK);
        CHECK(generated(loaded.session, some_prompt, 2).size() == some_prompt.size() + 2);
    });
}

TEST_CASE("what heads attend to is watched while an answer comes" * needs_fixtures()) {
    VulkanHost host({});
    {
        scoria_engine_options options = deterministic();
        options.vulkan = host.description();
        const Loaded loaded(options);
        Renderer renderer(host);
        const std::vector<int32_t> expected = generated(loaded.session, some_prompt, 6);
        struct Watcher {
            Renderer& renderer;
            scoria_session* session;
            std::vector<std::vector<float>> maps;
        };
        std::vector<std::vector<float>> of_layers;
        for (const uint32_t layer : {0u, 1u}) {
            REQUIRE_OK(scoria_session_watch(loaded.session, layer));
            REQUIRE_OK(scoria_session_replace(loaded.session, some_prompt.data(), some_prompt.size()));
            Watcher watcher{renderer, loaded.session, {}};
            scoria_generate_options generate = greedy(6);
            generate.user = &watcher;
            generate.on_attention = [](void* user, const scoria_shared* weights) {
                auto& to = *static_cast<Watcher*>(user);
                CHECK(weights->cols == some_prompt.size() + to.maps.size());
                CHECK(scoria_session_watch(to.session, SCORIA_NO_LAYER) == SCORIA_BUSY);
                to.maps.push_back(to.renderer.read(*weights));
            };
            REQUIRE_OK(scoria_session_generate(loaded.session, &generate, nullptr));
            std::vector<int32_t> ids(expected.size());
            size_t count = 0;
            REQUIRE_OK(scoria_session_tokens(loaded.session, ids.data(), ids.size(), &count));
            CHECK(ids == expected);
            REQUIRE(watcher.maps.size() == 6);
            for (size_t i = 0; i < watcher.maps.size(); ++i) {
                // The same as of the sequence computed anew: a prompt, and one token at a time.
                REQUIRE_OK(scoria_session_truncate(loaded.session, 0));
                REQUIRE_OK(scoria_session_append(loaded.session, expected.data(), some_prompt.size() + i));
                const scoria_shared shared = share(loaded.session, SCORIA_SHARE_ATTENTION);
                CHECK(renderer.read(shared) == watcher.maps[i]);
                for (uint32_t head = 0; head < shared.rows; ++head) {
                    double sum = 0;
                    for (uint32_t key = 0; key < shared.cols; ++key)
                        sum += double(watcher.maps[i][head * shared.cols + key]);
                    CHECK(sum == doctest::Approx(1).epsilon(1e-5));
                }
            }
            of_layers.push_back(watcher.maps.back());
        }
        CHECK(of_layers[0] != of_layers[1]);
        // Evicted, restored and computed anew.
        REQUIRE_OK(scoria_engine_evict(loaded.engine));
        CHECK(renderer.read(share(loaded.session, SCORIA_SHARE_ATTENTION)) == of_layers[1]);

        scoria_shared shared{};
        shared.size = sizeof shared;
        CHECK(scoria_session_watch(loaded.session, 77) == SCORIA_BAD_ARGUMENT);
        REQUIRE_OK(scoria_session_watch(loaded.session, SCORIA_NO_LAYER));
        CHECK(scoria_session_share(loaded.session, SCORIA_SHARE_ATTENTION, &shared) == SCORIA_BAD_ARGUMENT);
        scoria_generate_options generate = greedy(1);
        generate.on_attention = [](void*, const scoria_shared*) {};
        CHECK(scoria_session_generate(loaded.session, &generate, nullptr) == SCORIA_BAD_ARGUMENT);
    }
    host.destroy_device();
    for (const std::string& error : host.errors()) FAIL_CHECK(error);
}

TEST_CASE("another device reads what was computed, in memory that the host exports" * needs_fixtures()) {
    VulkanHost host({.exports = true}), other({.exports = true});
    if (!host.exports()) {
        MESSAGE("skipped: this device's memory cannot be exported as files");
        return;
    }
    {
        scoria_engine_options options = engine_options(tiny_model());
        options.vulkan = host.description();
        scoria_engine* refused = nullptr;
        for (const auto& [types, status] :
             {std::pair(3u, SCORIA_BAD_ARGUMENT),
              {uint32_t{VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT}, SCORIA_UNSUPPORTED}}) {
            host.description()->export_memory = types;  // the second is for import alone, on any device
            CHECK(scoria_engine_create(&options, &refused) == status);
        }
        host.description()->export_memory = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
        const Loaded loaded(options);
        Renderer here(host), there(other);
        REQUIRE_OK(scoria_session_watch(loaded.session, 1));
        REQUIRE_OK(scoria_session_append(loaded.session, some_prompt.data(), some_prompt.size()));
        std::vector<scoria_shared> imported;
        for (const uint32_t what : {SCORIA_SHARE_LOGITS, SCORIA_SHARE_HIDDEN, SCORIA_SHARE_ATTENTION}) {
            const scoria_shared shared = share(loaded.session, what);
            REQUIRE(shared.memory != VK_NULL_HANDLE);
            imported.push_back(there.import(here.exported(shared), shared));
            CHECK(there.read(imported.back()) == here.read(shared));
        }
        // It is the same memory: the next token's values are there, too.
        const std::vector<float> before = there.read(imported[0]);
        const scoria_generate_options one = greedy(1);
        REQUIRE_OK(scoria_session_generate(loaded.session, &one, nullptr));
        const std::vector<float> logits = logits_of(loaded.session);
        CHECK(there.read(imported[0]) == logits);
        CHECK(before != logits);
    }
    for (VulkanHost* const device : {&host, &other}) {
        device->destroy_device();
        for (const std::string& error : device->errors()) FAIL_CHECK(error);
    }
}

TEST_CASE("what cannot be shared is said" * needs_fixtures()) {
    scoria_shared shared{};
    shared.size = sizeof shared;
    const Loaded own;
    REQUIRE_OK(scoria_session_append(own.session, some_prompt.data(), some_prompt.size()));
    CHECK(scoria_session_share(own.session, SCORIA_SHARE_LOGITS, &shared) == SCORIA_UNSUPPORTED);
    CHECK(scoria_session_wait(own.session, VK_NULL_HANDLE, 0) == SCORIA_UNSUPPORTED);
    CHECK(scoria_session_watch(own.session, 0) == SCORIA_UNSUPPORTED);
    VulkanHost host({});
    {
        scoria_engine_options options = engine_options(tiny_model());
        options.vulkan = host.description();
        const Loaded loaded(options);
        CHECK(scoria_session_share(loaded.session, SCORIA_SHARE_LOGITS, &shared) == SCORIA_BAD_ARGUMENT);
        CHECK(scoria_session_share(loaded.session, 77, &shared) == SCORIA_BAD_ARGUMENT);
    }
    {
        const std::string encoder = fixtures() + "/gguf/bert.gguf";
        scoria_engine_options options = engine_options(encoder);
        options.vulkan = host.description();
        const Loaded loaded(options);
        CHECK(scoria_session_share(loaded.session, SCORIA_SHARE_HIDDEN, &shared) == SCORIA_UNSUPPORTED);
        CHECK(scoria_session_watch(loaded.session, 0) == SCORIA_UNSUPPORTED);
    }
    {
        const std::string chunks = fixtures() + "/models/reformer";
        scoria_engine_options options = engine_options(chunks);
        options.vulkan = host.description();
        const Loaded loaded(options);
        CHECK(scoria_session_watch(loaded.session, 0) == SCORIA_UNSUPPORTED);
    }
    host.destroy_device();
}
