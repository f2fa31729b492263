// Models that other programs of this machine fetched: read where they lie, never written.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace scoria::cli {

struct OtherModel {
    std::string name;  // as -m takes it: what its program calls it
    std::filesystem::path path;
    uint64_t bytes = 0;
    const char* program;
};

/// Ollama's ($OLLAMA_MODELS, else .ollama/models in the home folder) by MODEL:TAG, and LM Studio's
/// (.lmstudio/models, .cache/lm-studio/models) by PUBLISHER/REPOSITORY/FILE.gguf, sorted by name. What cannot
/// be read is left out.
std::vector<OtherModel> other_models();
std::optional<std::filesystem::path> find_other(const std::string& name);

}  // namespace scoria::cli
