// A queue family more: SCORIA_LAYER_FAMILY="compute" or "transfer" adds one behind those of the device, with
// one queue that can do that alone and presents nothing. Below the layer its work goes to the first queue of
// the first family: what waits on the device must be submitted after what it waits for.
#pragma once

#include <vulkan/vulkan.h>

#include <cstdint>
#include <mutex>
#include <string_view>
#include <type_traits>
#include <vector>

namespace scoria_layer {

/// What SCORIA_LAYER_FAMILY asks for; 0 if nothing. Throws std::runtime_error for anything else.
VkQueueFlags added_family(std::string_view text);

/// The added family of one device. Without one everything is handed on as it is.
class SecondFamily {
  public:
    static constexpr uint32_t none = ~0u;
    explicit SecondFamily(uint32_t index) : index_(index) {}
    SecondFamily(const SecondFamily&) = delete;

    bool is(uint32_t family) const { return index_ != none && family == index_; }
    bool wanted(const VkDeviceCreateInfo& info) const;
    /// What the device below is created with.
    std::vector<VkDeviceQueueCreateInfo> below(const VkDeviceCreateInfo& info) const;
    /// `first`: of family 0; `dispatch`: the loader's pointer of the device.
    void open(VkQueue first, void* dispatch) { queue_ = {dispatch, first}; }
    VkQueue queue() { return reinterpret_cast<VkQueue>(&queue_); }
    VkQueue below(VkQueue queue) { return queue == this->queue() ? queue_.first : queue; }
    /// Two queues above are one below.
    std::unique_lock<std::mutex> lock() {
        return index_ == none ? std::unique_lock<std::mutex>() : std::unique_lock(mutex_);
    }

  private:
    struct Queue {
        void* dispatch = nullptr;  // the loader's, as every dispatchable handle begins
        VkQueue first = VK_NULL_HANDLE;
    };
    uint32_t index_;
    Queue queue_;
    std::mutex mutex_;
};

/// The arguments of one call as the device below knows them.
class Below {
  public:
    explicit Below(SecondFamily& family) : family_(family) {}
    template <class Argument> Argument operator()(Argument argument) { return argument; }
    VkQueue operator()(VkQueue queue) { return family_.below(queue); }
    const VkCommandPoolCreateInfo* operator()(const VkCommandPoolCreateInfo* info);
    const VkBufferCreateInfo* operator()(const VkBufferCreateInfo* info);

  private:
    SecondFamily& family_;
    VkCommandPoolCreateInfo pool_{};
    VkBufferCreateInfo buffer_{};
};

}  // namespace scoria_layer
