// volk as one translation unit. Only its generated loader of device tables is used; its globals, named as
// Vulkan's own functions, stay unset and are hidden by the build's visibility preset.
#include "loader.h"

#include <volk.c>

namespace scoria::vk {

void load_device_table(VolkDeviceTable& table, VkDevice device, PFN_vkGetDeviceProcAddr get) {
    struct Context {
        VkDevice device;
        PFN_vkGetDeviceProcAddr get;
    } context{device, get};
    volkGenLoadDeviceTable(&table, &context, [](void* opaque, const char* name) {
        const auto& from = *static_cast<Context*>(opaque);
        return from.get(from.device, name);
    });
}

}  // namespace scoria::vk
