// Which member of which Vulkan structure each key narrows.
#include "profile.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace scoria_layer {
namespace {

constexpr const char* known_keys[] = {"max_storage_range",
                                      "max_allocation",
                                      "max_binding",
                                      "max_storage_buffers",
                                      "max_invocations",
                                      "max_workgroup_x",
                                      "max_groups",
                                      "shared_memory",
                                      "push_constants",
                                      "storage_alignment",
                                      "subgroup_arithmetic",
                                      "subgroup_shuffle",
                                      "subgroup_ballot",
                                      "subgroup_size_control",
                                      "float16",
                                      "storage16",
                                      "int8",
                                      "storage8",
                                      "int16",
                                      "int64",
                                      "texel_words",
                                      "uniform_scalars",
                                      "int_dot",
                                      "vulkan_memory_model",
                                      "bfloat16",
                                      "memory_budget",
                                      "pipeline_statistics",
                                      "unified_memory",
                                      "denorm_preserve_f16",
                                      "rte_f16",
                                      "inf_nan_preserve_f32",
                                      "_heap_bytes"};
// By which kernels are chosen: no limit of a device.
constexpr const char* choice_keys[] = {"type", "vendor_id", "int_dot_fast"};

}  // namespace

Profile::Profile(const std::string& path) {
    std::ifstream file(path);
    if (!file) throw std::runtime_error(path + ": cannot be opened");
    const auto json = nlohmann::json::parse(file);
    for (const auto& [key, value] : json.items()) {
        if (std::ranges::find(known_keys, key) != std::end(known_keys))
            values_[key] = value.is_boolean() ? value.get<bool>() : value.get<uint64_t>();
        else if (!key.starts_with('_') && std::ranges::find(choice_keys, key) == std::end(choice_keys))
            throw std::runtime_error(path + ": unknown key " + key);
    }
}

bool Profile::off(const char* feature) const {
    const auto found = values_.find(feature);
    return found != values_.end() && found->second == 0;
}

template <class Number> void Profile::at_most(Number& value, const char* key) const {
    if (const auto found = values_.find(key); found != values_.end() && found->second < value)
        value = Number(found->second);
}

void Profile::apply(VkPhysicalDeviceProperties& properties) const {
    VkPhysicalDeviceLimits& limits = properties.limits;
    at_most(limits.maxStorageBufferRange, "max_storage_range");
    at_most(limits.maxPerStageDescriptorStorageBuffers, "max_storage_buffers");
    at_most(limits.maxDescriptorSetStorageBuffers, "max_storage_buffers");
    at_most(limits.maxComputeWorkGroupInvocations, "max_invocations");
    for (uint32_t axis = 0; axis < 3; ++axis) {
        at_most(limits.maxComputeWorkGroupSize[axis], "max_workgroup_x");
        at_most(limits.maxComputeWorkGroupCount[axis], "max_groups");
    }
    at_most(limits.maxComputeSharedMemorySize, "shared_memory");
    at_most(limits.maxPushConstantsSize, "push_constants");
    if (off("texel_words")) limits.maxTexelBufferElements = 65536;  // what Vulkan guarantees
    if (const auto found = values_.find("storage_alignment"); found != values_.end())
        limits.minStorageBufferOffsetAlignment =
            std::max(limits.minStorageBufferOffsetAlignment, found->second);
}

void Profile::apply(VkPhysicalDeviceFeatures& features) const {
    if (off("int16")) features.shaderInt16 = VK_FALSE;
    if (off("int64")) features.shaderInt64 = VK_FALSE;
}

void Profile::apply(VkPhysicalDeviceMemoryProperties& memory) const {
    for (uint32_t heap = 0; heap < memory.memoryHeapCount; ++heap)
        at_most(memory.memoryHeaps[heap].size, "_heap_bytes");
}

