// The test layer (tests/layer) and the validation layer above it, for devices that a test makes.
#pragma once

#include "on_system.h"

#include <array>
#include <cstdlib>
#include <optional>
#include <string>

namespace scoria::test {

/// In the environment while this lives, in place of what was there. `profile`: path or empty; `fail`: as in
/// tests/layer/faults.h, for every device made meanwhile; `family`: as in tests/layer/second_family.h. The
/// validation layer comes first in both variables: nearest to the program, so that it queries and calls
/// through ours (see tests/layer/layer.cpp).
struct Layers {
    explicit Layers(const std::string& profile, const std::string& fail = "", bool validation = true,
                    const std::string& family = "") {
        for (size_t i = 0; i < names.size(); ++i)
            if (const char* value = std::getenv(names[i])) before_[i] = value;
        set_variable("VK_LAYER_PATH", "/usr/local/share/vulkan/explicit_layer.d:/usr/share/vulkan/"
                                      "explicit_layer.d:" SCORIA_LAYER_FOLDER);
        set_variable("VK_INSTANCE_LAYERS", validation ? "VK_LAYER_KHRONOS_validation:VK_LAYER_SCORIA_test"
                                                      : "VK_LAYER_SCORIA_test");
        set_variable("SCORIA_LAYER_PROFILE", profile);
        set_variable("SCORIA_LAYER_FAIL", fail);
        set_variable("SCORIA_LAYER_FAMILY", family);
    }
    ~Layers() {
        for (size_t i = 0; i < names.size(); ++i)
            before_[i] ? set_variable(names[i], *before_[i]) : unset_variable(names[i]);
    }
    Layers(const Layers&) = delete;
    /// Devices made from now on fail nothing.
    static void spare() { set_variable("SCORIA_LAYER_FAIL", ""); }

  private:
    static constexpr std::array names{"VK_LAYER_PATH", "VK_INSTANCE_LAYERS", "SCORIA_LAYER_PROFILE",
                                      "SCORIA_LAYER_FAIL", "SCORIA_LAYER_FAMILY"};
    std::array<std::optional<std::string>, names.size()> before_;
};

}  // namespace scoria::test
