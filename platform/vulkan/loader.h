// The Vulkan loader opened at run time, and one instance with its entry points in a table of its own.
#pragma once

#include "device.h"

#include <mutex>

namespace scoria::vk {

// Core 1.2 instance entry points that Scoria calls; debug utils only where that extension is enabled.
#define SCORIA_INSTANCE_FUNCTIONS(X)             \
    X(DestroyInstance)                           \
    X(EnumeratePhysicalDevices)                  \
    X(EnumerateDeviceExtensionProperties)        \
    X(GetPhysicalDeviceProperties2)              \
    X(GetPhysicalDeviceFeatures2)                \
    X(GetPhysicalDeviceMemoryProperties2)        \
    X(GetPhysicalDeviceQueueFamilyProperties)    \
    X(GetPhysicalDeviceExternalBufferProperties) \
    X(CreateDevice)                              \
    X(CreateDebugUtilsMessengerEXT)              \
    X(DestroyDebugUtilsMessengerEXT)

/// A zeroed Vulkan structure of this type. (`{type}` alone warns of every member it leaves out.)
template <class Struct> Struct vk_struct(VkStructureType type) {
    Struct made{};
    made.sType = type;
    return made;
}

struct InstanceTable {
#define SCORIA_MEMBER(name) PFN_vk##name name = nullptr;
    SCORIA_INSTANCE_FUNCTIONS(SCORIA_MEMBER)
#undef SCORIA_MEMBER
};

/// What the validation layer looks for: wrong calls and hazards between them, or, in shared memory of
/// workgroups, data races (as errors, too).
enum class Validation : uint8_t { none, usual, races };

/// What the validation layer said. Filled from any thread that calls Vulkan.
struct ValidationLog {
    std::mutex mutex;
    uint64_t errors = 0;
    std::vector<std::string> messages;  // the first 100 errors
};

class Instance {
  public:
    /// Errors: unsupported (no loader, no driver, too old, no validation layer when asked for, or one too
    /// old).
    explicit Instance(Validation validation);
    /// The host's, which stays its own. Errors: unsupported (an entry point that Scoria calls is missing).
    explicit Instance(const HostDevice& host);
    ~Instance();
    Instance(const Instance&) = delete;
    Instance& operator=(const Instance&) = delete;

    VkInstance handle() const { return handle_; }
    const InstanceTable& fn() const { return fn_; }
    PFN_vkGetInstanceProcAddr get_instance_proc() const { return get_instance_proc_; }
    PFN_vkGetDeviceProcAddr get_device_proc() const { return get_device_proc_; }
    ValidationLog& validation_log() { return *log_; }
    std::vector<VkPhysicalDevice> physical_devices() const;

  private:
    void load_functions();

    const bool owned_;
    PFN_vkGetInstanceProcAddr get_instance_proc_ = nullptr;
    PFN_vkGetDeviceProcAddr get_device_proc_ = nullptr;
    VkInstance handle_ = VK_NULL_HANDLE;
    VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
    InstanceTable fn_;
    std::unique_ptr<ValidationLog> log_ = std::make_unique<ValidationLog>();
};

/// Device entry points, through `get`: volk's own function goes through a global pointer.
void load_device_table(VolkDeviceTable& table, VkDevice device, PFN_vkGetDeviceProcAddr get);

}  // namespace scoria::vk
