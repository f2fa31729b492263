// Creation of the device with exactly the features of its caps, its queues and timelines, submission.
#include "device.h"
#include "device_impl.h"
#include "feature_chain.h"
#include "file.h"
#include "log.h"
#include "reset_limit.h"
#include "vma.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>
#include <utility>

namespace scoria::vk {
namespace {

/// Destroys it, or leaves it to the process, instance and all, where commands may run on it for ever.
void let_go(std::unique_ptr<Device::Impl> impl) noexcept {
    if (impl->settle()) return;
    log(cat("the device ", impl->caps.name, " did not finish in time: what it computed with is never freed"));
    (void)impl.release();
}

struct HostQueueLock {
    const HostDevice* host;
    explicit HostQueueLock(const HostDevice* of) : host(of) {
        if (host && host->lock) host->lock();
    }
    ~HostQueueLock() {
        if (host && host->unlock) host->unlock();
    }
    HostQueueLock(const HostQueueLock&) = delete;
};

/// Dedicated memory would have to be imported with a buffer alike: no driver seen wants it for buffers.
void check_exports(const Instance& instance, const HostDevice& host, VkBufferUsageFlags usage) {
    auto info =
        vk_struct<VkPhysicalDeviceExternalBufferInfo>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_BUFFER_INFO);
    info.usage = usage;
    info.handleType = VkExternalMemoryHandleTypeFlagBits(host.exports);
    auto found = vk_struct<VkExternalBufferProperties>(VK_STRUCTURE_TYPE_EXTERNAL_BUFFER_PROPERTIES);
    instance.fn().GetPhysicalDeviceExternalBufferProperties(host.physical, &info, &found);
    constexpr VkExternalMemoryFeatureFlags wanted = VK_EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT,
                                           dedicated = VK_EXTERNAL_MEMORY_FEATURE_DEDICATED_ONLY_BIT;
    if ((found.externalMemoryProperties.externalMemoryFeatures & (wanted | dedicated)) != wanted)
        fail(Status::unsupported, "vulkan", "expected a handle type that buffers' memory can be exported as",
             " without being dedicated, got ", host.exports);
}

Validation validation_of(const DeviceOptions& options) {
    return options.races ? Validation::races : options.validation ? Validation::usual : Validation::none;
}

}  // namespace

Device::Impl::Impl(const DeviceOptions& wanted)
    : options(wanted), instance(wanted.host ? Instance(*wanted.host) : Instance(validation_of(wanted))) {
    options.host ? take_from_host() : choose_own();
    if (!options.caps_profile.empty())
        caps = narrowed(caps, read_file(options.caps_profile, 1 << 20), options.caps_profile);
    try {
        if (!options.host) create_device(query_queues(instance, physical));
        create_timelines();
        open_gate();
        create_allocator();
    } catch (...) {
        release();
        throw;
    }
}

void Device::Impl::choose_own() {
    const std::vector<VkPhysicalDevice> all = instance.physical_devices();
    std::vector<ListedDevice> listed;
    for (const VkPhysicalDevice each : all) listed.push_back(name_device(instance, each));
    // Only who is chosen is asked for more: drivers have crashed at that, and another's need not matter.
    for (std::set<size_t> asked;;) {
        const size_t index = choose_device(listed, options.select);
        physical = all[index];
        caps = listed[index].caps;
        if (!asked.insert(index).second) break;
        listed[index] = query_device(instance, physical);
    }
    is_hardware = !caps.is_cpu();  // whatever a profile says
}

void Device::Impl::take_from_host() {
    const HostDevice& host = *options.host;
    const ListedDevice listed = query_device(instance, host.physical, &host);
    if (!listed.unusable.empty())
        fail(Status::unsupported, "vulkan", "the host's device cannot be used: ", listed.unusable);
    physical = host.physical;
    caps = listed.caps;
    device = host.device;
    if (host.allocator) callbacks = &*host.allocator;
    if (host.exports) check_exports(instance, host, buffer_usage(caps));
    for (Queue& queue : queues) queue.family = host.queue_family;
    queues[0].handle = host.queue;
    load_device_table(fn, device, instance.get_device_proc());
}

