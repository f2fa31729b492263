// See cooperative_matrix.h.
#include "cooperative_matrix.h"

#include <bit>

namespace scoria::vk {

MatrixShape query_matrix_shape(const Instance& instance, VkPhysicalDevice device) {
    const auto query = reinterpret_cast<PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR>(
        instance.get_instance_proc()(instance.handle(), "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"));
    if (!query) return {};
    uint32_t count = 0;
    check(query(device, &count, nullptr), "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    std::vector<VkCooperativeMatrixPropertiesKHR> all(
        count,
        vk_struct<VkCooperativeMatrixPropertiesKHR>(VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR));
    check(query(device, &count, all.data()), "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    all.resize(count);
    MatrixShape best;
    for (const VkCooperativeMatrixPropertiesKHR& p : all) {
        const bool fits = p.AType == VK_COMPONENT_TYPE_FLOAT16_KHR && p.BType == p.AType &&
                          p.CType == VK_COMPONENT_TYPE_FLOAT32_KHR && p.ResultType == p.CType &&
                          p.scope == VK_SCOPE_SUBGROUP_KHR && !p.saturatingAccumulation;
        bool sized = true;
        for (const uint32_t size : {p.MSize, p.NSize, p.KSize})
            sized = sized && size >= 8 && size <= 16 && std::has_single_bit(size);
        if (fits && sized && p.MSize * p.NSize * p.KSize > best.m * best.n * best.k)
            best = {p.MSize, p.NSize, p.KSize};
    }
    return best;
}

}  // namespace scoria::vk
