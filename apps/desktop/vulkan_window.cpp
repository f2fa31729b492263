// See vulkan_window.h. The device is never waited for as a whole: Scoria may be using it from its own thread.
#include "vulkan_window.h"
#include "style.h"

#include <SDL.h>
#include <SDL_vulkan.h>
#include <imgui.h>
#if __has_include(<backends/imgui_impl_sdl2.h>)
#include <backends/imgui_impl_sdl2.h>
#else
#include <backends/imgui_impl_sdl.h>
#endif
#include <backends/imgui_impl_vulkan.h>

#include <algorithm>
#include <utility>

namespace scoria::desktop {
namespace {

constexpr uint64_t patience_ns = 1'000'000'000;  // a busy GPU costs a frame, not the events behind it

void check_imgui(VkResult result) { check(result, "Dear ImGui's renderer"); }

VkSurfaceFormatKHR choose_format(const VulkanDevice& device) {
    uint32_t count = 0;
    check(vkGetPhysicalDeviceSurfaceFormatsKHR(device.physical(), device.surface(), &count, nullptr),
          "vkGetPhysicalDeviceSurfaceFormatsKHR");
    std::vector<VkSurfaceFormatKHR> formats(count);
    check(vkGetPhysicalDeviceSurfaceFormatsKHR(device.physical(), device.surface(), &count, formats.data()),
          "vkGetPhysicalDeviceSurfaceFormatsKHR");
    // ImGui's colours are display values already, so no sRGB format.
    for (const VkSurfaceFormatKHR& format : formats)
        if (format.format == VK_FORMAT_B8G8R8A8_UNORM || format.format == VK_FORMAT_R8G8B8A8_UNORM)
            return format;
    if (formats.empty()) throw VulkanError(VK_ERROR_SURFACE_LOST_KHR, "vkGetPhysicalDeviceSurfaceFormatsKHR");
    return formats.front();
}

// Later versions of Dear ImGui have the render pass in their struct.
template <class Info> bool init_renderer(Info& info, VkRenderPass pass) {
    if constexpr (requires { info.RenderPass = pass; }) {
        info.RenderPass = pass;
        return ImGui_ImplVulkan_Init(&info);
    } else {
        return ImGui_ImplVulkan_Init(&info, pass);
    }
}

}  // namespace

VulkanWindow::VulkanWindow(SDL_Window* window, std::string gpu, float scale)
    : window_(window), gpu_(std::move(gpu)), wanted_scale_(scale) {
    try {
        create();
    } catch (...) {
        destroy();
        throw;
    }
}

VulkanWindow::~VulkanWindow() { destroy(); }

void VulkanWindow::rebuild() {
    destroy();
    create();
}

void VulkanWindow::create() {
    device_ = std::make_unique<VulkanDevice>(window_, gpu_);
    format_ = choose_format(*device_);
    create_render_pass();
    attention_ = std::make_unique<AttentionMap>(*device_, render_pass_);
    create_frames();
    const VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER, 8};
    VkDescriptorPoolCreateInfo pool{VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO};
    pool.flags = VK_DESCRIPTOR_POOL_CREATE_FREE_DESCRIPTOR_SET_BIT;
    pool.maxSets = size.descriptorCount;
    pool.poolSizeCount = 1;
    pool.pPoolSizes = &size;
    check(vkCreateDescriptorPool(device_->handle(), &pool, nullptr, &descriptors_), "vkCreateDescriptorPool");
    create_swapchain();
    ui_scale_ = 0;
    follow_display();
}

void VulkanWindow::destroy() {
    if (!device_) return;
    const VkDevice device = device_->handle();
    try {
        wait_idle();
    } catch (const VulkanError&) {  // lost: nothing runs on it any more
    }
    stop_imgui();
    attention_.reset();
    destroy_images();
    for (Frame& frame : frames_) {
        vkDestroyCommandPool(device, frame.pool, nullptr);
        vkDestroyFence(device, frame.done, nullptr);
        vkDestroySemaphore(device, frame.acquired, nullptr);
        frame = {};
    }
    vkDestroySwapchainKHR(device, std::exchange(swapchain_, VK_NULL_HANDLE), nullptr);
    vkDestroyDescriptorPool(device, std::exchange(descriptors_, VK_NULL_HANDLE), nullptr);
    vkDestroyRenderPass(device, std::exchange(render_pass_, VK_NULL_HANDLE), nullptr);
    device_.reset();
}

