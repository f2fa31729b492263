/* For hosts that bring their own Vulkan device (scoria_engine_options.vulkan).
 *
 * All of these objects stay the host's: the library destroys none of them, never waits for the device or its
 * queues as a whole, and uses no feature or extension but those listed here as enabled. It needs Vulkan 1.2
 * and the feature timelineSemaphore; what else is enabled makes it faster: shaderFloat16,
 * storageBuffer16BitAccess, shaderInt8, shaderInt16, storageBuffer8BitAccess, vulkanMemoryModel with device
 * scope, subgroupSizeControl with computeFullSubgroups, shaderIntegerDotProduct, cooperativeMatrix,
 * VK_EXT_memory_budget.
 *
 * The objects must live until scoria_engine_destroy has returned SCORIA_OK; then none of the library's own
 * objects is left on the device. After SCORIA_DEVICE_LOST destroy the sessions and the engine first, too.
 * No self-test ever runs here; what one found before, on a device of the library's own, is heeded.
 * Memory: buffers of 4 MiB and more are one allocation each, smaller ones share blocks of up to 16 MiB. */
#ifndef SCORIA_VULKAN_H
#define SCORIA_VULKAN_H

#include "scoria.h"

#include <vulkan/vulkan_core.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct scoria_vulkan {
    size_t size;
    PFN_vkGetInstanceProcAddr get_instance_proc_addr;
    VkInstance instance;
    VkPhysicalDevice physical_device;
    VkDevice device;
    VkQueue queue;                 /* of queue_family */
    const char* const* extensions; /* enabled on the device */
    size_t extension_count;
    /* The pNext chain that the device was created with: VkPhysicalDeviceFeatures2, Vulkan11Features to
     * Vulkan13Features or the features' own structs; others are passed over. A device created with
     * pEnabledFeatures: those in a VkPhysicalDeviceFeatures2. Read by scoria_engine_create only. */
    const void* features;
    /* Around every submission, from any thread that calls the library; NULL if nobody else uses the queue.
     * They must not call the library. */
    void (*lock_queue)(void* user);
    void (*unlock_queue)(void* user);
    void* user;
    uint32_t api_version;  /* of the instance: VkApplicationInfo::apiVersion */
    uint32_t queue_family; /* with VK_QUEUE_COMPUTE_BIT */
} scoria_vulkan;

#ifdef __cplusplus
}
#endif

#endif
