// What a recorded command buffer owns, shared by the recorder that fills it and Commands that keeps it.
#pragma once

#include "device_impl.h"
#include "recorder.h"

namespace scoria::vk {

inline constexpr uint32_t pairs_per_pool = 128;

struct Commands::Impl {
    Device& device;
    QueueKind queue;
    VkCommandPool pool = VK_NULL_HANDLE;
    VkCommandBuffer handle = VK_NULL_HANDLE;
    RecorderStats stats;

    Impl(Device& on, QueueKind kind);
    ~Impl();
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;

    /// A set of `pipeline` whose buffers are `views`, from pools that grow in chunks.
    VkDescriptorSet descriptor_set(const Pipeline& pipeline, std::span<const View> views);

    /// Index of a fresh pair of timestamps; query pools grow in chunks of `chunk` pairs, each reset where it
    /// is first used. One command buffer's chunks are of one size.
    uint32_t timestamp_pair(std::string_view label, uint64_t groups = 0, uint32_t chunk = pairs_per_pool);
    void write_timestamp(uint32_t pair, bool end);
    std::vector<DispatchTime> times() const;

  private:
    VkBufferView texels_of(const View& view);

    std::vector<VkBufferView> buffer_views_;
    std::vector<VkDescriptorPool> descriptor_pools_;
    uint32_t sets_left_ = 0, descriptors_left_ = 0;  // in the last pool
    std::vector<VkQueryPool> query_pools_;
    std::vector<DispatchTime> timed_;  // by pair, without its times
};

}  // namespace scoria::vk
