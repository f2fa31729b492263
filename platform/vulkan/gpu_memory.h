// Buffers on the device, through VMA. Every allocation is checked against maxMemoryAllocationSize
// and the heap, and every binding when it is recorded; callers shard by Caps::max_binding, so a larger
// binding is a bug.
#pragma once

#include "device.h"

#include <cassert>
#include <memory>
#include <span>

namespace scoria::vk {

enum class MemoryUse : uint8_t {
    device,    // device-local; host-visible too where memory is unified (see Buffer::mapped)
    staging,   // host-visible, write-combined: the host writes, the device copies, or reads in place
    readback,  // host-visible, cached: the device writes, the host reads
    shared,    // as device; memory of its own where HostDevice::exports says so, to be exported
    none,      // neither memory nor buffer: what a rehearsal has (RecorderOptions)
};

/// A byte range of a buffer. Does not own it.
struct View {
    VkBuffer buffer = VK_NULL_HANDLE;
    uint64_t offset = 0;
    uint64_t size = 0;
    View slice(uint64_t first, uint64_t bytes) const {
        assert(first <= size && bytes <= size - first);
        return {buffer, offset + first, bytes};
    }
};

/// Memory behind a buffer, for a host to export.
struct Memory {
    VkDeviceMemory handle = VK_NULL_HANDLE;
    uint64_t bytes = 0;
    uint32_t type = 0;
};

class Buffer {
  public:
    Buffer();
    /// Errors: out_of_device_memory (with the bytes asked for and the heap's budget).
    Buffer(Device& device, uint64_t bytes, MemoryUse use);
    ~Buffer();
    Buffer(Buffer&&) noexcept;
    Buffer& operator=(Buffer&&) noexcept;

    View view() const;
    View view(uint64_t offset, uint64_t bytes) const {
        assert(offset <= size() && bytes <= size() - offset);
        return view().slice(offset, bytes);
    }
    uint64_t size() const;
    /// What a MemoryUse::shared buffer is bound to the beginning of; none where it cannot be exported.
    Memory exportable() const;
    /// Host address, or empty if the memory is not host-visible. Coherent: no flush is needed.
    std::span<std::byte> mapped() const;
    explicit operator bool() const { return impl_ != nullptr; }

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace scoria::vk