/// Waits for the renderer's queue; with Scoria on it too, for the submissions it has in flight.
void VulkanWindow::wait_idle() {
    const std::lock_guard lock(device_->queue_mutex());
    check(vkQueueWaitIdle(device_->queue()), "vkQueueWaitIdle");
}

void VulkanWindow::create_render_pass() {
    VkAttachmentDescription color{};
    color.format = format_.format;
    color.samples = VK_SAMPLE_COUNT_1_BIT;
    color.loadOp = VK_ATTACHMENT_LOAD_OP_CLEAR;
    color.storeOp = VK_ATTACHMENT_STORE_OP_STORE;
    color.stencilLoadOp = VK_ATTACHMENT_LOAD_OP_DONT_CARE;
    color.stencilStoreOp = VK_ATTACHMENT_STORE_OP_DONT_CARE;
    color.finalLayout = VK_IMAGE_LAYOUT_PRESENT_SRC_KHR;
    const VkAttachmentReference reference{0, VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL};
    VkSubpassDescription subpass{};
    subpass.pipelineBindPoint = VK_PIPELINE_BIND_POINT_GRAPHICS;
    subpass.colorAttachmentCount = 1;
    subpass.pColorAttachments = &reference;
    // The clear waits for the semaphore that the acquired image signals at this stage.
    VkSubpassDependency dependency{VK_SUBPASS_EXTERNAL, 0};
    dependency.srcStageMask = dependency.dstStageMask = VK_PIPELINE_STAGE_COLOR_ATTACHMENT_OUTPUT_BIT;
    dependency.dstAccessMask = VK_ACCESS_COLOR_ATTACHMENT_WRITE_BIT;
    VkRenderPassCreateInfo info{VK_STRUCTURE_TYPE_RENDER_PASS_CREATE_INFO};
    info.attachmentCount = info.subpassCount = info.dependencyCount = 1;
    info.pAttachments = &color;
    info.pSubpasses = &subpass;
    info.pDependencies = &dependency;
    check(vkCreateRenderPass(device_->handle(), &info, nullptr, &render_pass_), "vkCreateRenderPass");
}

