// A device that a host made and keeps: what it enabled, and how its queue is shared.
#pragma once

#ifndef VK_NO_PROTOTYPES
#define VK_NO_PROTOTYPES
#endif
#include <volk.h>

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace scoria::vk {

/// Feature structs by type, as bytes.
using FeatureStructs = std::map<VkStructureType, std::vector<std::byte>>;

/// Copies the feature structs of a pNext chain that Scoria knows; others are passed over.
FeatureStructs copy_features(const void* chain);

/// Sets the features in the chain of `base`, all off so far, that `enabled` has: by the same struct, or by
/// one that was promoted into it or out of it.
void apply_features(const FeatureStructs& enabled, VkPhysicalDeviceFeatures2& base);

struct HostDevice {
    PFN_vkGetInstanceProcAddr get_instance_proc = nullptr;
    VkInstance instance = VK_NULL_HANDLE;
    VkPhysicalDevice physical = VK_NULL_HANDLE;
    VkDevice device = VK_NULL_HANDLE;
    VkQueue queue = VK_NULL_HANDLE;
    uint32_t queue_family = 0;
    uint32_t api_version = 0;             // of the instance
    std::vector<std::string> extensions;  // enabled on the device
    FeatureStructs features;              // enabled on the device
    std::function<void()> lock, unlock;   // around every use of the queue; may be empty
    std::optional<VkAllocationCallbacks> allocator;
    VkExternalMemoryHandleTypeFlags exports = 0;  // one bit: as what the host may export MemoryUse::shared
};

}  // namespace scoria::vk
