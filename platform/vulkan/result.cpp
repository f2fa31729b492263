// VkResult as an Error that names the call.
#include "device.h"

#include <algorithm>

namespace scoria::vk {
namespace {

struct ResultName {
    VkResult result;
    const char* name;
    Status status;
};
constexpr ResultName names[] = {
    {VK_NOT_READY, "VK_NOT_READY", Status::failed},
    {VK_TIMEOUT, "VK_TIMEOUT", Status::timeout},
    {VK_INCOMPLETE, "VK_INCOMPLETE", Status::failed},
    {VK_ERROR_OUT_OF_HOST_MEMORY, "VK_ERROR_OUT_OF_HOST_MEMORY", Status::out_of_host_memory},
    {VK_ERROR_OUT_OF_DEVICE_MEMORY, "VK_ERROR_OUT_OF_DEVICE_MEMORY", Status::out_of_device_memory},
    {VK_ERROR_OUT_OF_POOL_MEMORY, "VK_ERROR_OUT_OF_POOL_MEMORY", Status::out_of_device_memory},
    {VK_ERROR_FRAGMENTED_POOL, "VK_ERROR_FRAGMENTED_POOL", Status::out_of_device_memory},
    {VK_ERROR_TOO_MANY_OBJECTS, "VK_ERROR_TOO_MANY_OBJECTS", Status::out_of_device_memory},
    {VK_ERROR_MEMORY_MAP_FAILED, "VK_ERROR_MEMORY_MAP_FAILED", Status::out_of_device_memory},
    {VK_ERROR_INITIALIZATION_FAILED, "VK_ERROR_INITIALIZATION_FAILED", Status::failed},
    {VK_ERROR_DEVICE_LOST, "VK_ERROR_DEVICE_LOST", Status::device_lost},
    {VK_ERROR_LAYER_NOT_PRESENT, "VK_ERROR_LAYER_NOT_PRESENT", Status::unsupported},
    {VK_ERROR_EXTENSION_NOT_PRESENT, "VK_ERROR_EXTENSION_NOT_PRESENT", Status::unsupported},
    {VK_ERROR_FEATURE_NOT_PRESENT, "VK_ERROR_FEATURE_NOT_PRESENT", Status::unsupported},
    {VK_ERROR_INCOMPATIBLE_DRIVER, "VK_ERROR_INCOMPATIBLE_DRIVER", Status::unsupported},
    {VK_ERROR_UNKNOWN, "VK_ERROR_UNKNOWN", Status::failed},
};

const ResultName* named(VkResult result) {
    const auto found = std::ranges::find(names, result, &ResultName::result);
    return found == std::end(names) ? nullptr : found;
}

}  // namespace

Status status_of(VkResult result) {
    const ResultName* known = named(result);
    return known ? known->status : Status::failed;
}

std::string result_text(VkResult result) {
    const ResultName* known = named(result);
    return known ? known->name : cat("VkResult ", int32_t(result));
}

void check(VkResult result, const char* call) {
    if (result != VK_SUCCESS) fail(status_of(result), "vulkan", call, " returned ", result_text(result));
}

}  // namespace scoria::vk
