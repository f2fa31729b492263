// One compiled shader as the build embeds it: SPIR-V words and the interface that was reflected from
// them. Pipelines and the recorder check every use against it, in release builds too.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace scoria::vk {

/// How a module uses a binding: reads and writes of a storage buffer, or reads of a uniform buffer or of a
/// uniform texel buffer of uvec4.
enum class Access : uint8_t { none = 0, read = 1, write = 2, read_write = 3, uniform = 5, texels = 9 };
/// The largest uniform buffer that every device can bind (maxUniformBufferRange), in bytes.
inline constexpr uint32_t max_uniform_range = 16384;
/// Uniform texel buffers of a module.
inline constexpr uint32_t most_texel_buffers = 3;

/// Capabilities beyond `Shader` that a module declares; each names a member of Caps.
enum class ModuleNeeds : uint32_t {
    none = 0,
    subgroup_basic = 1u << 0,
    subgroup_arithmetic = 1u << 1,
    subgroup_shuffle = 1u << 2,
    subgroup_ballot = 1u << 3,
    float16 = 1u << 4,
    storage16 = 1u << 5,
    int8 = 1u << 6,
    storage8 = 1u << 7,
    int_dot = 1u << 8,
    cooperative_matrix = 1u << 9,
    bfloat16 = 1u << 10,
    vulkan_memory_model = 1u << 11,
    int16 = 1u << 12,
    cooperative_matrix2 = 1u << 13,
    int64 = 1u << 14,
    uniform_scalars = 1u << 15,  // no capability: that it has a uniform buffer
    texel_words = 1u << 16,
    matrix_reductions = 1u << 17,
    unknown = 1u << 31,  // a capability this table has no name for: never usable
};
constexpr ModuleNeeds operator|(ModuleNeeds a, ModuleNeeds b) {
    return ModuleNeeds(uint32_t(a) | uint32_t(b));
}
constexpr bool has(ModuleNeeds set, ModuleNeeds one) { return (uint32_t(set) & uint32_t(one)) != 0; }

/// Value of one specialization constant. 4 bytes; floats travel as their bits.
struct Constant {
    uint32_t id;
    uint32_t value;
    bool operator==(const Constant&) const = default;
};

struct ShaderModule {
    std::string_view name;                   // file stem of the variant, e.g. "linear_vec_sg"
    std::span<const uint32_t> words;         // SPIR-V
    std::span<const Access> bindings;        // buffers of set 0, in binding order
    uint32_t push_size;                      // bytes
    std::span<const uint32_t> constant_ids;  // specialization constants it declares
    ModuleNeeds needs;
    bool ours = true;  // constants 0 and 1 are the workgroup and the subgroup size (pipelines.h)
};

}  // namespace scoria::vk
