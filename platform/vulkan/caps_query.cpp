// Physical device -> Caps. Extension structs are chained only where the extension is listed; core 1.2
// structs only on devices of that version.
#include "caps_query.h"
#include "cooperative_matrix.h"
#include "feature_chain.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace scoria::vk {
namespace {

std::set<std::string> enabled_extensions(const HostDevice& host, uint32_t api_version) {
    std::set<std::string> names(host.extensions.begin(), host.extensions.end());
    if (api_version >= VK_API_VERSION_1_3) {  // of which these are part
        names.insert(VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);
        names.insert(VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME);
        names.insert(VK_KHR_MAINTENANCE_4_EXTENSION_NAME);
    }
    return names;
}

std::set<std::string> device_extensions(const Instance& instance, VkPhysicalDevice device) {
    uint32_t count = 0;
    const auto enumerate = instance.fn().EnumerateDeviceExtensionProperties;
    check(enumerate(device, nullptr, &count, nullptr), "vkEnumerateDeviceExtensionProperties");
    std::vector<VkExtensionProperties> found(count);
    check(enumerate(device, nullptr, &count, found.data()), "vkEnumerateDeviceExtensionProperties");
    std::set<std::string> names;
    for (const auto& extension : found) names.insert(extension.extensionName);
    return names;
}

template <class Head, class Next> void chain(Head& head, Next& next) {
    next.pNext = head.pNext;
    head.pNext = &next;
}

DeviceType device_type(VkPhysicalDeviceType type) {
    switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
        return DeviceType::integrated;
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
        return DeviceType::discrete;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
        return DeviceType::virtual_gpu;
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
        return DeviceType::cpu;
    default:
        return DeviceType::other;
    }
}

