// Descriptor sets, timestamps and the command buffer itself.
#include "commands_impl.h"

#include <algorithm>

namespace scoria::vk {
namespace {

constexpr uint32_t sets_per_pool = 64, descriptors_per_pool = 256;

}  // namespace

Commands::Impl::Impl(Device& on, QueueKind kind) : device(on), queue(kind) {
    pool = device.impl().take_command_pool(queue);
    auto info = vk_struct<VkCommandBufferAllocateInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO);
    info.commandPool = pool;
    info.commandBufferCount = 1;
    const VkResult result = device.fn().vkAllocateCommandBuffers(device.handle(), &info, &handle);
    if (result != VK_SUCCESS) device.impl().give_command_pool(queue, pool);
    check(result, "vkAllocateCommandBuffers");
}

Commands::Impl::~Impl() {
    if (!device.impl().may_free()) return;
    const VolkDeviceTable& fn = device.fn();
    for (const VkBufferView each : buffer_views_)
        fn.vkDestroyBufferView(device.handle(), each, device.callbacks());
    for (const VkDescriptorPool each : descriptor_pools_)
        fn.vkDestroyDescriptorPool(device.handle(), each, device.callbacks());
    for (const VkQueryPool each : query_pools_)
        fn.vkDestroyQueryPool(device.handle(), each, device.callbacks());
    fn.vkFreeCommandBuffers(device.handle(), pool, 1, &handle);
    device.impl().give_command_pool(queue, pool);
}

VkBufferView Commands::Impl::texels_of(const View& view) {
    auto info = vk_struct<VkBufferViewCreateInfo>(VK_STRUCTURE_TYPE_BUFFER_VIEW_CREATE_INFO);
    info.buffer = view.buffer;
    info.format = VK_FORMAT_R32G32B32A32_UINT;
    info.offset = view.offset;
    info.range = view.size / texel_bytes * texel_bytes;
    VkBufferView& made = buffer_views_.emplace_back();
    check(device.fn().vkCreateBufferView(device.handle(), &info, device.callbacks(), &made),
          "vkCreateBufferView");
    return made;
}

VkDescriptorSet Commands::Impl::descriptor_set(const Pipeline& pipeline, std::span<const View> views) {
    const VolkDeviceTable& fn = device.fn();
    const auto count = uint32_t(views.size());
    if (sets_left_ == 0 || descriptors_left_ < count) {
        // A module has one uniform buffer at most.
        const VkDescriptorPoolSize sizes[] = {
            {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, std::max(descriptors_per_pool, count)},
            {VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, sets_per_pool},
            {VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER, most_texel_buffers * sets_per_pool}};
        auto info = vk_struct<VkDescriptorPoolCreateInfo>(VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO);
        info.maxSets = sets_per_pool;
        info.poolSizeCount = uint32_t(std::size(sizes));
        info.pPoolSizes = sizes;
        VkDescriptorPool made = VK_NULL_HANDLE;
        descriptor_pools_.reserve(descriptor_pools_.size() + 1);
        check(fn.vkCreateDescriptorPool(device.handle(), &info, device.callbacks(), &made),
              "vkCreateDescriptorPool");
        descriptor_pools_.push_back(made);
        sets_left_ = info.maxSets;
        descriptors_left_ = sizes[0].descriptorCount;
    }
    auto info = vk_struct<VkDescriptorSetAllocateInfo>(VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO);
    info.descriptorPool = descriptor_pools_.back();
    info.descriptorSetCount = 1;
    info.pSetLayouts = &pipeline.set_layout;
    VkDescriptorSet set = VK_NULL_HANDLE;
    check(fn.vkAllocateDescriptorSets(device.handle(), &info, &set), "vkAllocateDescriptorSets");
    --sets_left_;
    descriptors_left_ -= count;

    std::vector<VkDescriptorBufferInfo> buffers(count);
    std::vector<VkBufferView> texels(count);
    std::vector<VkWriteDescriptorSet> writes(count);
    for (uint32_t i = 0; i < count; ++i) {
        buffers[i] = {views[i].buffer, views[i].offset, views[i].size};
        writes[i] = vk_struct<VkWriteDescriptorSet>(VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET);
        writes[i].dstSet = set;
        writes[i].dstBinding = i;
        writes[i].descriptorCount = 1;
        writes[i].descriptorType = descriptor_type(pipeline.module->bindings[i]);
        writes[i].pBufferInfo = &buffers[i];
        if (pipeline.module->bindings[i] != Access::texels) continue;
        texels[i] = texels_of(views[i]);
        writes[i].pTexelBufferView = &texels[i];
    }
    fn.vkUpdateDescriptorSets(device.handle(), count, writes.data(), 0, nullptr);
    return set;
}

