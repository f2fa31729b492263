// What the heads of the last token attend to, drawn by a fragment shader from a buffer that the model's
// weights were copied to on the GPU: no number of it comes to the host.
#pragma once

#include "vulkan_device.h"

#include <array>
#include <cstdint>
#include <mutex>

struct ImDrawCmd;
struct ImDrawList;

namespace scoria::desktop {

class AttentionMap {
  public:
    static constexpr size_t frames = 2;  // in flight

    /// Draws in the first subpass of `pass`. Errors: VulkanError.
    AttentionMap(VulkanDevice& device, VkRenderPass pass);
    ~AttentionMap();
    AttentionMap(const AttentionMap&) = delete;

    /// On the thread that calls libscoria, while the session holds still: copies what it shares, and waits
    /// for that. Unless `last`, it does nothing while what came before was not drawn yet. Whatever goes wrong
    /// on the device, the session meets it, too.
    void take(const scoria_shared& weights, bool last) noexcept;
    /// Shows nothing until there is something new.
    void forget();

    // On the window's thread:
    struct Shown {
        uint32_t heads = 0, positions = 0;  // 0: nothing
    };
    Shown shown();
    /// Where the map goes, in pixels; then add `draw` to ImGui's list with this as its data.
    void place(float left, float top, float width, float height);
    static void draw(const ImDrawList* list, const ImDrawCmd* command);
    /// Before the render pass of a frame whose place in flight is free again.
    void begin_frame(size_t frame, VkCommandBuffer commands, VkExtent2D extent);

  private:
    /// One picture. Of as many as there may be in use, one is always free to be written: two frames in
    /// flight, the newest, and that one.
    struct Slot {
        VkBuffer buffer = VK_NULL_HANDLE;
        VkDeviceMemory memory = VK_NULL_HANDLE;
        VkDeviceSize capacity = 0;
        VkDescriptorSet set = VK_NULL_HANDLE;
        Shown shown;
    };
    static constexpr size_t none = SIZE_MAX;

    void create_layout();
    void create_pipeline(VkRenderPass pass);
    void create_commands();
    void destroy() noexcept;
    void reserve(Slot& slot, VkDeviceSize bytes);
    void copy(const scoria_shared& from, const Slot& to);
    void draw_slot(const Slot& slot, const ImDrawCmd& command) const;

    VulkanDevice& device_;
    VkDescriptorSetLayout set_layout_ = VK_NULL_HANDLE;
    VkPipelineLayout layout_ = VK_NULL_HANDLE;
    VkPipeline pipeline_ = VK_NULL_HANDLE;
    VkDescriptorPool sets_ = VK_NULL_HANDLE;
    VkCommandPool pool_ = VK_NULL_HANDLE;  // of the engine's queue
    VkCommandBuffer copies_ = VK_NULL_HANDLE;
    VkFence copied_ = VK_NULL_HANDLE;
    std::array<Slot, frames + 2> slots_;

    std::mutex mutex_;  // guards what follows
    size_t newest_ = none;
    bool drawn_ = false;  // the newest was
    std::array<size_t, frames> in_flight_{none, none};

    // Of the frame being made:
    size_t frame_ = 0;
    VkCommandBuffer commands_ = VK_NULL_HANDLE;
    VkExtent2D extent_{};
    VkViewport area_{};
};

}  // namespace scoria::desktop