Device::Impl::~Impl() { release(); }

/// Not vkDeviceWaitIdle: on a device that hangs it never returns, and a host's own work is none of our
/// business.
bool Device::Impl::settle() noexcept {
    for (const Queue& queue : queues) {
        if (!queue.timeline) continue;
        auto info = vk_struct<VkSemaphoreWaitInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO);
        info.semaphoreCount = 1;
        info.pSemaphores = &queue.timeline;
        info.pValues = &queue.submitted;
        const uint64_t limit = overdue ? 0 : uint64_t(std::chrono::nanoseconds(internal_wait_limit).count());
        const VkResult result = fn.vkWaitSemaphores(device, &info, limit);
        if (result != VK_SUCCESS && result != VK_ERROR_DEVICE_LOST) overdue = true;
    }
    return may_free() && !left;
}

bool Device::Impl::may_free() noexcept {
    if (!overdue) return true;
    for (Queue& queue : queues) {
        uint64_t value = 0;
        if (!queue.timeline) continue;
        const std::lock_guard lock(queue.mutex);
        const VkResult result = fn.vkGetSemaphoreCounterValue(device, queue.timeline, &value);
        if (result == VK_ERROR_DEVICE_LOST) continue;  // nothing runs any more
        if (result == VK_SUCCESS && value >= queue.submitted) continue;
        left = true;
        return false;
    }
    overdue = false;
    return true;
}

void Device::Impl::release() noexcept {
    if (vma) destroy_allocator(vma);
    if (!fn.vkDestroySemaphore) return;
    for (Queue& queue : queues) {
        for (const VkCommandPool pool : queue.spare_pools) fn.vkDestroyCommandPool(device, pool, callbacks);
        fn.vkDestroySemaphore(device, queue.timeline, callbacks);
    }
    if (!options.host) fn.vkDestroyDevice(device, nullptr);
}

void Device::Impl::create_device(const QueueFamilies& families) {
    has_transfer = families.transfer != families.compute;
    queues[0].family = families.compute;
    queues[1].family = families.transfer;
    const float priority = 1;
    VkDeviceQueueCreateInfo queue_infos[2];
    for (size_t i = 0; i < 2; ++i) {
        queue_infos[i] = vk_struct<VkDeviceQueueCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO);
        queue_infos[i].queueFamilyIndex = queues[i].family;
        queue_infos[i].queueCount = 1;
        queue_infos[i].pQueuePriorities = &priority;
    }
    const FeatureChain features(caps);
    auto info = vk_struct<VkDeviceCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO);
    info.pNext = &features.base;
    info.queueCreateInfoCount = has_transfer ? 2 : 1;
    info.pQueueCreateInfos = queue_infos;
    info.enabledExtensionCount = uint32_t(features.extensions.size());
    info.ppEnabledExtensionNames = features.extensions.data();
    check(instance.fn().CreateDevice(physical, &info, nullptr, &device), "vkCreateDevice");
    load_device_table(fn, device, instance.get_device_proc());
    for (size_t i = 0; i < info.queueCreateInfoCount; ++i)
        fn.vkGetDeviceQueue(device, queues[i].family, 0, &queues[i].handle);
}

void Device::Impl::create_timelines() {
    auto type = vk_struct<VkSemaphoreTypeCreateInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO);
    type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
    const VkSemaphoreCreateInfo semaphore{VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, &type, 0};
    for (Queue& queue : queues)
        if (queue.handle)
            check(fn.vkCreateSemaphore(device, &semaphore, callbacks, &queue.timeline), "vkCreateSemaphore");
}

