// The test layer (tests/layer) and the validation layer above it, for devices that a test makes.
#pragma once

#include <cstdlib>
#include <string>

namespace scoria::test {

/// In the environment while this lives. `profile`: path or empty; `fail`: as in tests/layer/faults.h, for
/// every device made meanwhile. The validation layer comes first in both variables: nearest to the program,
/// so that it queries and calls through ours (see tests/layer/layer.cpp).
struct Layers {
    explicit Layers(const std::string& profile, const std::string& fail = "", bool validation = true) {
        ::setenv("VK_LAYER_PATH",
                 "/usr/local/share/vulkan/explicit_layer.d:/usr/share/vulkan/"
                 "explicit_layer.d:" SCORIA_LAYER_FOLDER,
                 1);
        ::setenv("VK_INSTANCE_LAYERS",
                 validation ? "VK_LAYER_KHRONOS_validation:VK_LAYER_SCORIA_test" : "VK_LAYER_SCORIA_test", 1);
        ::setenv("SCORIA_LAYER_PROFILE", profile.c_str(), 1);
        ::setenv("SCORIA_LAYER_FAIL", fail.c_str(), 1);
    }
    ~Layers() {
        for (const char* name :
             {"VK_LAYER_PATH", "VK_INSTANCE_LAYERS", "SCORIA_LAYER_PROFILE", "SCORIA_LAYER_FAIL"})
            ::unsetenv(name);
    }
    Layers(const Layers&) = delete;
    /// Devices made from now on fail nothing.
    static void spare() { ::setenv("SCORIA_LAYER_FAIL", "", 1); }
};

}  // namespace scoria::test
