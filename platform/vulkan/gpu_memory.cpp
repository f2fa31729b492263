// Buffers through VMA: one VkBuffer each, dedicated memory for large ones.
#include "gpu_memory.h"
#include "device_impl.h"
#include "vma.h"

#include <algorithm>
#include <cstring>

namespace scoria::vk {
namespace {

constexpr uint64_t dedicated_from = 4ull << 20;  // bytes; below it buffers share blocks

VmaAllocationCreateInfo memory_for(MemoryUse use, const Caps& caps, uint64_t bytes) {
    VmaAllocationCreateInfo info{};
    if (bytes >= dedicated_from) info.flags = VMA_ALLOCATION_CREATE_DEDICATED_MEMORY_BIT;
    constexpr VkMemoryPropertyFlags coherent = VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    switch (use) {
    case MemoryUse::device:
    case MemoryUse::shared:
        info.usage = VMA_MEMORY_USAGE_AUTO_PREFER_DEVICE;
        // Required, or else VMA takes the host's memory without a word where the device's is full.
        info.requiredFlags = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
        if (caps.unified_memory) {
            info.flags |=
                VMA_ALLOCATION_CREATE_HOST_ACCESS_SEQUENTIAL_WRITE_BIT | VMA_ALLOCATION_CREATE_MAPPED_BIT;
            info.requiredFlags |= coherent;
        }
        break;
    case MemoryUse::staging:
        info.usage = VMA_MEMORY_USAGE_AUTO_PREFER_HOST;
        info.flags |=
            VMA_ALLOCATION_CREATE_HOST_ACCESS_SEQUENTIAL_WRITE_BIT | VMA_ALLOCATION_CREATE_MAPPED_BIT;
        info.requiredFlags = coherent;
        break;
    case MemoryUse::readback:
        info.usage = VMA_MEMORY_USAGE_AUTO_PREFER_HOST;
        info.flags |= VMA_ALLOCATION_CREATE_HOST_ACCESS_RANDOM_BIT | VMA_ALLOCATION_CREATE_MAPPED_BIT;
        info.requiredFlags = coherent;
        break;
    case MemoryUse::none:
        break;
    }
    return info;
}

[[noreturn]] void fail_allocation(const Device& device, VkResult result, uint64_t bytes, MemoryUse use,
                                  std::string_view refusal) {
    const Status status = status_of(result);
    if (status != Status::out_of_host_memory && status != Status::out_of_device_memory)
        check(result, "vmaCreateBuffer");
    const bool local = use == MemoryUse::device || use == MemoryUse::shared;
    std::string heaps;
    for (const HeapState& heap : device.heaps())
        if (heap.device_local == local || device.caps().unified_memory)
            heaps += cat(heaps.empty() ? "" : "; ", heap.usage, " of ", heap.budget, " bytes in use");
    fail(status, "memory", "cannot allocate ", bytes, " bytes of ", local ? "device" : "host-visible",
         " memory (", heaps, ")", refusal.empty() ? "" : ": ", refusal);
}

}  // namespace

VkBufferUsageFlags buffer_usage(const Caps& caps) {
    VkBufferUsageFlags usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                               VK_BUFFER_USAGE_TRANSFER_DST_BIT;
    if (caps.texel_words) usage |= VK_BUFFER_USAGE_UNIFORM_TEXEL_BUFFER_BIT;
    if (caps.uniform_scalars) usage |= VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT;
    return usage;
}

struct Buffer::Impl {
    Device& device;
    VkBuffer handle = VK_NULL_HANDLE;
    VmaAllocation allocation = nullptr;
    uint64_t size;
    std::byte* mapped = nullptr;
    Memory exportable;

