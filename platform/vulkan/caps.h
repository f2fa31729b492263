// What one device can do, as one plain struct: the only thing that variant choice looks at. A JSON
// profile can only narrow it (smaller limits, fewer features); a narrowed feature is not enabled either.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace scoria::vk {

// VkPhysicalDeviceProperties::vendorID
inline constexpr uint32_t vendor_amd = 0x1002, vendor_intel = 0x8086, vendor_nvidia = 0x10DE;
inline constexpr uint32_t driver_radv = 3;       // VK_DRIVER_ID_MESA_RADV
inline constexpr uint32_t driver_lavapipe = 13;  // VK_DRIVER_ID_MESA_LLVMPIPE
inline constexpr uint32_t driver_dozen = 23;     // VK_DRIVER_ID_MESA_DOZEN, which goes through Direct3D

enum class DeviceType : uint8_t { other, integrated, discrete, virtual_gpu, cpu };

/// What the sizes of a product of matrices, m x k times k x n, must be multiples of. A subgroup holds them,
/// or all of a workgroup of exactly so many `invocations`, if not 0.
struct MatrixGrain {
    uint32_t m = 0, n = 0, k = 0, invocations = 0;
};

/// Of an element of a uniform texel buffer of uvec4.
inline constexpr uint32_t texel_bytes = 16;

struct Caps {
    // identity
    std::string name, driver_name, driver_info;
    uint32_t vendor_id = 0, device_id = 0, driver_version = 0, api_version = 0, driver_id = 0;
    DeviceType type = DeviceType::other;
    std::array<uint8_t, 16> pipeline_cache_uuid{}, device_uuid{}, driver_uuid{};
    bool is_cpu() const { return type == DeviceType::cpu; }
    /// Whether host memory is further than the device's. An integrated GPU reads both alike, though its
    /// device-local heap may be a small part of them (AMD on Windows); CPU drivers pass for what they stand
    /// in for.
    bool has_bus() const { return type != DeviceType::integrated; }
    /// 64 words a lane (Intel before Xe2): kernels that hold more there spill.
    bool small_register_file() const { return vendor_id == vendor_intel && subgroup_min < 16; }

    /// Two float16 multiply-adds in the time of one of float32, as these vendors publish. Apple's take as
    /// long, Intel's compilers make two of a pair (tools/gates).
    bool float16_fast() const {
        constexpr uint32_t qualcomm = 0x5143, arm = 0x13B5, imagination = 0x1010;
        constexpr uint32_t fast[] = {vendor_amd, vendor_nvidia, qualcomm, arm, imagination};
        return float16 && std::ranges::find(fast, vendor_id) != std::end(fast);
    }

    /// Any byte of a word becomes a float in one instruction as fast as a multiply-add: AMD's
    /// v_cvt_f32_ubyte0 to 3, Intel's moves (from Xe-HP on two, for three that set it into a float's
    /// mantissa). NVIDIA's conversions are slower; of others it is not known.
    bool converts_bytes() const { return vendor_id == vendor_amd || vendor_id == vendor_intel; }

    /// Lanes load words of shared memory in one go, each its own, of a few (shaders/dequant_iq4.glsl). CPU
    /// drivers make a branch and a load of it for each lane.
    bool looks_up_shared() const { return !is_cpu(); }

    // limits; bytes where not said
    uint64_t max_storage_range = 128ull << 20;  // maxStorageBufferRange
    uint64_t max_allocation = 1ull << 30;       // maxMemoryAllocationSize
    uint64_t max_binding = 128ull << 20;        // min of the two and of the largest heap: the shard size
    uint32_t max_storage_buffers = 8;           // per stage
    uint32_t max_invocations = 128;             // per workgroup
    uint32_t max_workgroup_x = 128;             // and y
    uint32_t max_groups = 65535;                // per dimension (the least of the three)
    uint32_t shared_memory = 16384;
    uint32_t push_constants = 128;
    uint32_t storage_alignment = 256;  // minStorageBufferOffsetAlignment
    /// Rounded up to where the next view may begin.
    uint64_t aligned(uint64_t bytes) const {
        return (bytes + storage_alignment - 1) / storage_alignment * storage_alignment;
    }