void Profile::apply_chain(void* next) const {
    // Structures that core 1.1, 1.2 and 1.3 merged carry the same members under the same names.
    const auto subgroups = [&](VkSubgroupFeatureFlags& operations) {
        if (off("subgroup_arithmetic"))
            operations &= ~VkSubgroupFeatureFlags(VK_SUBGROUP_FEATURE_ARITHMETIC_BIT);
        if (off("subgroup_shuffle")) operations &= ~VkSubgroupFeatureFlags(VK_SUBGROUP_FEATURE_SHUFFLE_BIT);
        if (off("subgroup_ballot")) operations &= ~VkSubgroupFeatureFlags(VK_SUBGROUP_FEATURE_BALLOT_BIT);
    };
    const auto float_controls = [&](auto& p) {
        if (off("denorm_preserve_f16")) p.shaderDenormPreserveFloat16 = VK_FALSE;
        if (off("rte_f16")) p.shaderRoundingModeRTEFloat16 = VK_FALSE;
        if (off("inf_nan_preserve_f32")) p.shaderSignedZeroInfNanPreserveFloat32 = VK_FALSE;
    };
    const auto storage16 = [&](auto& f) {
        if (off("storage16")) f.storageBuffer16BitAccess = f.uniformAndStorageBuffer16BitAccess = VK_FALSE;
    };
    const auto storage8 = [&](auto& f) {
        if (off("storage8")) f.storageBuffer8BitAccess = f.uniformAndStorageBuffer8BitAccess = VK_FALSE;
    };
    const auto types = [&](auto& f) {
        if (off("float16")) f.shaderFloat16 = VK_FALSE;
        if (off("int8")) f.shaderInt8 = VK_FALSE;
    };
    const auto uniform_layout = [&](auto& f) {
        if (off("uniform_scalars")) f.uniformBufferStandardLayout = VK_FALSE;
    };
    const auto memory_model = [&](auto& f) {
        if (off("vulkan_memory_model"))
            f.vulkanMemoryModel = f.vulkanMemoryModelDeviceScope =
                f.vulkanMemoryModelAvailabilityVisibilityChains = VK_FALSE;
    };
    const auto size_control = [&](auto& f) {
        if (off("subgroup_size_control")) f.subgroupSizeControl = f.computeFullSubgroups = VK_FALSE;
    };
    const auto int_dot = [&](auto& f) {
        if (off("int_dot")) f.shaderIntegerDotProduct = VK_FALSE;
    };
    for (auto* each = static_cast<VkBaseOutStructure*>(next); each; each = each->pNext) {
        const auto as = [each]<class Struct>(Struct*) -> Struct& { return *reinterpret_cast<Struct*>(each); };
#define AS(type) as(static_cast<type*>(nullptr))
        switch (each->sType) {
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES: {
            auto& properties = AS(VkPhysicalDeviceVulkan11Properties);
            subgroups(properties.subgroupSupportedOperations);
            at_most(properties.maxMemoryAllocationSize, "max_allocation");
            break;
        }
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES:
            subgroups(AS(VkPhysicalDeviceSubgroupProperties).supportedOperations);
            break;
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES:
            at_most(AS(VkPhysicalDeviceMaintenance3Properties).maxMemoryAllocationSize, "max_allocation");
            break;
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES:
            float_controls(AS(VkPhysicalDeviceVulkan12Properties));
            break;
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES:
            float_controls(AS(VkPhysicalDeviceFloatControlsProperties));
            break;
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES:
            storage16(AS(VkPhysicalDeviceVulkan11Features));
            break;
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES:
            storage16(AS(VkPhysicalDevice16BitStorageFeatures));
            break;
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES: {
            auto& features = AS(VkPhysicalDeviceVulkan12Features);
            types(features);
            storage8(features);
            memory_model(features);
            uniform_layout(features);
            break;
        }
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES:
            types(AS(VkPhysicalDeviceShaderFloat16Int8Features));
            break;
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES:
            storage8(AS(VkPhysicalDevice8BitStorageFeatures));
            break;
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES:
            memory_model(AS(VkPhysicalDeviceVulkanMemoryModelFeatures));
            break;
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_UNIFORM_BUFFER_STANDARD_LAYOUT_FEATURES:
            uniform_layout(AS(VkPhysicalDeviceUniformBufferStandardLayoutFeatures));
            break;
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES: {
            auto& features = AS(VkPhysicalDeviceVulkan13Features);
            size_control(features);
            int_dot(features);
            break;
        }
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES:
            size_control(AS(VkPhysicalDeviceSubgroupSizeControlFeatures));
            break;
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES:
            int_dot(AS(VkPhysicalDeviceShaderIntegerDotProductFeatures));
            break;
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT:
            for (VkDeviceSize& budget : AS(VkPhysicalDeviceMemoryBudgetPropertiesEXT).heapBudget)
                at_most(budget, "_heap_bytes");
            break;
        default:
            break;
        }
#undef AS
    }
}

}  // namespace scoria_layer