void read_properties(const Instance& instance, VkPhysicalDevice device,
                     const std::set<std::string>& extensions, Caps& caps) {
    auto base = vk_struct<VkPhysicalDeviceProperties2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2);
    auto v11 = vk_struct<VkPhysicalDeviceVulkan11Properties>(
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES);
    auto v12 = vk_struct<VkPhysicalDeviceVulkan12Properties>(
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES);
    auto sizes = vk_struct<VkPhysicalDeviceSubgroupSizeControlPropertiesEXT>(
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES_EXT);
    auto dot = vk_struct<VkPhysicalDeviceShaderIntegerDotProductPropertiesKHR>(
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES_KHR);
    auto matrix2 = vk_struct<VkPhysicalDeviceCooperativeMatrix2PropertiesNV>(
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_PROPERTIES_NV);
    auto nvidia_cores = vk_struct<VkPhysicalDeviceShaderSMBuiltinsPropertiesNV>(
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV);
    auto amd_cores = vk_struct<VkPhysicalDeviceShaderCoreProperties2AMD>(
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_2_AMD);
    auto arm_cores = vk_struct<VkPhysicalDeviceShaderCoreBuiltinsPropertiesARM>(
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_BUILTINS_PROPERTIES_ARM);
    const bool has_sizes = extensions.contains(VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);
    chain(base, v11);
    chain(base, v12);
    if (has_sizes) chain(base, sizes);
    if (extensions.contains(VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME)) chain(base, dot);
    if (extensions.contains(VK_NV_COOPERATIVE_MATRIX_2_EXTENSION_NAME)) chain(base, matrix2);
    if (extensions.contains(VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME)) chain(base, nvidia_cores);
    if (extensions.contains(VK_AMD_SHADER_CORE_PROPERTIES_2_EXTENSION_NAME)) chain(base, amd_cores);
    if (extensions.contains(VK_ARM_SHADER_CORE_BUILTINS_EXTENSION_NAME)) chain(base, arm_cores);
    instance.fn().GetPhysicalDeviceProperties2(device, &base);

    const VkPhysicalDeviceLimits& limits = base.properties.limits;
    caps.driver_name = v12.driverName;
    caps.driver_info = v12.driverInfo;
    std::ranges::copy(base.properties.pipelineCacheUUID, caps.pipeline_cache_uuid.begin());
    std::ranges::copy(v11.deviceUUID, caps.device_uuid.begin());
    std::ranges::copy(v11.driverUUID, caps.driver_uuid.begin());
    caps.max_storage_range = limits.maxStorageBufferRange;
    caps.max_allocation = v11.maxMemoryAllocationSize;
    caps.max_storage_buffers =
        std::min(limits.maxPerStageDescriptorStorageBuffers, limits.maxDescriptorSetStorageBuffers);
    caps.max_invocations = limits.maxComputeWorkGroupInvocations;
    caps.max_workgroup_x = std::min(limits.maxComputeWorkGroupSize[0], limits.maxComputeWorkGroupSize[1]);
    caps.max_groups = *std::ranges::min_element(limits.maxComputeWorkGroupCount);
    caps.shared_memory = limits.maxComputeSharedMemorySize;
    caps.push_constants = limits.maxPushConstantsSize;
    caps.storage_alignment = uint32_t(limits.minStorageBufferOffsetAlignment);
    caps.uniform_scalars = limits.minUniformBufferOffsetAlignment <= limits.minStorageBufferOffsetAlignment;
    caps.timestamp_period = limits.timestampPeriod;

    const auto operations =
        v11.subgroupSupportedStages & VK_SHADER_STAGE_COMPUTE_BIT ? v11.subgroupSupportedOperations : 0;
    caps.subgroup_size = v11.subgroupSize;
    // Mesa keeps on disk what it compiles for fetches, but not for how many lanes: whoever runs lavapipe with
    // other than the usual eight (LP_NATIVE_VECTOR_WIDTH) must not ask for them, or every second run crashes.
    constexpr uint32_t usual_lanes = 8;
    caps.texel_words = caps.is_cpu() && caps.subgroup_size == usual_lanes &&
                       limits.maxTexelBufferElements >= limits.maxStorageBufferRange / texel_bytes &&
                       limits.minTexelBufferOffsetAlignment <= limits.minStorageBufferOffsetAlignment;
    caps.subgroup_min = has_sizes ? sizes.minSubgroupSize : v11.subgroupSize;
    caps.subgroup_max = has_sizes ? sizes.maxSubgroupSize : v11.subgroupSize;
    caps.max_required_subgroups = has_sizes ? sizes.maxComputeWorkgroupSubgroups : 0;
    caps.subgroup_arithmetic = operations & VK_SUBGROUP_FEATURE_ARITHMETIC_BIT;
    caps.subgroup_shuffle = operations & VK_SUBGROUP_FEATURE_SHUFFLE_BIT;
    caps.subgroup_ballot = operations & VK_SUBGROUP_FEATURE_BALLOT_BIT;
    caps.subgroup_size_control = has_sizes && sizes.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT;
    caps.int_dot_fast = dot.integerDotProduct4x8BitPackedSignedAccelerated;
    caps.cores = nvidia_cores.shaderSMCount + amd_cores.activeComputeUnitCount + arm_cores.shaderCoreCount;
    caps.matrix_most = matrix2.cooperativeMatrixFlexibleDimensionsMaxDimension;
    caps.matrix_reserved = matrix2.cooperativeMatrixWorkgroupScopeReservedSharedMemory;

    // Never of floats: kernels would be slower for numbers that they have no use for.
    const bool alone = v12.denormBehaviorIndependence == VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_ALL;
    caps.denorm_f16_as_f64 =
        v12.denormBehaviorIndependence == VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_32_BIT_ONLY;
    caps.denorm_preserve_f16 = v12.shaderDenormPreserveFloat16 &&
                               (alone || (caps.denorm_f16_as_f64 && v12.shaderDenormPreserveFloat64));
    caps.rte_f16 = v12.shaderRoundingModeRTEFloat16;
    caps.inf_nan_preserve_f32 = v12.shaderSignedZeroInfNanPreserveFloat32;
}

void read_matrix_shape(const Instance& instance, VkPhysicalDevice device, Caps& caps) {
    const MatrixShape shape = query_matrix_shape(instance, device);
    caps.matrix_m = shape.m;
    caps.matrix_n = shape.n;
    caps.matrix_k = shape.k;
    // Intel's units take one column a lane, so only one of its subgroup sizes will do.
    caps.matrix_subgroup = caps.vendor_id == vendor_intel ? shape.n : caps.subgroup_size;
    caps.cooperative_matrix = shape.m > 0 && caps.native_subgroups() &&
                              (caps.matrix_subgroup == caps.subgroup_size || caps.subgroup_size_control);
}

