// A Vulkan device, of our own or a host's: loader, instance, device, queues, allocator. Entry points live in
// per-device tables, never in globals, so several devices (and the host's own Vulkan) coexist.
#pragma once

#include "caps.h"
#include "fail.h"
#include "host_device.h"
#include "memory_gate.h"

#ifndef VK_NO_PROTOTYPES
#define VK_NO_PROTOTYPES
#endif
#include <volk.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

typedef struct VmaAllocator_T* VmaAllocator;

namespace scoria::vk {

struct DeviceOptions {
    std::string select;  // "": best by type; an index of list_devices(); or part of a name, case-insensitive
    std::string caps_profile;  // "": none; else path of a JSON profile that narrows the caps (tests/profiles)
    std::string cache_folder;  // "": pipelines are not kept on disk; programs pass scoria::cache_folder()
    bool validation = false;   // by VK_LAYER_KHRONOS_validation (core + synchronisation); errors are counted
    bool races = false;        // that layer looks for data races in shared memory instead: since 1.4.350
    bool capture_statistics = false;  // of pipelines (Pipelines::reports); slows their creation
    bool poison = false;              // tests: new buffers are filled with a pattern
    uint32_t poison_word = 0x7FC0DEAD;
    std::shared_ptr<const HostDevice> host;  // null: a device of our own, by `select`
    MemoryRules memory;
};

/// Every physical device, in the loader's order. `caps` of a device that cannot be queried is marked
/// unusable with the reason. Errors: unsupported, when there is no Vulkan loader or no driver.
struct ListedDevice {
    Caps caps;
    std::string unusable;           // empty if usable
    bool chosen = false;            // what DeviceOptions{} would pick
    std::optional<size_t> same_as;  // an earlier entry that is the same GPU under another driver
};
std::vector<ListedDevice> list_devices();

/// Memory of one heap as the driver reports it (VK_EXT_memory_budget where present, else the heap size).
struct HeapState {
    uint64_t size, budget, usage;
    uint64_t ours;  // bytes our allocator holds there
    bool device_local;
};

enum class QueueKind : uint8_t { compute, transfer };

class Commands;

class Device {
  public:
    explicit Device(const DeviceOptions& options = {});
    ~Device();
    /// A new VkDevice in place of a lost one, of the same GPU. No Buffer and no Commands of the old one may
    /// be left; `before` runs when the new one stands, and takes down what else is (pipelines). Errors:
    /// device_lost, when the GPU does not come back or the device is a host's: all is then as before.
    void reopen(const std::function<void()>& before);
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    const Caps& caps() const;
    const VolkDeviceTable& fn() const;
    VkDevice handle() const;
    VmaAllocator allocator() const;
    /// For every vkCreate... and vkDestroy... of an object of the device: the host's, or null.
    const VkAllocationCallbacks* callbacks() const;
    const DeviceOptions& options() const;
    std::vector<HeapState> heaps() const;
    uint32_t queue_family(QueueKind kind) const;
    bool has_transfer_queue() const;  // a queue of a family other than compute's
    /// Gives back what the allocator keeps for later. No Buffer may be left, and no other call may run.
    void trim();

    /// Submits in order on one queue; returns the timeline value that is reached when all are done.
    /// `wait` (a value of either queue's timeline) holds the submission back until then. Thread-safe.
    struct Ticket {
        QueueKind queue = QueueKind::compute;
        uint64_t value = 0;
    };
    Ticket submit(std::span<const VkCommandBuffer> commands, QueueKind queue = QueueKind::compute,
                  std::optional<Ticket> wait = std::nullopt);
    /// What a submission waits for or signals: a value of a timeline semaphore.
    struct TimelinePoint {
        VkSemaphore semaphore = VK_NULL_HANDLE;
        uint64_t value = 0;
    };
    /// The same on the compute queue, held back until a host's semaphore says so.
    Ticket submit_after(std::span<const VkCommandBuffer> commands, const TimelinePoint& wait);
    /// For the host's own submissions to wait for.
    TimelinePoint point(Ticket ticket) const;
    /// Waits on the host. Errors: device_lost; timeout, when `limit` passes (the work goes on).
    void wait(Ticket ticket, std::chrono::nanoseconds limit = std::chrono::seconds(60));
    bool done(Ticket ticket);

    uint64_t validation_errors() const;                    // messages of severity error since creation
    std::vector<std::string> validation_messages() const;  // the first 100 of them

    struct Impl;
    Impl& impl() const { return *impl_; }  // for platform/vulkan only

  private:
    std::unique_ptr<Impl> impl_;
};

/// Throws Error naming the call and the VkResult (device_lost, out_of_device_memory, ... or failed).
void check(VkResult result, const char* call);
/// "VK_TIMEOUT", or its number.
std::string result_text(VkResult result);
/// What check() would throw with.
Status status_of(VkResult result);

}  // namespace scoria::vk
