// See second_family.h.
#include "second_family.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace scoria_layer {

VkQueueFlags added_family(std::string_view text) {
    if (text.empty()) return 0;
    if (text == "compute") return VK_QUEUE_COMPUTE_BIT | VK_QUEUE_TRANSFER_BIT;
    if (text == "transfer") return VK_QUEUE_TRANSFER_BIT;
    throw std::runtime_error("SCORIA_LAYER_FAMILY: expected compute or transfer, got " + std::string(text));
}

bool SecondFamily::wanted(const VkDeviceCreateInfo& info) const {
    return std::any_of(info.pQueueCreateInfos, info.pQueueCreateInfos + info.queueCreateInfoCount,
                       [&](const auto& queue) { return is(queue.queueFamilyIndex); });
}

std::vector<VkDeviceQueueCreateInfo> SecondFamily::below(const VkDeviceCreateInfo& info) const {
    std::vector<VkDeviceQueueCreateInfo> queues(info.pQueueCreateInfos,
                                                info.pQueueCreateInfos + info.queueCreateInfoCount);
    const auto added = std::ranges::find_if(queues, [&](const auto& q) { return is(q.queueFamilyIndex); });
    if (added == queues.end()) return queues;
    added->queueFamilyIndex = 0;
    if (std::ranges::count(queues, 0u, &VkDeviceQueueCreateInfo::queueFamilyIndex) > 1) queues.erase(added);
    return queues;
}

const VkCommandPoolCreateInfo* Below::operator()(const VkCommandPoolCreateInfo* info) {
    if (!family_.is(info->queueFamilyIndex)) return info;
    pool_ = *info;
    pool_.queueFamilyIndex = 0;
    return &pool_;
}

const VkBufferCreateInfo* Below::operator()(const VkBufferCreateInfo* info) {
    const uint32_t* const end = info->pQueueFamilyIndices + info->queueFamilyIndexCount;
    if (info->sharingMode != VK_SHARING_MODE_CONCURRENT ||
        std::none_of(info->pQueueFamilyIndices, end, [&](uint32_t family) { return family_.is(family); }))
        return info;
    buffer_ = *info;
    buffer_.sharingMode = VK_SHARING_MODE_EXCLUSIVE;  // of the two that are one below
    return &buffer_;
}

}  // namespace scoria_layer