uint32_t Commands::Impl::timestamp_pair(std::string_view label, uint64_t groups, uint32_t chunk) {
    const auto pair = uint32_t(timed_.size());
    if (pair % pairs_per_pool == 0) {
        auto info = vk_struct<VkQueryPoolCreateInfo>(VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO);
        info.queryType = VK_QUERY_TYPE_TIMESTAMP;
        info.queryCount = 2 * chunk;
        VkQueryPool made = VK_NULL_HANDLE;
        query_pools_.reserve(query_pools_.size() + 1);
        check(device.fn().vkCreateQueryPool(device.handle(), &info, device.callbacks(), &made),
              "vkCreateQueryPool");
        query_pools_.push_back(made);
        device.fn().vkCmdResetQueryPool(handle, made, 0, info.queryCount);
    }
    timed_.push_back({.label = label, .groups = groups});
    return pair;
}

void Commands::Impl::write_timestamp(uint32_t pair, bool end) {
    // The compute stage on both sides: the start waits for earlier dispatches to end, as the dispatch may.
    device.fn().vkCmdWriteTimestamp(handle, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                                    query_pools_[pair / pairs_per_pool],
                                    pair % pairs_per_pool * 2 + (end ? 1 : 0));
}

std::vector<DispatchTime> Commands::Impl::times() const {
    const uint32_t bits = device.caps().timestamp_bits;
    const uint64_t mask = bits >= 64 ? ~0ull : (1ull << bits) - 1;
    std::vector<DispatchTime> result = timed_;
    std::vector<uint64_t> ticks(2 * pairs_per_pool);
    const auto microseconds = [&](uint64_t from, uint64_t to) {  // right across a wrap, too
        return double((to - from) & mask) * double(device.caps().timestamp_period) / 1000;
    };
    uint64_t begin = 0;
    for (size_t first = 0; first < timed_.size(); first += pairs_per_pool) {
        const size_t pairs = std::min<size_t>(pairs_per_pool, timed_.size() - first);
        const VkResult got = device.fn().vkGetQueryPoolResults(
            device.handle(), query_pools_[first / pairs_per_pool], 0, uint32_t(2 * pairs), pairs * 16,
            ticks.data(), 8, VK_QUERY_RESULT_64_BIT);
        if (got == VK_NOT_READY) return {};  // not finished
        check(got, "vkGetQueryPoolResults");
        if (first == 0) begin = ticks[0];
        for (size_t i = 0; i < pairs; ++i) {
            result[first + i].microseconds = microseconds(ticks[2 * i], ticks[2 * i + 1]);
            result[first + i].start = microseconds(begin, ticks[2 * i]);
        }
    }
    return result;
}

Commands::Commands() = default;
Commands::Commands(Commands&&) noexcept = default;
Commands& Commands::operator=(Commands&&) noexcept = default;
Commands::~Commands() = default;
VkCommandBuffer Commands::handle() const { return impl_ ? impl_->handle : VK_NULL_HANDLE; }
const RecorderStats& Commands::stats() const {
    static constexpr RecorderStats none{};
    return impl_ ? impl_->stats : none;
}
std::vector<DispatchTime> Commands::times() const {
    return impl_ ? impl_->times() : std::vector<DispatchTime>{};
}

std::optional<double> Commands::seconds() const {
    const std::vector<DispatchTime> all = times();
    return all.empty() ? std::nullopt : std::optional((all.back().start + all.back().microseconds) * 1e-6);
}

}  // namespace scoria::vk