void read_features(const Instance& instance, VkPhysicalDevice device, const std::set<std::string>& extensions,
                   const HostDevice* host, Caps& caps) {
    FeatureChain found([&](const char* extension) { return extensions.contains(extension); });
    if (host)
        apply_features(host->features, found.base);
    else
        instance.fn().GetPhysicalDeviceFeatures2(device, &found.base);

    caps.float16 = found.v12.shaderFloat16;
    caps.storage16 = found.v11.storageBuffer16BitAccess;
    caps.int8 = found.v12.shaderInt8;
    caps.storage8 = found.v12.storageBuffer8BitAccess;
    caps.int16 = found.base.features.shaderInt16;
    caps.int64 = found.base.features.shaderInt64;
    caps.uniform_scalars = caps.uniform_scalars && found.v12.uniformBufferStandardLayout && caps.is_cpu();
    caps.int_dot = found.dot.shaderIntegerDotProduct;
    caps.int_dot_fast = caps.int_dot_fast && caps.int_dot;
    caps.vulkan_memory_model = found.v12.vulkanMemoryModel && found.v12.vulkanMemoryModelDeviceScope;
    caps.timeline_semaphore = found.v12.timelineSemaphore;
    caps.subgroup_size_control =
        caps.subgroup_size_control && found.sizes.subgroupSizeControl && found.sizes.computeFullSubgroups;
    // Its compilers run out of registers at the 32 lanes that Intel reports (tools/gates).
    if (caps.vendor_id == vendor_intel && caps.subgroup_size_control)
        caps.subgroup_size = std::clamp(16u, caps.subgroup_min, caps.subgroup_max);
    caps.memory_budget = extensions.contains(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
    caps.pipeline_statistics = found.statistics.pipelineExecutableInfo;
    caps.pipeline_robustness = found.robustness.pipelineRobustness && !caps.is_cpu();
#ifdef VK_KHR_shader_bfloat16
    caps.bfloat16 = found.bfloat.shaderBFloat16Type;
#endif
    if (found.matrix.cooperativeMatrix && caps.float16 && caps.vulkan_memory_model)
        read_matrix_shape(instance, device, caps);
    // Its modules are SPIR-V 1.6, in which a workgroup sized by constants is maintenance4's.
    if (caps.cooperative_matrix && caps.api_version >= VK_API_VERSION_1_3 &&
        found.maintenance4.maintenance4 && found.matrix2.cooperativeMatrixFlexibleDimensions &&
        found.matrix2.cooperativeMatrixPerElementOperations)
        caps.matrix_grains =
            query_matrix_grains(instance, device, found.matrix2.cooperativeMatrixWorkgroupScope);
    caps.cooperative_matrix2 = !caps.matrix_grains.empty();
    caps.matrix_reductions = caps.cooperative_matrix2 && found.matrix2.cooperativeMatrixReductions &&
                             found.matrix2.cooperativeMatrixConversions;
}

void read_memory(const Instance& instance, VkPhysicalDevice device, Caps& caps) {
    auto properties =
        vk_struct<VkPhysicalDeviceMemoryProperties2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2);
    instance.fn().GetPhysicalDeviceMemoryProperties2(device, &properties);
    const VkPhysicalDeviceMemoryProperties& memory = properties.memoryProperties;
    constexpr VkMemoryPropertyFlags in_place = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT |
                                               VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                               VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    uint64_t largest = 0;
    bool unified = memory.memoryHeapCount > 0;
    for (uint32_t heap = 0; heap < memory.memoryHeapCount; ++heap) {
        largest = std::max<uint64_t>(largest, memory.memoryHeaps[heap].size);
        if (!(memory.memoryHeaps[heap].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT)) continue;
        bool visible = false;
        for (uint32_t type = 0; type < memory.memoryTypeCount; ++type)
            visible |= memory.memoryTypes[type].heapIndex == heap &&
                       (memory.memoryTypes[type].propertyFlags & in_place) == in_place;
        unified &= visible;
    }
    caps.unified_memory = unified;
    caps.max_binding = std::min(caps.max_storage_range, caps.max_allocation);
    if (largest)
        caps.max_binding = std::min(caps.max_binding, largest);  // drivers that only compile have no heap
}