void Device::Impl::open_gate() {
    auto properties = vk_struct<VkPhysicalDeviceProperties2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2);
    instance.fn().GetPhysicalDeviceProperties2(physical, &properties);
    auto memory =
        vk_struct<VkPhysicalDeviceMemoryProperties2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2);
    instance.fn().GetPhysicalDeviceMemoryProperties2(physical, &memory);
    const uint32_t limit = properties.properties.limits.maxMemoryAllocationCount;
    const uint32_t share = options.host ? limit / 2 : limit, wanted = options.memory.most_pieces;
    gate.open(options.memory, wanted ? std::min(wanted, limit) : share, fn, memory.memoryProperties);
}

void Device::Impl::create_allocator() {
    VmaVulkanFunctions functions{};
    functions.vkGetInstanceProcAddr = instance.get_instance_proc();
    functions.vkGetDeviceProcAddr = instance.get_device_proc();
    functions.vkAllocateMemory = MemoryGate::allocate;
    functions.vkFreeMemory = MemoryGate::free;
    VmaAllocatorCreateInfo info{};
    if (caps.memory_budget) info.flags = VMA_ALLOCATOR_CREATE_EXT_MEMORY_BUDGET_BIT;
    info.physicalDevice = physical;
    info.device = device;
    info.instance = instance.handle();
    info.vulkanApiVersion = VK_API_VERSION_1_2;
    info.pVulkanFunctions = &functions;
    info.pAllocationCallbacks = callbacks;
    // Blocks hold the small buffers; large ones are dedicated (gpu_memory.cpp).
    info.preferredLargeHeapBlockSize = std::min<uint64_t>(16ull << 20, caps.max_allocation);
    VmaAllocator made = nullptr;
    check(vmaCreateAllocator(&info, &made), "vmaCreateAllocator");
    vma = made;
}

void Device::Impl::destroy_allocator(VmaAllocator allocator) noexcept {
    const MemoryGate::Entered entered(gate);
    vmaDestroyAllocator(allocator);
}

VkCommandPool Device::Impl::take_command_pool(QueueKind kind) {
    Queue& from = queue(kind);
    {
        const std::lock_guard lock(from.mutex);
        if (!from.spare_pools.empty()) {
            const VkCommandPool pool = from.spare_pools.back();
            from.spare_pools.pop_back();
            return pool;
        }
    }
    auto info = vk_struct<VkCommandPoolCreateInfo>(VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO);
    info.queueFamilyIndex = from.family;
    VkCommandPool pool = VK_NULL_HANDLE;
    check(fn.vkCreateCommandPool(device, &info, callbacks, &pool), "vkCreateCommandPool");
    return pool;
}

void Device::Impl::give_command_pool(QueueKind kind, VkCommandPool pool) noexcept {
    constexpr size_t kept = 8;
    if (!may_free()) return;
    Queue& to = queue(kind);
    const std::lock_guard lock(to.mutex);
    if (to.spare_pools.size() < kept && fn.vkResetCommandPool(device, pool, 0) == VK_SUCCESS) {
        try {
            to.spare_pools.push_back(pool);
            return;
        } catch (const std::bad_alloc&) {
        }
    }
    fn.vkDestroyCommandPool(device, pool, callbacks);
}

Device::Device(const DeviceOptions& options) : impl_(std::make_unique<Impl>(options)) {}
Device::~Device() { let_go(std::move(impl_)); }

namespace {

void wait_for_reset_limit() {
    static std::mutex mutex;
    static ResetLimit limit;
    const std::lock_guard lock(mutex);
    const auto now = ResetLimit::Clock::now(), next = limit.next(now);
    if (next == now) return;
    log(cat("[vulkan] the device was lost often within a minute: it rests for ",
            std::chrono::duration_cast<std::chrono::seconds>(next - now).count(), " s"));
    std::this_thread::sleep_until(next);
}

}  // namespace

