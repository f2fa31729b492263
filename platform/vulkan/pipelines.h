// Compute pipelines, created on first use and kept for the life of the device, through a persistent
// VkPipelineCache whose file is validated (header, vendor, device, driver UUID, checksum) before use.
#pragma once

#include "device.h"
#include "shader_module.h"

#include <initializer_list>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace scoria::vk {

/// Conventions of every shader in shaders/: constant 0 is the workgroup size, 1 the logical subgroup size.
inline constexpr uint32_t constant_workgroup = 0;
inline constexpr uint32_t constant_subgroup = 1;
/// What Pipelines itself sets, where a module declares it: Caps::may_flush_halves(), converts_bytes() and
/// looks_up_shared().
inline constexpr uint32_t constant_halves_flush = 63;
inline constexpr uint32_t constant_converts_bytes = 62;
inline constexpr uint32_t constant_looks_up_shared = 61;

inline VkDescriptorType descriptor_type(Access access) {
    return access == Access::uniform  ? VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER
           : access == Access::texels ? VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER
                                      : VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
}

struct Pipeline {
    VkPipeline handle = VK_NULL_HANDLE;
    VkPipelineLayout layout = VK_NULL_HANDLE;  // shared by all pipelines of such bindings
    VkDescriptorSetLayout set_layout = VK_NULL_HANDLE;
    const ShaderModule* module = nullptr;
};

/// What a driver's compiler says of one executable of a pipeline (VK_KHR_pipeline_executable_properties),
/// under its own names: "VGPRs", "Spilled SGPRs", "Instruction Count" ...
struct PipelineReport {
    std::string module;
    std::vector<Constant> constants;
    std::string executable;  // as the driver calls it; some make several, by subgroup size
    uint32_t subgroup = 0;
    std::vector<std::pair<std::string, double>> statistics;
};

class Pipelines {
  public:
    explicit Pipelines(Device& device);
    ~Pipelines();
    Pipelines(const Pipelines&) = delete;
    Pipelines& operator=(const Pipelines&) = delete;
    /// Around Device::reopen(): all pipelines go; those wanted are made anew.
    void close();
    void open();

    /// The pipeline of `module` with these constants; created at the first call. Thread-safe: threads create
    /// different ones side by side.
    /// Errors: unsupported when the module needs what the device's caps lack, or when a constant is
    /// not declared by the module, or when it has more bindings or push bytes than the device allows.
    /// A native-subgroup module is created with required subgroup size = the value of constant 1
    /// where caps.subgroup_size_control holds.
    const Pipeline& get(const ShaderModule& module, std::span<const Constant> constants);
    const Pipeline& get(const ShaderModule& module, std::initializer_list<Constant> constants) {
        return get(module, std::span(constants.begin(), constants.size()));
    }

    /// Whether nobody said so before of this pipeline: drivers on CPUs compile where one is used first.
    bool first_use(const Pipeline& pipeline);

    /// Of all pipelines so far; empty without DeviceOptions::capture_statistics or caps.pipeline_statistics.
    std::vector<PipelineReport> reports() const;
    size_t created() const;                      // pipelines so far
    std::set<std::string_view> modules() const;  // of these
    double seconds_compiling() const;
    /// Writes the cache file, atomically, if pipelines were made since; failure is logged once, never thrown.
    void save_cache() noexcept;

  private:
    struct Impl;
    Device& device_;
    std::unique_ptr<Impl> impl_;
};

}  // namespace scoria::vk
