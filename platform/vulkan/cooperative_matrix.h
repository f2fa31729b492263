// VK_KHR_cooperative_matrix for headers that lack it (before 1.3.255), and the shape that kernels use.
#pragma once

#include "loader.h"

#ifndef VK_KHR_cooperative_matrix
#define VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME "VK_KHR_cooperative_matrix"
inline constexpr auto VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR =
    VkStructureType(1000506000);
inline constexpr auto VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR = VkStructureType(1000506001);
enum VkComponentTypeKHR { VK_COMPONENT_TYPE_FLOAT16_KHR = 0, VK_COMPONENT_TYPE_FLOAT32_KHR = 1 };
enum VkScopeKHR { VK_SCOPE_SUBGROUP_KHR = 3 };
struct VkPhysicalDeviceCooperativeMatrixFeaturesKHR {
    VkStructureType sType;
    void* pNext;
    VkBool32 cooperativeMatrix, cooperativeMatrixRobustBufferAccess;
};
struct VkCooperativeMatrixPropertiesKHR {
    VkStructureType sType;
    void* pNext;
    uint32_t MSize, NSize, KSize;
    VkComponentTypeKHR AType, BType, CType, ResultType;
    VkBool32 saturatingAccumulation;
    VkScopeKHR scope;
};
using PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR =
    VkResult(VKAPI_PTR*)(VkPhysicalDevice, uint32_t*, VkCooperativeMatrixPropertiesKHR*);
#endif

namespace scoria::vk {

/// The subgroup-scope products of float16 matrices into float32 ones that the device lists: the shape with
/// the most multiply-adds up to 16 x 16 x 16, whose tiles every kernel size is a multiple of. All zero if
/// none.
struct MatrixShape {
    uint32_t m = 0, n = 0, k = 0;
};
MatrixShape query_matrix_shape(const Instance& instance, VkPhysicalDevice device);

}  // namespace scoria::vk
