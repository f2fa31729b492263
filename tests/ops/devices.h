// Devices that tests of kernels choose for: made up, or this machine's with caps that a profile narrows.
#pragma once

#include "fail.h"
#include "file.h"
#include "system.h"
#include "test_env.h"
#include "validate/check.h"

#include <filesystem>
#include <fstream>

namespace scoria::test {

/// Of Turing's shape, with matrices of whole workgroups.
inline vk::Caps nvidia_gpu() {
    vk::Caps caps;
    caps.type = vk::DeviceType::discrete;
    caps.vendor_id = vk::vendor_nvidia;
    caps.subgroup_size = caps.subgroup_min = caps.subgroup_max = caps.matrix_subgroup = 32;
    caps.subgroup_shuffle = true;
    caps.subgroup_arithmetic = caps.subgroup_ballot = caps.float16 = caps.vulkan_memory_model = true;
    caps.cooperative_matrix = caps.cooperative_matrix2 = true;
    caps.matrix_m = caps.matrix_n = caps.matrix_k = 16;
    caps.matrix_grains = {{32, 32, 16, 256}, {32, 16, 16, 128}, {16, 16, 16, 0}};
    caps.matrix_most = 1024;
    caps.matrix_reserved = 16384;
    caps.max_invocations = caps.max_workgroup_x = 1024;
    caps.shared_memory = 49152;
    return caps;
}

inline vk::Caps gpu() {
    vk::Caps caps;
    caps.type = vk::DeviceType::discrete;
    caps.subgroup_size = caps.subgroup_min = caps.subgroup_max = 32;
    caps.subgroup_arithmetic = caps.subgroup_ballot = true;
    return caps;
}

/// A CPU driver that takes the compact kernels.
inline vk::Caps compact_cpu() {
    vk::Caps caps = gpu();
    caps.type = vk::DeviceType::cpu;
    caps.subgroup_shuffle = caps.int64 = true;
    return caps;
}

/// A device whose caps a JSON object narrows.
class Narrowed {
    struct Profile {
        std::filesystem::path path =
            std::filesystem::temp_directory_path() / path_of(cat("scoria-caps-", process_id(), ".json"));
        vk::DeviceOptions options;
        explicit Profile(std::string_view caps) {
            std::ofstream(path) << caps;
            options.select = variable("SCORIA_DEVICE");
            options.caps_profile = path.string();
        }
        ~Profile() { std::filesystem::remove(path); }
    };

  public:
    explicit Narrowed(std::string_view caps) : device(Profile(caps).options) {}

    vk::Device device;
    vk::Pipelines pipelines{device};
    validate::CheckContext context{device, pipelines, validate::Tier::quick, 1};
};

}  // namespace scoria::test