void Device::reopen(const std::function<void()>& before) {
    if (impl_->options.host)
        fail(Status::device_lost, "vulkan", "the host's device is lost: open on a new one");
    if (impl_->is_hardware) wait_for_reset_limit();
    std::unique_ptr<Impl> fresh;
    std::string why;
    // While an adapter restarts it may be missing, or another be found in its place.
    for (const int wait : {0, 100, 300, 1000, 3000}) {
        std::this_thread::sleep_for(std::chrono::milliseconds(wait));
        try {
            fresh = std::make_unique<Impl>(impl_->options);
            const Caps &came = fresh->caps, &was = impl_->caps;  // other drivers have the same UUID for it
            if (came.device_uuid == was.device_uuid && came.driver_id == was.driver_id) break;
            why = cat("expected \"", impl_->caps.name, "\" to come back, got \"", fresh->caps.name, '"');
            fresh.reset();
        } catch (const Error& error) {
            why = cat("the lost device cannot be opened again: ", error.what());
        }
    }
    if (!fresh) fail(Status::device_lost, "vulkan", why);
    before();
    let_go(std::exchange(impl_, std::move(fresh)));
}

const Caps& Device::caps() const { return impl_->caps; }
const VolkDeviceTable& Device::fn() const { return impl_->fn; }
VkDevice Device::handle() const { return impl_->device; }
VmaAllocator Device::allocator() const { return impl_->vma; }
const VkAllocationCallbacks* Device::callbacks() const { return impl_->callbacks; }
const DeviceOptions& Device::options() const { return impl_->options; }
uint32_t Device::queue_family(QueueKind kind) const { return impl_->queue(kind).family; }
bool Device::has_transfer_queue() const { return impl_->has_transfer; }

void Device::trim() {
    VmaBudget ours[VK_MAX_MEMORY_HEAPS]{};
    vmaGetHeapBudgets(impl_->vma, ours);
    for (const VmaBudget& heap : ours)
        if (heap.statistics.allocationCount) return;  // a device that hung may still use them
    const VmaAllocator before = impl_->vma;
    impl_->create_allocator();
    impl_->destroy_allocator(before);
}

std::vector<HeapState> Device::heaps() const {
    auto budget = vk_struct<VkPhysicalDeviceMemoryBudgetPropertiesEXT>(
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT);
    auto memory =
        vk_struct<VkPhysicalDeviceMemoryProperties2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2);
    if (impl_->caps.memory_budget) memory.pNext = &budget;
    impl_->instance.fn().GetPhysicalDeviceMemoryProperties2(impl_->physical, &memory);
    VmaBudget ours[VK_MAX_MEMORY_HEAPS]{};
    vmaGetHeapBudgets(impl_->vma, ours);
    std::vector<HeapState> states;
    for (uint32_t i = 0; i < memory.memoryProperties.memoryHeapCount; ++i) {
        const VkMemoryHeap& heap = memory.memoryProperties.memoryHeaps[i];
        HeapState state{heap.size, heap.size, ours[i].statistics.blockBytes, ours[i].statistics.blockBytes,
                        (heap.flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0};
        if (impl_->caps.memory_budget) {
            // Drivers have reported 0 and more than the heap holds.
            if (budget.heapBudget[i]) state.budget = std::min<uint64_t>(budget.heapBudget[i], heap.size);
            state.usage = std::max<uint64_t>(budget.heapUsage[i], state.ours);
        }
        states.push_back(state);
    }
    return states;
}

Device::Ticket Device::submit(std::span<const VkCommandBuffer> commands, QueueKind kind,
                              std::optional<Ticket> wait) {
    // One queue runs its submissions in order.
    const bool other = wait && &impl_->queue(wait->queue) != &impl_->queue(kind);
    return impl_->submit(kind, commands, other ? point(*wait) : TimelinePoint{});
}

Device::Ticket Device::submit_after(std::span<const VkCommandBuffer> commands, const TimelinePoint& wait) {
    return impl_->submit(QueueKind::compute, commands, wait);
}

Device::TimelinePoint Device::point(Ticket ticket) const {
    return {impl_->queue(ticket.queue).timeline, ticket.value};
}

