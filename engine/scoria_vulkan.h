/* For hosts that bring their own Vulkan device (scoria_engine_options.vulkan).
 *
 * All of these objects stay the host's: the library destroys none of them, never waits for the device or its
 * queues as a whole, and uses no feature or extension but those listed here as enabled. It needs Vulkan 1.2
 * and the feature timelineSemaphore; what else is enabled makes it faster: shaderFloat16,
 * storageBuffer16BitAccess, shaderInt8, shaderInt16, shaderInt64, uniformBufferStandardLayout,
 * storageBuffer8BitAccess, vulkanMemoryModel with device scope, subgroupSizeControl with
 * computeFullSubgroups, shaderIntegerDotProduct, cooperativeMatrix, with maintenance4 and Vulkan 1.3
 * cooperativeMatrixFlexibleDimensions with cooperativeMatrixPerElementOperations and
 * cooperativeMatrixWorkgroupScope (VK_NV_cooperative_matrix2), VK_EXT_memory_budget.
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
} scoria_vulkan;

enum { SCORIA_SHARE_LOGITS, SCORIA_SHARE_HIDDEN, SCORIA_SHARE_ATTENTION };

/* Values on the device, float32. For another API or process copy them to memory of the host's own that it can
 * export: what may be exported must be chosen when it is allocated, and this memory is not. */
typedef struct scoria_shared {
    size_t size;
    VkBuffer buffer; /* a storage buffer, also to copy from; of queue_family alone */
    VkDeviceSize offset, bytes;
    VkSemaphore semaphore; /* a timeline: `value` or more says that the values are there */
    uint64_t value;
    uint32_t rows, cols; /* one row behind the other */
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
