// A window that Dear ImGui draws into: swapchain, frames in flight, and ImGui's two backends.
#pragma once

#include "attention_map.h"

#include <array>
#include <memory>
#include <string>
#include <vector>

struct SDL_Window;
struct ImDrawData;

namespace scoria::desktop {

/// Of the thread that made it. Every call but the constructor and the destructor may throw VulkanError; then
/// `rebuild` makes everything anew. ImGui's context must exist before and after.
class VulkanWindow {
  public:
    /// `scale`: of fonts and spacing, 0 for the display's own.
    VulkanWindow(SDL_Window* window, std::string gpu, float scale);
    ~VulkanWindow();
    VulkanWindow(const VulkanWindow&) = delete;

    VulkanDevice& device() { return *device_; }
    AttentionMap& attention() { return *attention_; }  // of this device
    /// Begins ImGui's frame; follows the display's scale.
    void new_frame();
    /// Draws and presents; false when this frame could not be shown (hidden, resized, GPU busy).
    bool present(ImDrawData* data);
    /// A new VkDevice after the old one was lost. No engine may be left on the old one.
    void rebuild();

  private:
    struct Frame {
        VkCommandPool pool = VK_NULL_HANDLE;
        VkCommandBuffer commands = VK_NULL_HANDLE;
        VkFence done = VK_NULL_HANDLE;
        VkSemaphore acquired = VK_NULL_HANDLE;
    };
    struct Image {
        VkImageView view = VK_NULL_HANDLE;
        VkFramebuffer framebuffer = VK_NULL_HANDLE;
        VkSemaphore drawn = VK_NULL_HANDLE;
    };

    void create();
    void destroy();
    void create_render_pass();
    void create_frames();
    void create_swapchain();
    void create_images();
    void destroy_images();
    void follow_display();
    void start_imgui();
    void stop_imgui();
    void upload_fonts();
    void record(size_t frame, const Image& image, ImDrawData* data);
    bool show(uint32_t image, const Frame& frame);
    void wait_idle();

    SDL_Window* window_;
    std::string gpu_;
    float wanted_scale_;
    float font_scale_ = 0, ui_scale_ = 0;  // what the fonts were made for
    std::unique_ptr<VulkanDevice> device_;
    std::unique_ptr<AttentionMap> attention_;
    VkSurfaceFormatKHR format_{};
    VkRenderPass render_pass_ = VK_NULL_HANDLE;
    VkDescriptorPool descriptors_ = VK_NULL_HANDLE;
    VkSwapchainKHR swapchain_ = VK_NULL_HANDLE;
    VkExtent2D extent_{};
    std::array<Frame, AttentionMap::frames> frames_;
    size_t frame_ = 0;
    std::vector<Image> images_;
    bool outdated_ = false;
    bool imgui_runs_ = false;
};

}  // namespace scoria::desktop
