// validate --shader: somebody's own shader against the reference, or against their own data.
#pragma once

#include "common.h"

#include "validate/report.h"

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace scoria::cli {

struct ShaderOptions {
    std::string shader, as, manifest, reference;
    std::vector<std::string> inputs;  // NAME=FILE.npy
    std::string dump;                 // a folder
    bool unchecked = false;           // by spirv-val
};

void add_shader_flags(CLI::App& app, ShaderOptions& options);

/// Errors: bad_argument, when a report would take the place of the manifest, the shader or an array.
void check_report_path(const ShaderOptions& options, const std::string& report);

/// Errors: bad_argument, bad_file; failed, when a .comp does not compile or there is no compiler.
validate::Run validate_shader(const ShaderOptions& options, uint64_t seed, bool keep_maps,
                              const vk::DeviceOptions& device_options);

}  // namespace scoria::cli
