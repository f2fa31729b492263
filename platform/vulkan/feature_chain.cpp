// Caps -> the features and extensions of a device that has them.
#include "feature_chain.h"

#include <string_view>

namespace scoria::vk {
namespace {

bool uses(const Caps& caps, std::string_view extension) {
    const struct {
        std::string_view name;
        bool used;
    } table[] = {
        {VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME, caps.subgroup_size_control},
        {VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME, caps.int_dot},
        {VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME, caps.pipeline_statistics},
        {VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME, caps.cooperative_matrix},
        {VK_NV_COOPERATIVE_MATRIX_2_EXTENSION_NAME, caps.cooperative_matrix2},
        {VK_KHR_MAINTENANCE_4_EXTENSION_NAME, caps.cooperative_matrix2},
        {VK_EXT_PIPELINE_ROBUSTNESS_EXTENSION_NAME, caps.pipeline_robustness},
#ifdef VK_KHR_shader_bfloat16
        {VK_KHR_SHADER_BFLOAT16_EXTENSION_NAME, caps.bfloat16},
#endif
    };
    for (const auto& row : table)
        if (row.name == extension) return row.used;
    return false;
}

}  // namespace

FeatureChain::FeatureChain(const Caps& caps)
    : FeatureChain([&](const char* extension) { return uses(caps, extension); }) {
    base.features.shaderInt16 = caps.int16;
    base.features.shaderInt64 = caps.int64;
    v11.storageBuffer16BitAccess = caps.storage16;
    v12.shaderFloat16 = caps.float16;
    v12.shaderInt8 = caps.int8;
    v12.storageBuffer8BitAccess = caps.storage8;
    v12.uniformBufferStandardLayout = caps.uniform_scalars;
    v12.timelineSemaphore = VK_TRUE;
    v12.vulkanMemoryModel = v12.vulkanMemoryModelDeviceScope = caps.vulkan_memory_model;
    // Of an extension that is not used, the structure is not linked.
    sizes.subgroupSizeControl = sizes.computeFullSubgroups = VK_TRUE;
    dot.shaderIntegerDotProduct = VK_TRUE;
    statistics.pipelineExecutableInfo = VK_TRUE;
    matrix.cooperativeMatrix = VK_TRUE;
    matrix2.cooperativeMatrixFlexibleDimensions = matrix2.cooperativeMatrixPerElementOperations = VK_TRUE;
    matrix2.cooperativeMatrixWorkgroupScope =
        caps.cooperative_matrix2 && caps.matrix_grains.front().invocations != 0;
    matrix2.cooperativeMatrixReductions = matrix2.cooperativeMatrixConversions = caps.matrix_reductions;
    maintenance4.maintenance4 = VK_TRUE;
    robustness.pipelineRobustness = VK_TRUE;
#ifdef VK_KHR_shader_bfloat16
    bfloat.shaderBFloat16Type = VK_TRUE;
#endif
    if (caps.memory_budget) extensions.push_back(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
}

}  // namespace scoria::vk