std::string reason_unusable(const Caps& caps, const QueueFamilies& queues) {
    if (queues.compute == UINT32_MAX) return "it has no queue for compute";
    if (!caps.timeline_semaphore) return "expected the feature timelineSemaphore, got a device without it";
    const std::string low = below_floor(caps);
    return low.empty() ? "" : "expected " + low;
}

}  // namespace

QueueFamilies query_queues(const Instance& instance, VkPhysicalDevice device, const HostDevice* host) {
    uint32_t count = 0;
    instance.fn().GetPhysicalDeviceQueueFamilyProperties(device, &count, nullptr);
    std::vector<VkQueueFamilyProperties> families(count);
    instance.fn().GetPhysicalDeviceQueueFamilyProperties(device, &count, families.data());
    QueueFamilies found;
    if (host) {
        const uint32_t family = host->queue_family;
        if (family < count && families[family].queueFlags & VK_QUEUE_COMPUTE_BIT)
            found = {family, family, families[family].timestampValidBits};
        return found;
    }
    // A family that also draws is the one drivers tune most; a compute-only one serves where there is none.
    for (const VkQueueFlags flags : {VK_QUEUE_COMPUTE_BIT | VK_QUEUE_GRAPHICS_BIT, VK_QUEUE_COMPUTE_BIT | 0})
        for (uint32_t i = 0; i < count && found.compute == UINT32_MAX; ++i)
            if ((families[i].queueFlags & VkQueueFlags(flags)) == VkQueueFlags(flags)) found.compute = i;
    if (found.compute == UINT32_MAX) return found;
    found.transfer = found.compute;
    found.timestamp_bits = families[found.compute].timestampValidBits;
    for (uint32_t i = 0; i < count; ++i) {  // a family that only transfers is a copy engine
        const VkQueueFlags flags = families[i].queueFlags;
        if (flags & VK_QUEUE_TRANSFER_BIT && !(flags & (VK_QUEUE_COMPUTE_BIT | VK_QUEUE_GRAPHICS_BIT))) {
            found.transfer = i;
            break;
        }
    }
    return found;
}

ListedDevice name_device(const Instance& instance, VkPhysicalDevice device, const HostDevice* host) {
    ListedDevice listed;
    Caps& caps = listed.caps;
    auto base = vk_struct<VkPhysicalDeviceProperties2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2);
    instance.fn().GetPhysicalDeviceProperties2(device, &base);
    caps.name = base.properties.deviceName;
    caps.vendor_id = base.properties.vendorID;
    caps.device_id = base.properties.deviceID;
    caps.driver_version = base.properties.driverVersion;
    caps.api_version = base.properties.apiVersion;
    if (host) caps.api_version = std::min(caps.api_version, host->api_version);
    caps.type = device_type(base.properties.deviceType);
    if (caps.api_version < VK_API_VERSION_1_2) {
        listed.unusable = cat("expected Vulkan 1.2 or later, got ", VK_API_VERSION_MAJOR(caps.api_version),
                              ".", VK_API_VERSION_MINOR(caps.api_version));
        return listed;
    }
    auto driver =
        vk_struct<VkPhysicalDeviceDriverProperties>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES);
    base.pNext = &driver;
    instance.fn().GetPhysicalDeviceProperties2(device, &base);
    caps.driver_id = uint32_t(driver.driverID);
    return listed;
}

ListedDevice query_device(const Instance& instance, VkPhysicalDevice device, const HostDevice* host) {
    ListedDevice listed = name_device(instance, device, host);
    if (!listed.unusable.empty()) return listed;
    Caps& caps = listed.caps;
    try {
        const std::set<std::string> own = device_extensions(instance, device);
        const std::set<std::string> extensions = host ? enabled_extensions(*host, caps.api_version) : own;
        const QueueFamilies queues = query_queues(instance, device, host);
        // Of the device itself: subgroups vary in size whether or not the host has enabled their control.
        read_properties(instance, device, own, caps);
        read_features(instance, device, extensions, host, caps);
        read_memory(instance, device, caps);
        caps.timestamp_bits = queues.timestamp_bits;
        listed.unusable = reason_unusable(caps, queues);
    } catch (const Error& error) {
        listed.unusable = error.what();
    }
    return listed;
}

}  // namespace scoria::vk
