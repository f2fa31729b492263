// See attention_map.h.
#include "attention_map.h"
#include "area.vert.h"
#include "attention_map.frag.h"
#include "shaders/attention_map.push.h"

#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <span>

namespace scoria::desktop {
namespace {

constexpr uint64_t patience_ns = 10'000'000'000;

VkShaderModule module_of(VkDevice device, std::span<const uint32_t> words) {
    VkShaderModuleCreateInfo info{VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO};
    info.codeSize = words.size_bytes();
    info.pCode = words.data();
    VkShaderModule made = VK_NULL_HANDLE;
    check(vkCreateShaderModule(device, &info, nullptr, &made), "vkCreateShaderModule");
    return made;
}

uint32_t device_memory_type(VkPhysicalDevice physical, uint32_t allowed) {
    VkPhysicalDeviceMemoryProperties memory{};
    vkGetPhysicalDeviceMemoryProperties(physical, &memory);
    for (const VkMemoryPropertyFlags wanted :
         {VkMemoryPropertyFlags{VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT}, VkMemoryPropertyFlags{0}})
        for (uint32_t type = 0; type < memory.memoryTypeCount; ++type)
            if ((allowed >> type & 1) && (memory.memoryTypes[type].propertyFlags & wanted) == wanted)
                return type;
    throw VulkanError(VK_ERROR_OUT_OF_DEVICE_MEMORY, "vkAllocateMemory");
}

}  // namespace

AttentionMap::AttentionMap(VulkanDevice& device, VkRenderPass pass) : device_(device) {
    try {
        create_layout();
        create_pipeline(pass);
        create_commands();
    } catch (...) {
        destroy();
        throw;
    }
}

AttentionMap::~AttentionMap() { destroy(); }

void AttentionMap::destroy() noexcept {
    const VkDevice device = device_.handle();
    for (const Slot& slot : slots_) {
        vkDestroyBuffer(device, slot.buffer, nullptr);
        vkFreeMemory(device, slot.memory, nullptr);
    }
    vkDestroyFence(device, copied_, nullptr);
    vkDestroyCommandPool(device, pool_, nullptr);
    vkDestroyDescriptorPool(device, sets_, nullptr);
    vkDestroyPipeline(device, pipeline_, nullptr);
    vkDestroyPipelineLayout(device, layout_, nullptr);
    vkDestroyDescriptorSetLayout(device, set_layout_, nullptr);
}

void AttentionMap::create_layout() {
    const VkDevice device = device_.handle();
    VkDescriptorSetLayoutBinding binding{0, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1};
    binding.stageFlags = VK_SHADER_STAGE_FRAGMENT_BIT;
    VkDescriptorSetLayoutCreateInfo set{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO};
    set.bindingCount = 1;
    set.pBindings = &binding;
    check(vkCreateDescriptorSetLayout(device, &set, nullptr, &set_layout_), "vkCreateDescriptorSetLayout");
    const VkPushConstantRange push{VK_SHADER_STAGE_FRAGMENT_BIT, 0, sizeof(AttentionMapPush)};
    VkPipelineLayoutCreateInfo layout{VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
    layout.setLayoutCount = layout.pushConstantRangeCount = 1;
    layout.pSetLayouts = &set_layout_;
    layout.pPushConstantRanges = &push;
    check(vkCreatePipelineLayout(device, &layout, nullptr, &layout_), "vkCreatePipelineLayout");

    const VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, uint32_t(slots_.size())};
    VkDescriptorPoolCreateInfo pool{VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO};
    pool.maxSets = size.descriptorCount;
    pool.poolSizeCount = 1;
    pool.pPoolSizes = &size;
    check(vkCreateDescriptorPool(device, &pool, nullptr, &sets_), "vkCreateDescriptorPool");
    VkDescriptorSetAllocateInfo info{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO};
    info.descriptorPool = sets_;
    info.descriptorSetCount = 1;
    info.pSetLayouts = &set_layout_;
    for (Slot& slot : slots_)
        check(vkAllocateDescriptorSets(device, &info, &slot.set), "vkAllocateDescriptorSets");
}

void AttentionMap::create_pipeline(VkRenderPass pass) {
    const VkDevice device = device_.handle();
    std::array<VkPipelineShaderStageCreateInfo, 2> stages{};
    stages[0] = {VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO};
    stages[0].pName = "main";
    stages[1] = stages[0];
    stages[0].stage = VK_SHADER_STAGE_VERTEX_BIT;
    stages[1].stage = VK_SHADER_STAGE_FRAGMENT_BIT;
    const VkPipelineVertexInputStateCreateInfo vertices{
        VK_STRUCTURE_TYPE_PIPELINE_VERTEX_INPUT_STATE_CREATE_INFO};
    VkPipelineInputAssemblyStateCreateInfo assembly{
        VK_STRUCTURE_TYPE_PIPELINE_INPUT_ASSEMBLY_STATE_CREATE_INFO};
    assembly.topology = VK_PRIMITIVE_TOPOLOGY_TRIANGLE_LIST;
    VkPipelineViewportStateCreateInfo viewport{VK_STRUCTURE_TYPE_PIPELINE_VIEWPORT_STATE_CREATE_INFO};
    viewport.viewportCount = viewport.scissorCount = 1;
    VkPipelineRasterizationStateCreateInfo raster{VK_STRUCTURE_TYPE_PIPELINE_RASTERIZATION_STATE_CREATE_INFO};
    raster.lineWidth = 1;
    VkPipelineMultisampleStateCreateInfo samples{VK_STRUCTURE_TYPE_PIPELINE_MULTISAMPLE_STATE_CREATE_INFO};
    samples.rasterizationSamples = VK_SAMPLE_COUNT_1_BIT;
    VkPipelineColorBlendAttachmentState opaque{};
    opaque.colorWriteMask = VK_COLOR_COMPONENT_R_BIT | VK_COLOR_COMPONENT_G_BIT | VK_COLOR_COMPONENT_B_BIT |
                            VK_COLOR_COMPONENT_A_BIT;
    VkPipelineColorBlendStateCreateInfo blend{VK_STRUCTURE_TYPE_PIPELINE_COLOR_BLEND_STATE_CREATE_INFO};
    blend.attachmentCount = 1;
    blend.pAttachments = &opaque;
    const VkDynamicState set_later[] = {VK_DYNAMIC_STATE_VIEWPORT, VK_DYNAMIC_STATE_SCISSOR};
    VkPipelineDynamicStateCreateInfo dynamic{VK_STRUCTURE_TYPE_PIPELINE_DYNAMIC_STATE_CREATE_INFO};
    dynamic.dynamicStateCount = 2;
    dynamic.pDynamicStates = set_later;
    VkGraphicsPipelineCreateInfo info{VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_CREATE_INFO};
    info.stageCount = uint32_t(stages.size());
    info.pStages = stages.data();
    info.pVertexInputState = &vertices;
    info.pInputAssemblyState = &assembly;
    info.pViewportState = &viewport;
    info.pRasterizationState = &raster;
    info.pMultisampleState = &samples;
    info.pColorBlendState = &blend;
    info.pDynamicState = &dynamic;
    info.layout = layout_;
    info.renderPass = pass;
    stages[0].module = module_of(device, area_vert);
    VkResult result = VK_SUCCESS;
    try {
        stages[1].module = module_of(device, attention_map_frag);
        result = vkCreateGraphicsPipelines(device, VK_NULL_HANDLE, 1, &info, nullptr, &pipeline_);
    } catch (const VulkanError& error) {
        result = error.result;
    }
    for (const auto& stage : stages) vkDestroyShaderModule(device, stage.module, nullptr);
    check(result, "vkCreateGraphicsPipelines");
}

void AttentionMap::create_commands() {
    const VkDevice device = device_.handle();
    VkCommandPoolCreateInfo pool{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
    pool.flags = VK_COMMAND_POOL_CREATE_TRANSIENT_BIT;
    pool.queueFamilyIndex = device_.for_engine()->queue_family;
    check(vkCreateCommandPool(device, &pool, nullptr, &pool_), "vkCreateCommandPool");
    VkCommandBufferAllocateInfo commands{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
    commands.commandPool = pool_;
    commands.commandBufferCount = 1;
    check(vkAllocateCommandBuffers(device, &commands, &copies_), "vkAllocateCommandBuffers");
    const VkFenceCreateInfo fence{VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    check(vkCreateFence(device, &fence, nullptr, &copied_), "vkCreateFence");
}

// --- the engine's side --------------------------------------------------------------------------------

void AttentionMap::take(const scoria_shared& weights, bool last) noexcept try {
    size_t free = 0;
    {
        const std::lock_guard lock(mutex_);
        if (newest_ != none && !drawn_ && !last) return;
        while (free == newest_ || std::ranges::find(in_flight_, free) != in_flight_.end()) ++free;
    }
    Slot& slot = slots_[free];
    reserve(slot, weights.bytes);
    copy(weights, slot);
    slot.shown = {weights.rows, weights.cols};
    const std::lock_guard lock(mutex_);
    newest_ = free;
    drawn_ = false;
} catch (const VulkanError&) {
}

void AttentionMap::forget() {
    const std::lock_guard lock(mutex_);
    newest_ = none;
}

void AttentionMap::reserve(Slot& slot, VkDeviceSize bytes) {
    if (slot.capacity >= bytes) return;
    const VkDevice device = device_.handle();
    vkDestroyBuffer(device, slot.buffer, nullptr);
    vkFreeMemory(device, slot.memory, nullptr);
    slot.buffer = VK_NULL_HANDLE;
    slot.memory = VK_NULL_HANDLE;
    slot.capacity = 0;
    bytes = std::max<VkDeviceSize>(2 * bytes, 1 << 16);  // sequences grow
    const uint32_t families[] = {device_.family(), device_.for_engine()->queue_family};
    VkBufferCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
    info.size = bytes;
    info.usage = VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_STORAGE_BUFFER_BIT;
    if (families[0] != families[1]) {
        info.sharingMode = VK_SHARING_MODE_CONCURRENT;
        info.queueFamilyIndexCount = 2;
        info.pQueueFamilyIndices = families;
    }
    check(vkCreateBuffer(device, &info, nullptr, &slot.buffer), "vkCreateBuffer");
    VkMemoryRequirements needs{};
    vkGetBufferMemoryRequirements(device, slot.buffer, &needs);
    VkMemoryAllocateInfo memory{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
    memory.allocationSize = needs.size;
    memory.memoryTypeIndex = device_memory_type(device_.physical(), needs.memoryTypeBits);
    check(vkAllocateMemory(device, &memory, nullptr, &slot.memory), "vkAllocateMemory");
    check(vkBindBufferMemory(device, slot.buffer, slot.memory, 0), "vkBindBufferMemory");
    slot.capacity = bytes;
    const VkDescriptorBufferInfo whole{slot.buffer, 0, VK_WHOLE_SIZE};
    VkWriteDescriptorSet write{VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET};
    write.dstSet = slot.set;
    write.descriptorCount = 1;
    write.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    write.pBufferInfo = &whole;
    vkUpdateDescriptorSets(device, 1, &write, 0, nullptr);
}

void AttentionMap::copy(const scoria_shared& from, const Slot& to) {
    const VkDevice device = device_.handle();
    check(vkResetCommandPool(device, pool_, 0), "vkResetCommandPool");
    VkCommandBufferBeginInfo begin{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
    check(vkBeginCommandBuffer(copies_, &begin), "vkBeginCommandBuffer");
    const VkBufferCopy region{from.offset, 0, from.bytes};
    vkCmdCopyBuffer(copies_, from.buffer, to.buffer, 1, &region);
    check(vkEndCommandBuffer(copies_), "vkEndCommandBuffer");
    VkTimelineSemaphoreSubmitInfo values{VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO};
    values.waitSemaphoreValueCount = 1;
    values.pWaitSemaphoreValues = &from.value;
    const VkPipelineStageFlags stage = VK_PIPELINE_STAGE_TRANSFER_BIT;
    VkSubmitInfo submit{VK_STRUCTURE_TYPE_SUBMIT_INFO, &values};
    submit.waitSemaphoreCount = submit.commandBufferCount = 1;
    submit.pWaitSemaphores = &from.semaphore;
    submit.pWaitDstStageMask = &stage;
    submit.pCommandBuffers = &copies_;
    check(vkResetFences(device, 1, &copied_), "vkResetFences");
    {
        // A queue of the engine's own is this thread's.
        const std::unique_lock lock =
            device_.shares_queue() ? std::unique_lock(device_.queue_mutex()) : std::unique_lock<std::mutex>();
        check(vkQueueSubmit(device_.for_engine()->queue, 1, &submit, copied_), "vkQueueSubmit");
    }
    if (vkWaitForFences(device, 1, &copied_, VK_TRUE, patience_ns) != VK_SUCCESS)
        throw VulkanError(VK_ERROR_DEVICE_LOST, "vkWaitForFences");
}

// --- the window's side --------------------------------------------------------------------------------

AttentionMap::Shown AttentionMap::shown() {
    const std::lock_guard lock(mutex_);
    return newest_ == none ? Shown{} : slots_[newest_].shown;
}

void AttentionMap::place(float left, float top, float width, float height) {
    area_ = {left, top, width, height, 0, 1};
}

void AttentionMap::begin_frame(size_t frame, VkCommandBuffer commands, VkExtent2D extent) {
    frame_ = frame;
    commands_ = commands;
    extent_ = extent;
    {
        const std::lock_guard lock(mutex_);
        in_flight_[frame] = newest_;
        drawn_ = true;
    }
    // The fence made the copy available; this makes it visible.
    const VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, VK_ACCESS_TRANSFER_WRITE_BIT,
                                  VK_ACCESS_SHADER_READ_BIT};
    vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_FRAGMENT_SHADER_BIT, 0,
                         1, &barrier, 0, nullptr, 0, nullptr);
}

void AttentionMap::draw(const ImDrawList*, const ImDrawCmd* command) {
    const auto& map = *static_cast<const AttentionMap*>(command->UserCallbackData);
    const size_t slot = map.in_flight_[map.frame_];  // of this thread until the next frame
    if (slot != none) map.draw_slot(map.slots_[slot], *command);
}

void AttentionMap::draw_slot(const Slot& slot, const ImDrawCmd& command) const {
    const ImVec2 ratio = ImGui::GetIO().DisplayFramebufferScale;
    const auto within = [](float at, uint32_t most) { return int32_t(std::clamp(at, 0.0f, float(most))); };
    const ImVec4& clip = command.ClipRect;
    const int32_t left = within(std::max(clip.x * ratio.x, area_.x), extent_.width),
                  top = within(std::max(clip.y * ratio.y, area_.y), extent_.height),
                  right = within(std::min(clip.z * ratio.x, area_.x + area_.width), extent_.width),
                  bottom = within(std::min(clip.w * ratio.y, area_.y + area_.height), extent_.height);
    if (right <= left || bottom <= top) return;
    const VkRect2D scissor{{left, top}, {uint32_t(right - left), uint32_t(bottom - top)}};
    const AttentionMapPush push{area_.x,      area_.y,          area_.width,
                                area_.height, slot.shown.heads, slot.shown.positions};
    vkCmdBindPipeline(commands_, VK_PIPELINE_BIND_POINT_GRAPHICS, pipeline_);
    vkCmdBindDescriptorSets(commands_, VK_PIPELINE_BIND_POINT_GRAPHICS, layout_, 0, 1, &slot.set, 0, nullptr);
    vkCmdPushConstants(commands_, layout_, VK_SHADER_STAGE_FRAGMENT_BIT, 0, sizeof push, &push);
    vkCmdSetViewport(commands_, 0, 1, &area_);
    vkCmdSetScissor(commands_, 0, 1, &scissor);
    vkCmdDraw(commands_, 3, 1, 0, 0);
}

}  // namespace scoria::desktop