Device::Ticket Device::Impl::submit(QueueKind kind, std::span<const VkCommandBuffer> commands,
                                    const TimelinePoint& wait) {
    Queue& to = queue(kind);
    const VkPipelineStageFlags stage = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    const std::lock_guard lock(to.mutex);
    const HostQueueLock host_lock(options.host.get());
    const uint64_t value = to.submitted + 1;
    auto timeline =
        vk_struct<VkTimelineSemaphoreSubmitInfo>(VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO);
    timeline.waitSemaphoreValueCount = wait.semaphore ? 1 : 0;
    timeline.pWaitSemaphoreValues = &wait.value;
    timeline.signalSemaphoreValueCount = 1;
    timeline.pSignalSemaphoreValues = &value;
    auto info = vk_struct<VkSubmitInfo>(VK_STRUCTURE_TYPE_SUBMIT_INFO);
    info.pNext = &timeline;
    info.waitSemaphoreCount = wait.semaphore ? 1 : 0;
    info.pWaitSemaphores = &wait.semaphore;
    info.pWaitDstStageMask = &stage;
    info.commandBufferCount = uint32_t(commands.size());
    info.pCommandBuffers = commands.data();
    info.signalSemaphoreCount = 1;
    info.pSignalSemaphores = &to.timeline;
    check(fn.vkQueueSubmit(to.handle, 1, &info, VK_NULL_HANDLE), "vkQueueSubmit");
    to.submitted = value;
    return {has_transfer ? kind : QueueKind::compute, value};
}

void Device::wait(Ticket ticket, std::chrono::nanoseconds limit) {
    auto info = vk_struct<VkSemaphoreWaitInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO);
    info.semaphoreCount = 1;
    info.pSemaphores = &impl_->queue(ticket.queue).timeline;
    info.pValues = &ticket.value;
    const VkResult result = impl_->fn.vkWaitSemaphores(impl_->device, &info, uint64_t(limit.count()));
    if (result != VK_SUCCESS && result != VK_ERROR_DEVICE_LOST) impl_->overdue = true;  // it may still run
    if (result == VK_TIMEOUT)
        fail(Status::timeout, "vulkan", "the device has not finished after ",
             std::chrono::duration_cast<std::chrono::milliseconds>(limit).count(), " ms");
    check(result, "vkWaitSemaphores");
}

bool Device::done(Ticket ticket) {
    uint64_t value = 0;
    check(impl_->fn.vkGetSemaphoreCounterValue(impl_->device, impl_->queue(ticket.queue).timeline, &value),
          "vkGetSemaphoreCounterValue");
    return value >= ticket.value;
}

uint64_t Device::validation_errors() const {
    ValidationLog& log = impl_->instance.validation_log();
    const std::lock_guard lock(log.mutex);
    return log.errors;
}

std::vector<std::string> Device::validation_messages() const {
    ValidationLog& log = impl_->instance.validation_log();
    const std::lock_guard lock(log.mutex);
    return log.messages;
}

void run_once(Device& device, const std::function<void(VkCommandBuffer)>& record) {
    Device::Impl& impl = device.impl();
    struct Once {
        Device::Impl& impl;
        VkCommandPool pool;
        VkCommandBuffer handle = VK_NULL_HANDLE;
        ~Once() {
            if (!impl.may_free()) return;
            impl.fn.vkFreeCommandBuffers(impl.device, pool, 1, &handle);
            impl.give_command_pool(QueueKind::compute, pool);
        }
    } commands{impl, impl.take_command_pool(QueueKind::compute)};
    auto allocate = vk_struct<VkCommandBufferAllocateInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO);
    allocate.commandPool = commands.pool;
    allocate.commandBufferCount = 1;
    check(impl.fn.vkAllocateCommandBuffers(impl.device, &allocate, &commands.handle),
          "vkAllocateCommandBuffers");
    auto begin = vk_struct<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
    begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
    check(impl.fn.vkBeginCommandBuffer(commands.handle, &begin), "vkBeginCommandBuffer");
    record(commands.handle);
    check(impl.fn.vkEndCommandBuffer(commands.handle), "vkEndCommandBuffer");
    device.wait(device.submit(std::span(&commands.handle, 1)), internal_wait_limit);
}

}  // namespace scoria::vk
