/* For hosts that bring their own Vulkan device (scoria_engine_options.vulkan).
 *
 * All of these objects stay the host's: the library destroys none of them, never waits for the device or its
 * queues as a whole, and uses no feature or extension but those listed here as enabled. It needs Vulkan 1.2
 * and the feature timelineSemaphore; what else is enabled makes it faster: shaderFloat16,
 * storageBuffer16BitAccess, shaderInt8, shaderInt16, shaderInt64, uniformBufferStandardLayout,
 * storageBuffer8BitAccess, vulkanMemoryModel with device scope, subgroupSizeControl with
 * computeFullSubgroups, shaderIntegerDotProduct, cooperativeMatrix, with maintenance4 and Vulkan 1.3
 * cooperativeMatrixFlexibleDimensions with cooperativeMatrixPerElementOperations,
 * cooperativeMatrixReductions with cooperativeMatrixConversions, and cooperativeMatrixWorkgroupScope
 * (VK_NV_cooperative_matrix2), VK_EXT_memory_budget.
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
    /* For every object made on the device, and what is kept of its memory; NULL: the driver's own. Copied by
     * scoria_engine_create; the functions are called from any thread that calls the library, must not call
     * it, and have all back when scoria_engine_destroy has returned. They should not run dry: drivers have
     * been seen to crash then. */
    const VkAllocationCallbacks* allocator;
    /* One handle type (VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT, say), for a host that exports what
     * scoria_session_share hands out, by an extension that it enabled; 0: none. Each session and
     * batch then takes up to three pieces of memory more. One that the device cannot export buffers as is
     * unsupported. */
    VkExternalMemoryHandleTypeFlags export_memory;
    uint32_t reserved; /* 0 */
} scoria_vulkan;

enum { SCORIA_SHARE_LOGITS, SCORIA_SHARE_HIDDEN, SCORIA_SHARE_ATTENTION };

/* Values on the device, float32. */
typedef struct scoria_shared {
    size_t size;
    VkBuffer buffer; /* a storage buffer, also to copy from; of queue_family alone */
    VkDeviceSize offset, bytes;
    VkSemaphore semaphore; /* a timeline: `value` or more says that the values are there */
    uint64_t value;
    uint32_t rows, cols; /* one row behind the other */
    /* With scoria_vulkan.export_memory, for another API, process or VkDevice: what the buffer is bound to, at
     * its beginning, to export as that type; the values are at `offset` there, too. Not dedicated; who
     * imports it names these bytes and this type. The host passes ownership to VK_QUEUE_FAMILY_EXTERNAL and
     * back, and tells the other side by a semaphore of its own. What was exported stays valid, but is written
     * no more, when the buffer has gone. Else VK_NULL_HANDLE and 0. */
    VkDeviceMemory memory;
    VkDeviceSize memory_bytes;
    uint32_t memory_type;
    uint32_t reserved; /* 0 */
} scoria_shared;

/* What the last token's computation left on the host's device, to draw or to copy without a way through the
 * host's memory: its logits [vocab], what the output head reads [hidden], or what it attends to [heads,
 * tokens so far] in the layer that scoria_session_watch chose. They are computed if they are not there yet. A
 * submission of the host that reads them waits for the semaphore, which makes them visible, and ends before
 * the session is next used, or has scoria_session_wait hold that back. The buffer is the library's; it goes
 * with the session, its eviction, or the next call that computes more tokens at a time. `what`: SCORIA_SHARE_
 * ... Errors: unsupported, on a device of the library's own and for encoders; bad_argument, before the first
 * token, or for attention without a layer; as append. */
SCORIA_API scoria_status scoria_session_share(scoria_session* session, uint32_t what, scoria_shared* shared);
/* From now on each token leaves its attention weights in one layer, of a decoder to the tokens before it, on
 * the device: for SCORIA_SHARE_ATTENTION, and while an answer comes for
 * scoria_generate_options.on_attention. A row sums to 1, or to less where the rest goes to a sink, and is 0
 * where the layer's mask hides a token. Costs [heads, context] floats of device memory and two dispatches a
 * token; what the model answers is the same. SCORIA_NO_LAYER: no more. Errors: bad_argument, for a layer the
 * model has not; unsupported, on a device of the library's own, for encoders, and where attention is no
 * matrix of queries and keys (Reformer); out_of_device_memory. */
#define SCORIA_NO_LAYER 0xFFFFFFFFu
SCORIA_API scoria_status scoria_session_watch(scoria_session* session, uint32_t layer);
/* The session's next submission waits on the device until the timeline semaphore of the host has this value.
 * That must come to pass: a session that waits in vain ends in a timeout. A NULL semaphore: waits for none.
 * Errors: unsupported, on a device of the library's own. */
SCORIA_API scoria_status scoria_session_wait(scoria_session* session, VkSemaphore semaphore, uint64_t value);

#ifdef __cplusplus
}
#endif

#endif
