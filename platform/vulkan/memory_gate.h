// What a host has to say about device memory: asked before each vkAllocateMemory, told of each vkFreeMemory.
// The allocator calls our versions of the two, which find the gate through the thread that entered it.
#pragma once

#ifndef VK_NO_PROTOTYPES
#define VK_NO_PROTOTYPES
#endif
#include <volk.h>

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>

namespace scoria::vk {

/// One piece of memory (VkDeviceMemory), and what there is beside it.
struct MemoryPiece {
    uint64_t bytes = 0;
    bool device_local = false;
    uint64_t in_use = 0;  // bytes of all other pieces of this device's
    uint32_t count = 0;   // of them
};

struct MemoryRules {
    std::function<bool(const MemoryPiece&)> may_allocate;  // false refuses; empty: always
    std::function<void(const MemoryPiece&)> freed;
    uint32_t most_pieces = 0;  // 0: maxMemoryAllocationCount, on a host's device half of it
};

/// Thread-safe; the rules' functions are called without a lock of its own, under the allocator's.
class MemoryGate {
  public:
    /// Before the first use. `memory`: of the device's memory types.
    void open(const MemoryRules& rules, uint32_t most_pieces, const VolkDeviceTable& fn,
              const VkPhysicalDeviceMemoryProperties& memory);

    /// While it lives, the allocator's calls on this thread are of `gate`.
    class Entered {
      public:
        /// `exports`: the handle types that memory allocated meanwhile can be exported as.
        explicit Entered(MemoryGate& gate, VkExternalMemoryHandleTypeFlags exports = 0);
        ~Entered();
        Entered(const Entered&) = delete;
        /// Why memory was refused meanwhile; "" if it was not, or by the driver alone.
        const char* refusal() const;

      private:
        friend class MemoryGate;
        MemoryGate& gate_;
        const VkExternalMemoryHandleTypeFlags exports_;
        const Entered* const before_;
    };
    /// Whether this thread runs one of the rules' functions: the allocator must not be called then.
    static bool asking();

    static VKAPI_ATTR VkResult VKAPI_CALL allocate(VkDevice device, const VkMemoryAllocateInfo* info,
                                                   const VkAllocationCallbacks* callbacks,
                                                   VkDeviceMemory* memory);
    static VKAPI_ATTR void VKAPI_CALL free(VkDevice device, VkDeviceMemory memory,
                                           const VkAllocationCallbacks* callbacks);

  private:
    bool enter(MemoryPiece& piece);
    /// After the host knew of it.
    void give_back(MemoryPiece piece);
    void leave(MemoryPiece& piece);

    MemoryRules rules_;
    uint32_t most_pieces_ = 0;
    PFN_vkAllocateMemory allocate_ = nullptr;
    PFN_vkFreeMemory free_ = nullptr;
    VkPhysicalDeviceMemoryProperties memory_{};
    std::mutex mutex_;  // guards what follows
    uint64_t in_use_ = 0;
    uint32_t count_ = 0;
    std::map<VkDeviceMemory, MemoryPiece> pieces_;
};

}  // namespace scoria::vk
