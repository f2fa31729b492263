// Failures on demand: SCORIA_LAYER_FAIL="vkAllocateMemory:3:VK_ERROR_OUT_OF_DEVICE_MEMORY" makes the third
// call of that function (counted from the creation of the device) return that result without running;
// "3+" means the third and all later ones, "3!" the third of the first device that comes so far. Several are
// separated by commas. SIGKILL in the place of a result ends the process there, as a driver that crashes
// would; NOTHING there returns VK_SUCCESS without running, as drivers have been seen to make no pipeline.
#pragma once

#include <vulkan/vulkan.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace scoria_layer {

// Device functions of Vulkan 1.2 that return a VkResult and that Scoria or its allocator calls.
// clang-format off
#define SCORIA_FAILABLE(X) \
    X(AllocateMemory) \
    X(MapMemory) \
    X(BindBufferMemory) \
    X(BindBufferMemory2) \
    X(CreateBuffer) \
    X(CreateSemaphore) \
    X(CreateCommandPool) \
    X(ResetCommandPool) \
    X(AllocateCommandBuffers) \
    X(BeginCommandBuffer) \
    X(EndCommandBuffer) \
    X(CreateDescriptorPool) \
    X(AllocateDescriptorSets) \
    X(CreateDescriptorSetLayout) \
    X(CreatePipelineLayout) \
    X(CreateShaderModule) \
    X(CreatePipelineCache) \
    X(GetPipelineCacheData) \
    X(CreateComputePipelines) \
    X(CreateQueryPool) \
    X(GetQueryPoolResults) \
    X(QueueSubmit) \
    X(WaitSemaphores) \
    X(GetSemaphoreCounterValue) \
    X(DeviceWaitIdle)
// clang-format on

inline constexpr VkResult end_process = VkResult(-0x7FFFFFFF), no_work = VkResult(-0x7FFFFFFE);

enum class Failable : size_t {
#define X(name) name,
    SCORIA_FAILABLE(X)
#undef X
        count
};

/// The failures asked for, with the calls counted so far. Thread-safe once made.
class Faults {
  public:
    /// Throws std::runtime_error if `text` is not as described above.
    explicit Faults(std::string_view text);
    /// Counts a call; the result to return instead of running it, or VK_SUCCESS to run it.
    VkResult next(Failable function);

  private:
    struct Fault {
        uint64_t from = 0, to = 0;  // calls [from, to], counted from 1; none if 0
        VkResult result = VK_SUCCESS;
        bool once = false;  // in the process, not on each device
    };
    std::array<Fault, size_t(Failable::count)> faults_{};
    std::array<std::atomic<uint64_t>, size_t(Failable::count)> calls_{};
};

}  // namespace scoria_layer