    Impl(Device& on, uint64_t bytes, MemoryUse use) : device(on), size(bytes) {
        const Caps& caps = on.caps();
        if (bytes == 0 || bytes > caps.max_allocation)
            fail(Status::unsupported, "memory", "expected a buffer of 1 to ", caps.max_allocation,
                 " bytes, got ", bytes);
        if (use == MemoryUse::none) return;
        const uint32_t families[2] = {on.queue_family(QueueKind::compute),
                                      on.queue_family(QueueKind::transfer)};
        auto info = vk_struct<VkBufferCreateInfo>(VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO);
        info.size = (bytes + 3) / 4 * 4;  // fills and copies of whole words
        info.usage = buffer_usage(caps);
        // Two families share buffers without ownership transfers.
        info.sharingMode = on.has_transfer_queue() ? VK_SHARING_MODE_CONCURRENT : VK_SHARING_MODE_EXCLUSIVE;
        info.queueFamilyIndexCount = on.has_transfer_queue() ? 2 : 0;
        info.pQueueFamilyIndices = families;
        VmaAllocationCreateInfo memory = memory_for(use, caps, bytes);
        VmaAllocationInfo placed{};
        const HostDevice* const host = on.options().host.get();
        const VkExternalMemoryHandleTypeFlags exports = use == MemoryUse::shared && host ? host->exports : 0;
        auto exported =
            vk_struct<VkExternalMemoryBufferCreateInfo>(VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO);
        exported.handleTypes = exports;
        if (exports) {  // memory of its own, which Vulkan does not call dedicated
            info.pNext = &exported;
            memory.flags |= VMA_ALLOCATION_CREATE_DEDICATED_MEMORY_BIT | VMA_ALLOCATION_CREATE_CAN_ALIAS_BIT;
        }
        const MemoryGate::Entered gate(on.impl().gate, exports);
        VkResult result = vmaCreateBuffer(on.allocator(), &info, &memory, &handle, &allocation, &placed);
        if (result == VK_ERROR_FEATURE_NOT_PRESENT && use == MemoryUse::readback) {
            // Cached and coherent memory is common but not promised; write-combined is.
            memory.flags ^= VMA_ALLOCATION_CREATE_HOST_ACCESS_RANDOM_BIT |
                            VMA_ALLOCATION_CREATE_HOST_ACCESS_SEQUENTIAL_WRITE_BIT;
            result = vmaCreateBuffer(on.allocator(), &info, &memory, &handle, &allocation, &placed);
        }
        if (result != VK_SUCCESS) fail_allocation(on, result, bytes, use, gate.refusal());
        mapped = static_cast<std::byte*>(placed.pMappedData);
        if (exports) exportable = {placed.deviceMemory, placed.size, placed.memoryType};
    }
    ~Impl() {
        if (!handle || !device.impl().may_free()) return;
        const MemoryGate::Entered gate(device.impl().gate);
        vmaDestroyBuffer(device.allocator(), handle, allocation);
    }
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;

    void poison() {
        const uint32_t word = device.options().poison_word;
        if (mapped) {
            for (uint64_t i = 0; i < size; i += 4)
                std::memcpy(mapped + i, &word, std::min<uint64_t>(4, size - i));
        } else {
            run_once(device, [&](VkCommandBuffer commands) {
                device.fn().vkCmdFillBuffer(commands, handle, 0, VK_WHOLE_SIZE, word);
            });
        }
    }
};

Buffer::Buffer(Device& device, uint64_t bytes, MemoryUse use)
    : impl_(std::make_unique<Impl>(device, bytes, use)) {
    if (device.options().poison && use != MemoryUse::none) impl_->poison();
}
Buffer::Buffer() = default;
Buffer::~Buffer() = default;
Buffer::Buffer(Buffer&&) noexcept = default;
Buffer& Buffer::operator=(Buffer&&) noexcept = default;

View Buffer::view() const { return impl_ ? View{impl_->handle, 0, impl_->size} : View{}; }
Memory Buffer::exportable() const { return impl_ ? impl_->exportable : Memory{}; }
uint64_t Buffer::size() const { return impl_ ? impl_->size : 0; }
std::span<std::byte> Buffer::mapped() const {
    if (!impl_ || !impl_->mapped) return {};
    return {impl_->mapped, size_t(impl_->size)};
}

}  // namespace scoria::vk
