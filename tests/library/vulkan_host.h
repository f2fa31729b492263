// A host with a Vulkan device of its own, under the validation layer where that is installed.
#pragma once

#include "scoria_vulkan.h"

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace scoria::test {

/// Opens the Vulkan loader of the system, for good; null where there is none.
PFN_vkGetInstanceProcAddr open_vulkan();

/// What a host enables on its device.
struct Enabled {
    bool timeline = true;
    bool as_own_structs = false;  // the features' own structs in place of Vulkan12Features
    bool everything = true;       // every feature that Scoria can use and the device has; else the minimum
    bool validation = true;       // where it is installed
    bool exports = false;         // memory as files, where the device has that: see VulkanHost::exports
};

class VulkanHost {
  public:
    explicit VulkanHost(const Enabled& enabled);
    ~VulkanHost();
    VulkanHost(const VulkanHost&) = delete;

    /// For scoria_engine_options; valid while this lives.
    const scoria_vulkan* description() const { return &description_; }
    scoria_vulkan* description() { return &description_; }
    /// Destroys the device alone, as a host does last; the layer then reports objects left on it.
    void destroy_device();
    /// What the validation layer objected to.
    std::vector<std::string> errors() const;
    bool validated() const { return validated_; }
    bool exports() const { return exports_; }
    size_t locks() const { return locks_; }

    struct Features;

  private:
    struct Functions;
    void create_instance(bool validation);
    void create_device(const Enabled& enabled);

    std::unique_ptr<Functions> fn_;
    std::unique_ptr<Features> features_;
    scoria_vulkan description_{};
    bool validated_ = false, exports_ = false;
    std::mutex queue_mutex_;
    size_t locks_ = 0;
    struct Messages;
    std::unique_ptr<Messages> messages_;
};

}  // namespace scoria::test