    // subgroups
    uint32_t subgroup_size = 1, subgroup_min = 1, subgroup_max = 1;
    bool subgroup_arithmetic = false, subgroup_shuffle = false, subgroup_ballot = false;  // in compute
    bool subgroup_size_control = false;   // size can be required in compute, full subgroups too
    uint32_t max_required_subgroups = 0;  // per workgroup, where a size is required
    bool native_subgroups() const {       // DESIGN.md "Subgroups"
        return subgroup_arithmetic && subgroup_size >= 4 &&
               (subgroup_min == subgroup_max || subgroup_size_control);
    }

    // features, each enabled at device creation if true here
    bool float16 = false, storage16 = false, int8 = false, storage8 = false, int16 = false, int64 = false;
    /// On a CPU driver: any range that a storage buffer may have may also be a uniform texel buffer of uvec4.
    bool texel_words = false;
    bool is_lavapipe() const { return driver_id == driver_lavapipe; }
    /// Also where a profile calls lavapipe a GPU.
    bool is_cpu_driver() const { return is_cpu() || is_lavapipe(); }
    /// Lavapipe before Mesa 26: CPUs wait for what its fetches of texels return, and its fma is a product
    /// and a sum (tools/bench/RESULTS.md). So it is in 25.0.7, and not in 26.2.6.
    bool old_lavapipe() const;
    /// Uniform buffers of scalars side by side, aligned as storage buffers are. Of CPU drivers, which alone
    /// gain by them.
    bool uniform_scalars = false;
    bool int_dot = false;       // 4x8-bit packed dot products
    bool int_dot_fast = false;  // in hardware
    bool vulkan_memory_model = false;
    bool bfloat16 = false;
    /// With float16 operands and float32 sums, of this shape and subgroup size.
    bool cooperative_matrix = false;
    uint32_t matrix_m = 0, matrix_n = 0, matrix_k = 0, matrix_subgroup = 0;
    /// VK_NV_cooperative_matrix2: those of any of these multiples, and functions of each element.
    bool cooperative_matrix2 = false;
    bool matrix_reductions = false;          // its reductions and conversions, too
    std::vector<MatrixGrain> matrix_grains;  // of whole workgroups first
    uint32_t matrix_most = 0;                // rows, columns
    uint32_t matrix_reserved = 0;            // of shared memory, where a workgroup holds matrices
    bool timeline_semaphore = true;
    bool memory_budget = false, pipeline_statistics = false;
    bool pipeline_robustness = false;  // whether a GPU's pipelines can do without checks of bounds
    bool unified_memory = false;       // every device-local heap type is host-visible

    // float controls (shader*Float32 / Float16)
    bool denorm_preserve_f16 = false, rte_f16 = false, inf_nan_preserve_f32 = false;
    /// Who is told to keep subnormal halves must be told so of doubles, too (denormBehaviorIndependence).
    bool denorm_f16_as_f64 = false;

    /// unpackHalf2x16 may take subnormal halves for zero, unless the device can be told to keep them, which
    /// it then is (pipelines.cpp). RADV and lavapipe never do, whatever they can promise.
    bool may_flush_halves() const {
        return !denorm_preserve_f16 && driver_id != driver_radv && driver_id != driver_lavapipe;
    }

    uint32_t cores = 0;  // multiprocessors or compute units, each with workgroups of its own; 0: nobody says

    // time
    float timestamp_period = 1;   // nanoseconds per tick
    uint32_t timestamp_bits = 0;  // 0: no timestamps on the compute queue
};

/// `caps` narrowed by a JSON object whose keys are the member names above (see tests/profiles).
/// Limits, features, float controls and timestamp_bits can be narrowed; wider values stay as they are on
/// the device, silently, so that one profile fits all devices; a key that starts with '_' is a comment.
/// type, vendor_id, cores and int_dot_fast, by which kernels are chosen, are taken as they are.
/// Errors: bad_file for malformed JSON, an unknown key, or a value of the wrong type or out of range, such as
/// one below_floor().
Caps narrowed(const Caps& caps, const std::string& json_text, const std::string& where);

/// "max_invocations of at least 128, got 64": the first limit that is less than every kernel may take for
/// granted; empty: none is. Vulkan promises all of them but the storage buffers.
std::string below_floor(const Caps& caps);

/// All members as a JSON object, for `scoria devices --json` and reports.
std::string to_json(const Caps& caps);
/// "1.3.250", of a version as Vulkan packs it.
std::string version_text(uint32_t packed);

}  // namespace scoria::vk
