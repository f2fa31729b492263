// The VkDevice that the renderer and Scoria share, and whose queue is whose.
#pragma once

#include "scoria_vulkan.h"

#include <vulkan/vulkan.h>

#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

struct SDL_Window;

namespace scoria::desktop {

class VulkanError : public std::runtime_error {
  public:
    VulkanError(VkResult result, const std::string& call);
    VkResult result;
};

/// Throws VulkanError for errors; a success other than VK_SUCCESS passes.
void check(VkResult result, const char* call);

/// Instance, surface and device of a window. After VK_ERROR_DEVICE_LOST it is destroyed and made anew.
class VulkanDevice {
  public:
    /// `gpu`: part of a device's name; "" takes the best. Errors: VulkanError, std::runtime_error.
    VulkanDevice(SDL_Window* window, const std::string& gpu);
    ~VulkanDevice();
    VulkanDevice(const VulkanDevice&) = delete;

    VkInstance instance() const { return description_.instance; }
    VkPhysicalDevice physical() const { return description_.physical_device; }
    VkDevice handle() const { return description_.device; }
    VkSurfaceKHR surface() const { return surface_; }
    VkQueue queue() const { return queue_; }
    uint32_t family() const { return family_; }
    const std::string& name() const { return name_; }
    bool is_cpu() const { return is_cpu_; }
    /// Whether Scoria submits to the renderer's queue, under `queue_mutex`, for want of another.
    bool shares_queue() const { return description_.lock_queue != nullptr; }
    std::mutex& queue_mutex() { return queue_mutex_; }

    /// For scoria_engine_options.vulkan; valid while this lives.
    const scoria_vulkan* for_engine() const { return &description_; }

  private:
    struct Features;
    struct Choice;
    void create_instance(SDL_Window* window);
    void create_device(const Choice& choice);
    void destroy();

    scoria_vulkan description_{};
    std::unique_ptr<Features> features_;
    std::vector<const char*> extensions_;
    VkSurfaceKHR surface_ = VK_NULL_HANDLE;
    VkQueue queue_ = VK_NULL_HANDLE;
    uint32_t family_ = 0;
    std::string name_;
    bool is_cpu_ = false;
    std::mutex queue_mutex_;
};

}  // namespace scoria::desktop
