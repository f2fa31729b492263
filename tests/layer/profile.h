// A caps profile (tests/profiles) applied to what a driver reports about itself.
#pragma once

#include <vulkan/vulkan.h>

#include <cstdint>
#include <map>
#include <string>

namespace scoria_layer {

/// Keys are the members of scoria::vk::Caps. Limits become smaller, alignments larger, features false.
/// `_heap_bytes` (a comment to Caps) bounds the size and budget of every heap. Keys that a layer cannot
/// honour (memory_budget, pipeline_statistics, unified_memory: they describe extensions and memory types
/// that lie below; max_binding: derived) are accepted and ignored.
class Profile {
  public:
    Profile() = default;
    /// Throws std::exception for a file that is missing, malformed, or has an unknown key.
    explicit Profile(const std::string& path);

    void apply(VkPhysicalDeviceProperties& properties) const;
    void apply(VkPhysicalDeviceFeatures& features) const;
    void apply(VkPhysicalDeviceMemoryProperties& memory) const;
    /// Applies to every structure of a pNext chain that the profile speaks about.
    void apply_chain(void* next) const;

  private:
    bool off(const char* feature) const;
    template <class Number> void at_most(Number& value, const char* key) const;
    std::map<std::string, uint64_t> values_;  // features as 0 or 1
};

}  // namespace scoria_layer
