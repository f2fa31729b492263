// Feature chains of a host, read by tables: which structs there are, and which members mean the same.
#include "cooperative_matrix.h"

#include <cstring>

namespace scoria::vk {
namespace {

struct KnownStruct {
    VkStructureType type;
    size_t size;
};
constexpr KnownStruct known_structs[] = {
    {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, sizeof(VkPhysicalDeviceFeatures2)},
    {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, sizeof(VkPhysicalDeviceVulkan11Features)},
    {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES, sizeof(VkPhysicalDeviceVulkan12Features)},
    {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES, sizeof(VkPhysicalDeviceVulkan13Features)},
    {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES, sizeof(VkPhysicalDevice16BitStorageFeatures)},
    {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES, sizeof(VkPhysicalDevice8BitStorageFeatures)},
    {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES,
     sizeof(VkPhysicalDeviceShaderFloat16Int8Features)},
    {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_UNIFORM_BUFFER_STANDARD_LAYOUT_FEATURES,
     sizeof(VkPhysicalDeviceUniformBufferStandardLayoutFeatures)},
    {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES,
     sizeof(VkPhysicalDeviceTimelineSemaphoreFeatures)},
    {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES,
     sizeof(VkPhysicalDeviceVulkanMemoryModelFeatures)},
    {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES_EXT,
     sizeof(VkPhysicalDeviceSubgroupSizeControlFeaturesEXT)},
    {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES_KHR,
     sizeof(VkPhysicalDeviceShaderIntegerDotProductFeaturesKHR)},
    {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR,
     sizeof(VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR)},
    {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR,
     sizeof(VkPhysicalDeviceCooperativeMatrixFeaturesKHR)},
    {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_FEATURES_NV,
     sizeof(VkPhysicalDeviceCooperativeMatrix2FeaturesNV)},
    {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_FEATURES, sizeof(VkPhysicalDeviceMaintenance4Features)},
#ifdef VK_KHR_shader_bfloat16
    {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_BFLOAT16_FEATURES_KHR,
     sizeof(VkPhysicalDeviceShaderBfloat16FeaturesKHR)},
#endif
};

/// A feature that two structs can enable: the one that hosts may use, and the one that Scoria reads.
struct SameFeature {
    VkStructureType from;
    size_t from_offset;
    VkStructureType to;
    size_t to_offset;
};
#define SAME(from_type, From, from_member, to_type, To, to_member)                                    \
    SameFeature {                                                                                     \
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_##from_type, offsetof(VkPhysicalDevice##From, from_member), \
            VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_##to_type, offsetof(VkPhysicalDevice##To, to_member)    \
    }
#define IN_11(type, From, member) SAME(type, From, member, VULKAN_1_1_FEATURES, Vulkan11Features, member)
#define IN_12(type, From, member) SAME(type, From, member, VULKAN_1_2_FEATURES, Vulkan12Features, member)
#define FROM_13(member, type, To) SAME(VULKAN_1_3_FEATURES, Vulkan13Features, member, type, To, member)
constexpr SameFeature same_features[] = {
    IN_11(16BIT_STORAGE_FEATURES, 16BitStorageFeatures, storageBuffer16BitAccess),
    IN_12(8BIT_STORAGE_FEATURES, 8BitStorageFeatures, storageBuffer8BitAccess),
    IN_12(SHADER_FLOAT16_INT8_FEATURES, ShaderFloat16Int8Features, shaderFloat16),
    IN_12(SHADER_FLOAT16_INT8_FEATURES, ShaderFloat16Int8Features, shaderInt8),
    IN_12(UNIFORM_BUFFER_STANDARD_LAYOUT_FEATURES, UniformBufferStandardLayoutFeatures,
          uniformBufferStandardLayout),
    IN_12(TIMELINE_SEMAPHORE_FEATURES, TimelineSemaphoreFeatures, timelineSemaphore),
    IN_12(VULKAN_MEMORY_MODEL_FEATURES, VulkanMemoryModelFeatures, vulkanMemoryModel),
    IN_12(VULKAN_MEMORY_MODEL_FEATURES, VulkanMemoryModelFeatures, vulkanMemoryModelDeviceScope),
    FROM_13(subgroupSizeControl, SUBGROUP_SIZE_CONTROL_FEATURES_EXT, SubgroupSizeControlFeaturesEXT),
    FROM_13(computeFullSubgroups, SUBGROUP_SIZE_CONTROL_FEATURES_EXT, SubgroupSizeControlFeaturesEXT),
    FROM_13(shaderIntegerDotProduct, SHADER_INTEGER_DOT_PRODUCT_FEATURES_KHR,
            ShaderIntegerDotProductFeaturesKHR),
    FROM_13(maintenance4, MAINTENANCE_4_FEATURES, Maintenance4Features),
};
#undef FROM_13
#undef IN_12
#undef IN_11
#undef SAME

}  // namespace

FeatureStructs copy_features(const void* chain) {
    FeatureStructs copies;
    for (auto* at = static_cast<const VkBaseInStructure*>(chain); at; at = at->pNext)
        for (const KnownStruct& known : known_structs)
            if (known.type == at->sType) {
                const auto* bytes = reinterpret_cast<const std::byte*>(at);
                copies.insert_or_assign(at->sType, std::vector(bytes, bytes + known.size));
            }
    return copies;
}

void apply_features(const FeatureStructs& enabled, VkPhysicalDeviceFeatures2& base) {
    constexpr size_t header = sizeof(VkBaseInStructure);  // sType and pNext
    for (auto* at = reinterpret_cast<VkBaseOutStructure*>(&base); at; at = at->pNext) {
        auto* bytes = reinterpret_cast<std::byte*>(at);
        if (const auto found = enabled.find(at->sType); found != enabled.end())
            std::memcpy(bytes + header, found->second.data() + header, found->second.size() - header);
        for (const SameFeature& same : same_features) {
            const auto found = enabled.find(same.from);
            if (same.to != at->sType || found == enabled.end()) continue;
            VkBool32 on = VK_FALSE;
            std::memcpy(&on, found->second.data() + same.from_offset, sizeof on);
            if (on) std::memcpy(bytes + same.to_offset, &on, sizeof on);
        }
    }
}

}  // namespace scoria::vk
