#pragma once

#include "cooperative_matrix.h"

#include <vector>

namespace scoria::vk {

/// The structures of every feature that Scoria uses, by which a driver says what a device has and
/// VkDeviceCreateInfo what it shall have. Neither copied nor moved: links point inside.
struct FeatureChain {
    VkPhysicalDeviceFeatures2 base =
        vk_struct<VkPhysicalDeviceFeatures2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2);
    VkPhysicalDeviceVulkan11Features v11 =
        vk_struct<VkPhysicalDeviceVulkan11Features>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES);
    VkPhysicalDeviceVulkan12Features v12 =
        vk_struct<VkPhysicalDeviceVulkan12Features>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
    VkPhysicalDeviceSubgroupSizeControlFeaturesEXT sizes =
        vk_struct<VkPhysicalDeviceSubgroupSizeControlFeaturesEXT>(
            VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES_EXT);
    VkPhysicalDeviceShaderIntegerDotProductFeaturesKHR dot =
        vk_struct<VkPhysicalDeviceShaderIntegerDotProductFeaturesKHR>(
            VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES_KHR);
    VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR statistics =
        vk_struct<VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR>(
            VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR);
    VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrix =
        vk_struct<VkPhysicalDeviceCooperativeMatrixFeaturesKHR>(
            VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR);
    VkPhysicalDeviceCooperativeMatrix2FeaturesNV matrix2 =
        vk_struct<VkPhysicalDeviceCooperativeMatrix2FeaturesNV>(
            VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_FEATURES_NV);
    VkPhysicalDeviceMaintenance4Features maintenance4 = vk_struct<VkPhysicalDeviceMaintenance4Features>(
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_FEATURES);
    VkPhysicalDevicePipelineRobustnessFeaturesEXT robustness =
        vk_struct<VkPhysicalDevicePipelineRobustnessFeaturesEXT>(
            VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_ROBUSTNESS_FEATURES_EXT);
#ifdef VK_KHR_shader_bfloat16
    VkPhysicalDeviceShaderBfloat16FeaturesKHR bfloat = vk_struct<VkPhysicalDeviceShaderBfloat16FeaturesKHR>(
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_BFLOAT16_FEATURES_KHR);
#endif

    /// Nothing asked for yet: the structures of core and of those extensions for which listed(name) is true.
    template <class Listed> explicit FeatureChain(const Listed& listed) {
        base.pNext = &v11;
        v11.pNext = &v12;
        const auto link = [&](const char* extension, auto& features) {
            if (!listed(extension)) return;
            extensions.push_back(extension);
            features.pNext = v12.pNext;
            v12.pNext = &features;
        };
        link(VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME, sizes);
        link(VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME, dot);
        link(VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME, statistics);
        link(VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME, matrix);
        link(VK_NV_COOPERATIVE_MATRIX_2_EXTENSION_NAME, matrix2);
        link(VK_KHR_MAINTENANCE_4_EXTENSION_NAME, maintenance4);
        link(VK_EXT_PIPELINE_ROBUSTNESS_EXTENSION_NAME, robustness);
#ifdef VK_KHR_shader_bfloat16
        link(VK_KHR_SHADER_BFLOAT16_EXTENSION_NAME, bfloat);
#endif
    }
    /// What (narrowed) caps have, to make a device with.
    explicit FeatureChain(const Caps& caps);
    FeatureChain(const FeatureChain&) = delete;

    std::vector<const char*> extensions;  // of the structures linked
};

}  // namespace scoria::vk
