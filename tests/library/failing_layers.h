// Our layer of tests/layer below the validation layer, and the call that it fails.
#pragma once

#include <cstdlib>
#include <string>

namespace scoria::test {

/// In the environment while this lives. Validation comes first: nearest to the host. `what` as in
/// tests/layer/faults.h; every device made meanwhile fails that call.
struct FailingLayers {
    FailingLayers(const std::string& what, bool validation) {
        ::setenv("VK_LAYER_PATH",
                 "/usr/local/share/vulkan/explicit_layer.d:/usr/share/vulkan/"
                 "explicit_layer.d:" SCORIA_LAYER_FOLDER,
                 1);
        ::setenv("VK_INSTANCE_LAYERS",
                 validation ? "VK_LAYER_KHRONOS_validation:VK_LAYER_SCORIA_test" : "VK_LAYER_SCORIA_test", 1);
        ::setenv("SCORIA_LAYER_FAIL", what.c_str(), 1);
    }
    ~FailingLayers() {
        for (const char* name : {"VK_LAYER_PATH", "VK_INSTANCE_LAYERS", "SCORIA_LAYER_FAIL"})
            ::unsetenv(name);
    }
    FailingLayers(const FailingLayers&) = delete;
    /// For devices made from now on.
    static void spare() { ::setenv("SCORIA_LAYER_FAIL", "", 1); }
};

}  // namespace scoria::test
