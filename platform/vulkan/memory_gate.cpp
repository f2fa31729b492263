// See memory_gate.h.
#include "memory_gate.h"

#include <new>

namespace scoria::vk {
namespace {

// Of the thread: the allocator's callbacks carry no context of ours.
thread_local const MemoryGate::Entered* entered = nullptr;
thread_local const char* refused_because = "";
thread_local bool asking_host = false;

struct AskingHost {
    AskingHost() { asking_host = true; }
    ~AskingHost() { asking_host = false; }
};

}  // namespace

void MemoryGate::open(const MemoryRules& rules, uint32_t most_pieces, const VolkDeviceTable& fn,
                      const VkPhysicalDeviceMemoryProperties& memory) {
    rules_ = rules;
    most_pieces_ = most_pieces;
    allocate_ = fn.vkAllocateMemory;
    free_ = fn.vkFreeMemory;
    memory_ = memory;
}

MemoryGate::Entered::Entered(MemoryGate& gate, VkExternalMemoryHandleTypeFlags exports)
    : gate_(gate), exports_(exports), before_(entered) {
    entered = this;
    refused_because = "";
}
MemoryGate::Entered::~Entered() { entered = before_; }
const char* MemoryGate::Entered::refusal() const { return refused_because; }
bool MemoryGate::asking() { return asking_host; }

bool MemoryGate::enter(MemoryPiece& piece) {
    {
        const std::lock_guard lock(mutex_);
        piece.in_use = in_use_;
        piece.count = count_;
        if (count_ >= most_pieces_) {
            refused_because = "as many pieces are allocated as may be (max_allocations)";
            return false;
        }
        ++count_;  // before the host is asked: others ask meanwhile
        in_use_ += piece.bytes;
    }
    if (!rules_.may_allocate) return true;
    const AskingHost asking_now;
    if (rules_.may_allocate(piece)) return true;
    refused_because = "the host refused";
    leave(piece);
    return false;
}

void MemoryGate::leave(MemoryPiece& piece) {
    const std::lock_guard lock(mutex_);
    piece.in_use = in_use_ -= piece.bytes;
    piece.count = --count_;
}

void MemoryGate::give_back(MemoryPiece piece) {
    leave(piece);
    if (!rules_.freed) return;
    const AskingHost asking_now;
    rules_.freed(piece);
}

VkResult MemoryGate::allocate(VkDevice device, const VkMemoryAllocateInfo* info,
                              const VkAllocationCallbacks* callbacks, VkDeviceMemory* memory) {
    MemoryGate& gate = entered->gate_;
    const VkMemoryType& type = gate.memory_.memoryTypes[info->memoryTypeIndex];
    MemoryPiece piece{.bytes = info->allocationSize,
                      .device_local = (type.propertyFlags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT) != 0};
    if (!gate.enter(piece)) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    const VkExportMemoryAllocateInfo exported{VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO, info->pNext,
                                              entered->exports_};
    VkMemoryAllocateInfo chained = *info;
    if (entered->exports_) chained.pNext = &exported;
    const VkResult result = gate.allocate_(device, &chained, callbacks, memory);
    if (result != VK_SUCCESS) {
        gate.give_back(piece);
        return result;
    }
    try {
        const std::lock_guard lock(gate.mutex_);
        gate.pieces_.emplace(*memory, piece);
        return result;
    } catch (const std::bad_alloc&) {
        gate.free_(device, *memory, callbacks);
        gate.give_back(piece);
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    }
}

void MemoryGate::free(VkDevice device, VkDeviceMemory memory, const VkAllocationCallbacks* callbacks) {
    MemoryGate& gate = entered->gate_;
    std::map<VkDeviceMemory, MemoryPiece>::node_type node;
    {  // first: once it is free, another thread's piece may have its handle
        const std::lock_guard lock(gate.mutex_);
        node = gate.pieces_.extract(memory);
    }
    gate.free_(device, memory, callbacks);
    if (!node) return;
    gate.give_back(node.mapped());
}

}  // namespace scoria::vk
