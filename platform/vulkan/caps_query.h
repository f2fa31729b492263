// Reads a physical device into Caps.
#pragma once

#include "loader.h"

namespace scoria::vk {

/// A device by its name, type and driver alone, and whether its version of Vulkan is too low.
ListedDevice name_device(const Instance& instance, VkPhysicalDevice device, const HostDevice* host = nullptr);

/// A device as list_devices() shows it; of a host's, what that enabled. Never throws for a poor device: the
/// reason is in `unusable`.
ListedDevice query_device(const Instance& instance, VkPhysicalDevice device,
                          const HostDevice* host = nullptr);

/// The queue families to use. `transfer` equals `compute` where no other family transfers.
struct QueueFamilies {
    uint32_t compute = UINT32_MAX, transfer = UINT32_MAX;
    uint32_t timestamp_bits = 0;  // of the compute family
};
QueueFamilies query_queues(const Instance& instance, VkPhysicalDevice device,
                           const HostDevice* host = nullptr);

/// Index of the device that `select` asks for (DeviceOptions::select). Pure.
/// Errors: unsupported (nothing usable), bad_argument (no such device).
size_t choose_device(const std::vector<ListedDevice>& devices, const std::string& select);

/// Sets ListedDevice::same_as where an earlier entry is the same GPU under another driver. Pure.
void mark_duplicates(std::vector<ListedDevice>& devices);

}  // namespace scoria::vk