void VulkanWindow::create_frames() {
    const VkDevice device = device_->handle();
    for (Frame& frame : frames_) {
        VkCommandPoolCreateInfo pool{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
        pool.flags = VK_COMMAND_POOL_CREATE_TRANSIENT_BIT;
        pool.queueFamilyIndex = device_->family();
        check(vkCreateCommandPool(device, &pool, nullptr, &frame.pool), "vkCreateCommandPool");
        VkCommandBufferAllocateInfo commands{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
        commands.commandPool = frame.pool;
        commands.commandBufferCount = 1;
        check(vkAllocateCommandBuffers(device, &commands, &frame.commands), "vkAllocateCommandBuffers");
        VkFenceCreateInfo fence{VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
        fence.flags = VK_FENCE_CREATE_SIGNALED_BIT;
        check(vkCreateFence(device, &fence, nullptr, &frame.done), "vkCreateFence");
        const VkSemaphoreCreateInfo semaphore{VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO};
        check(vkCreateSemaphore(device, &semaphore, nullptr, &frame.acquired), "vkCreateSemaphore");
    }
}

/// Follows the window's size; without an area there is no swapchain.
void VulkanWindow::create_swapchain() {
    wait_idle();
    destroy_images();
    outdated_ = false;
    VkSurfaceCapabilitiesKHR surface{};
    check(vkGetPhysicalDeviceSurfaceCapabilitiesKHR(device_->physical(), device_->surface(), &surface),
          "vkGetPhysicalDeviceSurfaceCapabilitiesKHR");
    extent_ = surface.currentExtent;
    if (extent_.width == UINT32_MAX) {  // the swapchain decides: Wayland
        int width = 0, height = 0;
        SDL_Vulkan_GetDrawableSize(window_, &width, &height);
        extent_.width =
            std::clamp(uint32_t(width), surface.minImageExtent.width, surface.maxImageExtent.width);
        extent_.height =
            std::clamp(uint32_t(height), surface.minImageExtent.height, surface.maxImageExtent.height);
    }
    const VkSwapchainKHR old = std::exchange(swapchain_, VK_NULL_HANDLE);
    VkSwapchainCreateInfoKHR info{VK_STRUCTURE_TYPE_SWAPCHAIN_CREATE_INFO_KHR};
    info.surface = device_->surface();
    info.minImageCount = std::max(surface.minImageCount, 3u);
    if (surface.maxImageCount) info.minImageCount = std::min(info.minImageCount, surface.maxImageCount);
    info.imageFormat = format_.format;
    info.imageColorSpace = format_.colorSpace;
    info.imageExtent = extent_;
    info.imageArrayLayers = 1;
    info.imageUsage = VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT;
    info.preTransform = surface.currentTransform;
    info.compositeAlpha = surface.supportedCompositeAlpha & VK_COMPOSITE_ALPHA_OPAQUE_BIT_KHR
                              ? VK_COMPOSITE_ALPHA_OPAQUE_BIT_KHR
                              : VK_COMPOSITE_ALPHA_INHERIT_BIT_KHR;
    info.presentMode = VK_PRESENT_MODE_FIFO_KHR;
    info.clipped = VK_TRUE;
    info.oldSwapchain = old;
    VkResult result = VK_SUCCESS;
    if (extent_.width && extent_.height)
        result = vkCreateSwapchainKHR(device_->handle(), &info, nullptr, &swapchain_);
    vkDestroySwapchainKHR(device_->handle(), old, nullptr);
    check(result, "vkCreateSwapchainKHR");
    if (swapchain_) create_images();
}

void VulkanWindow::create_images() {
    const VkDevice device = device_->handle();
    uint32_t count = 0;
    check(vkGetSwapchainImagesKHR(device, swapchain_, &count, nullptr), "vkGetSwapchainImagesKHR");
    std::vector<VkImage> handles(count);
    check(vkGetSwapchainImagesKHR(device, swapchain_, &count, handles.data()), "vkGetSwapchainImagesKHR");
    images_.resize(count);
    for (uint32_t i = 0; i < count; ++i) {
        VkImageViewCreateInfo view{VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO};
        view.image = handles[i];
        view.viewType = VK_IMAGE_VIEW_TYPE_2D;
        view.format = format_.format;
        view.subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
        check(vkCreateImageView(device, &view, nullptr, &images_[i].view), "vkCreateImageView");
        VkFramebufferCreateInfo framebuffer{VK_STRUCTURE_TYPE_FRAMEBUFFER_CREATE_INFO};
        framebuffer.renderPass = render_pass_;
        framebuffer.attachmentCount = 1;
        framebuffer.pAttachments = &images_[i].view;
        framebuffer.width = extent_.width;
        framebuffer.height = extent_.height;
        framebuffer.layers = 1;
        check(vkCreateFramebuffer(device, &framebuffer, nullptr, &images_[i].framebuffer),
              "vkCreateFramebuffer");
        const VkSemaphoreCreateInfo semaphore{VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO};
        check(vkCreateSemaphore(device, &semaphore, nullptr, &images_[i].drawn), "vkCreateSemaphore");
    }
}

void VulkanWindow::destroy_images() {
    const VkDevice device = device_->handle();
    for (const Image& image : images_) {
        vkDestroyFramebuffer(device, image.framebuffer, nullptr);
        vkDestroyImageView(device, image.view, nullptr);
        vkDestroySemaphore(device, image.drawn, nullptr);
    }
    images_.clear();
}

// --- Dear ImGui ---------------------------------------------------------------------------------------

void VulkanWindow::start_imgui() {
    imgui_runs_ = true;
    ImGui_ImplSDL2_InitForVulkan(window_);
    ImGui_ImplVulkan_InitInfo info{};
    info.Instance = device_->instance();
    info.PhysicalDevice = device_->physical();
    info.Device = device_->handle();
    info.QueueFamily = device_->family();
    info.Queue = device_->queue();
    info.DescriptorPool = descriptors_;
    info.MinImageCount = 2;
    // Of its vertex buffers: one set more than frames in flight would do, an image of the swapchain each
    // does.
    info.ImageCount = std::max<uint32_t>(uint32_t(frames_.size()) + 1, 3);
    info.CheckVkResultFn = check_imgui;
    init_renderer(info, render_pass_);
    upload_fonts();
}

void VulkanWindow::stop_imgui() {
    if (!imgui_runs_) return;
    imgui_runs_ = false;
    if (ImGui::GetIO().BackendRendererUserData) ImGui_ImplVulkan_Shutdown();
    if (ImGui::GetIO().BackendPlatformUserData) ImGui_ImplSDL2_Shutdown();
}

#if IMGUI_VERSION_NUM >= 19000  // which does it in its first new frame
void VulkanWindow::upload_fonts() {}
#else
void VulkanWindow::upload_fonts() {
    const Frame& frame = frames_[0];  // nothing is in flight
    check(vkResetCommandPool(device_->handle(), frame.pool, 0), "vkResetCommandPool");
    VkCommandBufferBeginInfo begin{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
    check(vkBeginCommandBuffer(frame.commands, &begin), "vkBeginCommandBuffer");
    ImGui_ImplVulkan_CreateFontsTexture(frame.commands);
    check(vkEndCommandBuffer(frame.commands), "vkEndCommandBuffer");
    VkSubmitInfo submit{VK_STRUCTURE_TYPE_SUBMIT_INFO};
    submit.commandBufferCount = 1;
    submit.pCommandBuffers = &frame.commands;
    {
        const std::lock_guard lock(device_->queue_mutex());
        check(vkQueueSubmit(device_->queue(), 1, &submit, VK_NULL_HANDLE), "vkQueueSubmit");
    }
    wait_idle();
    ImGui_ImplVulkan_DestroyFontUploadObjects();
}
#endif

/// Starts ImGui's backends, and again when fonts of another size are needed.
void VulkanWindow::follow_display() {
    int width = 1, height = 1, pixels = 1, rows = 1;
    SDL_GetWindowSize(window_, &width, &height);
    SDL_Vulkan_GetDrawableSize(window_, &pixels, &rows);
    const float pixel_ratio = width > 0 && pixels > 0 ? float(pixels) / float(width) : 1;
    const float scale = wanted_scale_ > 0 ? wanted_scale_ : display_scale(window_, pixel_ratio);
    if (scale != ui_scale_ || scale * pixel_ratio != font_scale_) {
        wait_idle();
        stop_imgui();
        ui_scale_ = scale;
        font_scale_ = scale * pixel_ratio;
        apply_style(ui_scale_, pixel_ratio);
        start_imgui();
    }
}

void VulkanWindow::new_frame() {
    follow_display();
    {
        const std::lock_guard lock(
            device_->queue_mutex());  // versions that upload fonts by themselves submit
        ImGui_ImplVulkan_NewFrame();
    }
    ImGui_ImplSDL2_NewFrame();
    ImGui::NewFrame();
}

// --- a frame ------------------------------------------------------------------------------------------

void VulkanWindow::record(size_t index, const Image& image, ImDrawData* data) {
    const Frame& frame = frames_[index];
    check(vkResetCommandPool(device_->handle(), frame.pool, 0), "vkResetCommandPool");
    VkCommandBufferBeginInfo begin{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
    check(vkBeginCommandBuffer(frame.commands, &begin), "vkBeginCommandBuffer");
    attention_->begin_frame(index, frame.commands, extent_);
    const VkClearValue background{{{0.08f, 0.08f, 0.10f, 1}}};
    VkRenderPassBeginInfo pass{VK_STRUCTURE_TYPE_RENDER_PASS_BEGIN_INFO};
    pass.renderPass = render_pass_;
    pass.framebuffer = image.framebuffer;
    pass.renderArea.extent = extent_;
    pass.clearValueCount = 1;
    pass.pClearValues = &background;
    vkCmdBeginRenderPass(frame.commands, &pass, VK_SUBPASS_CONTENTS_INLINE);
    ImGui_ImplVulkan_RenderDrawData(data, frame.commands);
    vkCmdEndRenderPass(frame.commands);
    check(vkEndCommandBuffer(frame.commands), "vkEndCommandBuffer");
}

bool VulkanWindow::present(ImDrawData* data) {
    if (outdated_ || !swapchain_) create_swapchain();
    if (!swapchain_) return false;
    const VkDevice device = device_->handle();
    const Frame& frame = frames_[frame_];
    VkResult result = vkWaitForFences(device, 1, &frame.done, VK_TRUE, patience_ns);
    check(result, "vkWaitForFences");
    if (result != VK_SUCCESS) return false;
    uint32_t index = 0;
    result = vkAcquireNextImageKHR(device, swapchain_, patience_ns, frame.acquired, VK_NULL_HANDLE, &index);
    outdated_ = result == VK_ERROR_OUT_OF_DATE_KHR || result == VK_SUBOPTIMAL_KHR;
    if (result != VK_ERROR_OUT_OF_DATE_KHR) check(result, "vkAcquireNextImageKHR");
    if (result != VK_SUCCESS && result != VK_SUBOPTIMAL_KHR) return false;
    record(frame_, images_[index], data);
    frame_ = (frame_ + 1) % frames_.size();
    return show(index, frame);
}

bool VulkanWindow::show(uint32_t index, const Frame& frame) {
    const Image& image = images_[index];
    const VkPipelineStageFlags stage = VK_PIPELINE_STAGE_COLOR_ATTACHMENT_OUTPUT_BIT;
    VkSubmitInfo submit{VK_STRUCTURE_TYPE_SUBMIT_INFO};
    submit.waitSemaphoreCount = submit.commandBufferCount = submit.signalSemaphoreCount = 1;
    submit.pWaitSemaphores = &frame.acquired;
    submit.pWaitDstStageMask = &stage;
    submit.pCommandBuffers = &frame.commands;
    submit.pSignalSemaphores = &image.drawn;
    check(vkResetFences(device_->handle(), 1, &frame.done), "vkResetFences");
    {
        const std::lock_guard lock(device_->queue_mutex());
        check(vkQueueSubmit(device_->queue(), 1, &submit, frame.done), "vkQueueSubmit");
    }
    // A CPU driver waits for the picture inside of vkQueuePresentKHR, where it would keep Scoria out.
    if (device_->is_cpu())
        check(vkWaitForFences(device_->handle(), 1, &frame.done, VK_TRUE, 10 * patience_ns),
              "vkWaitForFences");
    VkPresentInfoKHR info{VK_STRUCTURE_TYPE_PRESENT_INFO_KHR};
    info.waitSemaphoreCount = info.swapchainCount = 1;
    info.pWaitSemaphores = &image.drawn;
    info.pSwapchains = &swapchain_;
    info.pImageIndices = &index;
    const std::lock_guard lock(device_->queue_mutex());
    const VkResult result = vkQueuePresentKHR(device_->queue(), &info);
    if (result == VK_ERROR_OUT_OF_DATE_KHR || result == VK_SUBOPTIMAL_KHR)
        outdated_ = true;
    else
        check(result, "vkQueuePresentKHR");
    return result != VK_ERROR_OUT_OF_DATE_KHR;
}

}  // namespace scoria::desktop
