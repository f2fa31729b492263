// See cooperative_matrix.h.
#include "cooperative_matrix.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace scoria::vk {
namespace {

/// All that one of the queries below lists; nothing where the driver lacks the query.
template <class Properties>
std::vector<Properties> listed(const Instance& instance, VkPhysicalDevice device, const char* name,
                               VkStructureType type) {
    const auto query = reinterpret_cast<VkResult(VKAPI_PTR*)(VkPhysicalDevice, uint32_t*, Properties*)>(
        instance.get_instance_proc()(instance.handle(), name));
    if (!query) return {};
    uint32_t count = 0;
    check(query(device, &count, nullptr), name);
    std::vector<Properties> all(count, vk_struct<Properties>(type));
    check(query(device, &count, all.data()), name);
    all.resize(count);
    return all;
}

template <class Properties> bool sums_halves(const Properties& p) {
    return p.AType == VK_COMPONENT_TYPE_FLOAT16_KHR && p.BType == p.AType &&
           p.CType == VK_COMPONENT_TYPE_FLOAT32_KHR && p.ResultType == p.CType && !p.saturatingAccumulation;
}

}  // namespace

MatrixShape query_matrix_shape(const Instance& instance, VkPhysicalDevice device) {
    MatrixShape best;
    for (const auto& p : listed<VkCooperativeMatrixPropertiesKHR>(
             instance, device, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR",
             VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR)) {
        const bool fits = sums_halves(p) && p.scope == VK_SCOPE_SUBGROUP_KHR;
        bool sized = true;
        for (const uint32_t size : {p.MSize, p.NSize, p.KSize})
            sized = sized && size >= 8 && size <= 16 && std::has_single_bit(size);
        if (fits && sized && p.MSize * p.NSize * p.KSize > best.m * best.n * best.k)
            best = {p.MSize, p.NSize, p.KSize};
    }
    return best;
}

std::vector<MatrixGrain> query_matrix_grains(const Instance& instance, VkPhysicalDevice device,
                                             bool workgroups) {
    std::vector<MatrixGrain> grains;
    for (const auto& p : listed<VkCooperativeMatrixFlexibleDimensionsPropertiesNV>(
             instance, device, "vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV",
             VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_FLEXIBLE_DIMENSIONS_PROPERTIES_NV)) {
        const bool whole = p.scope == VK_SCOPE_WORKGROUP_KHR && p.workgroupInvocations;
        if (!sums_halves(p) || !p.MGranularity || !p.NGranularity || !p.KGranularity) continue;
        if (p.scope == VK_SCOPE_SUBGROUP_KHR || (whole && workgroups))
            grains.push_back(
                {p.MGranularity, p.NGranularity, p.KGranularity, whole ? p.workgroupInvocations : 0});
    }
    std::ranges::stable_sort(grains, std::greater(), &MatrixGrain::invocations);
    return grains;
}

}  // namespace scoria::vk
