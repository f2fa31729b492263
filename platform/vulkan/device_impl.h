// The inside of Device, for platform/vulkan only.
#pragma once

#include "caps_query.h"
#include "loader.h"

#include <array>
#include <atomic>
#include <functional>
#include <mutex>

namespace scoria::vk {

/// Time after which any wait inside the platform gives up.
inline constexpr std::chrono::seconds internal_wait_limit{60};

struct Queue {
    uint32_t family = 0;
    VkQueue handle = VK_NULL_HANDLE;
    VkSemaphore timeline = VK_NULL_HANDLE;
    uint64_t submitted = 0;  // guarded by `mutex`, as the queue is
    std::mutex mutex;
    std::vector<VkCommandPool> spare_pools;  // reset, for the next Recorder; guarded by `mutex`
};

struct Device::Impl {
    DeviceOptions options;
    Instance instance;
    VkPhysicalDevice physical = VK_NULL_HANDLE;
    bool is_hardware = false;  // and its resets cost the whole machine
    Caps caps;
    VkDevice device = VK_NULL_HANDLE;
    VolkDeviceTable fn{};
    VmaAllocator vma = nullptr;
    const VkAllocationCallbacks* callbacks = nullptr;  // of the host
    MemoryGate gate;              // every call of `vma` that allocates or frees enters it
    std::array<Queue, 2> queues;  // by QueueKind
    bool has_transfer = false;

    explicit Impl(const DeviceOptions& wanted);
    ~Impl();
    std::atomic<bool> overdue = false;  // a wait failed: what was submitted may run for ever
    std::atomic<bool> left = false;     // something was left to the process, and so what it hangs on must be
    Queue& queue(QueueKind kind) { return queues[has_transfer ? size_t(kind) : 0]; }
    /// Waits for all that was submitted; false if it may run for ever, or something is left that did.
    bool settle() noexcept;
    /// Whether what commands may use can be destroyed: false while work that a wait gave up on still runs.
    /// Its objects are then left to the process.
    bool may_free() noexcept;

    VkCommandPool take_command_pool(QueueKind kind);
    void give_command_pool(QueueKind kind, VkCommandPool pool) noexcept;
    void create_allocator();
    void destroy_allocator(VmaAllocator allocator) noexcept;
    Ticket submit(QueueKind kind, std::span<const VkCommandBuffer> commands, const TimelinePoint& wait);

  private:
    void choose_own();
    void take_from_host();
    void create_device(const QueueFamilies& families);
    void create_timelines();
    void open_gate();
    void release() noexcept;
};

/// How every buffer of a device may be used.
VkBufferUsageFlags buffer_usage(const Caps& caps);

/// Records with `record`, submits to the compute queue and waits.
void run_once(Device& device, const std::function<void(VkCommandBuffer)>& record);

}  // namespace scoria::vk
