// See other_caches.h.
#include "other_caches.h"

#include "file.h"
#include "io.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace scoria::cli {
namespace fs = std::filesystem;
namespace {

constexpr uint64_t most_manifest = 1 << 20;  // bytes
constexpr std::string_view usual_tag = ":latest";

fs::path home() {
    const std::string home = environment("HOME");
    return path_of(home.empty() ? environment("USERPROFILE") : home);
}

/// Calls `take` for every file below `folder`, so far as it can be read.
template <class Take> void each_file(const fs::path& folder, const Take& take) {
    std::error_code error;
    for (fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, error),
         end;
         !error && at != end; at.increment(error)) {
        std::error_code unknown;
        if (at->is_regular_file(unknown)) take(at->path());
    }
}

/// The blob that a manifest has as its model: "sha256:..." is the file sha256-... .
std::optional<std::string> model_digest(const fs::path& manifest) try {
    const nlohmann::json json =
        nlohmann::json::parse(read_file(manifest.string(), most_manifest), nullptr, false);
    if (!json.is_object() || !json.contains("layers")) return std::nullopt;
    for (const nlohmann::json& layer : json["layers"])
        if (layer.is_object() && layer.value("mediaType", "") == "application/vnd.ollama.image.model") {
            std::string digest = layer.value("digest", "");
            std::ranges::replace(digest, ':', '-');
            if (digest.find_first_of("/\\") == digest.npos) return digest;
        }
    return std::nullopt;
} catch (const std::exception&) {
    return std::nullopt;
}

/// HOST/NAMESPACE/MODEL/TAG as Ollama names it: its own host and library are left out.
std::string ollama_name(const fs::path& manifest) {
    std::vector<std::string> parts;
    for (const fs::path& part : manifest) parts.push_back(part.string());
    if (parts.size() != 4) return {};
    std::string name = parts[2] + ":" + parts[3];
    const bool own_host = parts[0] == "registry.ollama.ai";
    if (!own_host || parts[1] != "library") name = parts[1] + "/" + name;
    return own_host ? name : parts[0] + "/" + name;
}

void add(std::vector<OtherModel>& all, const std::string& name, const fs::path& path, const char* program) {
    std::error_code error;
    const uint64_t bytes = fs::file_size(path, error);
    if (!error && !name.empty()) all.push_back({name, path, bytes, program});
}

}  // namespace

std::vector<OtherModel> other_models() {
    std::vector<OtherModel> all;
    const fs::path user = home();
    fs::path ollama = path_of(environment("OLLAMA_MODELS"));
    if (ollama.empty() && !user.empty()) ollama = user / ".ollama" / "models";
    if (!ollama.empty())
        each_file(ollama / "manifests", [&](const fs::path& manifest) {
            if (const auto digest = model_digest(manifest))
                add(all, ollama_name(manifest.lexically_relative(ollama / "manifests")),
                    ollama / "blobs" / *digest, "Ollama");
        });
    for (const fs::path& folder :
         {fs::path(".lmstudio") / "models", fs::path(".cache") / "lm-studio" / "models"})
        if (!user.empty())
            each_file(user / folder, [&](const fs::path& file) {
                const std::string name = file.filename().string();
                const bool of_model = file.extension() == ".gguf" && !name.starts_with("mmproj");
                const size_t part = name.find("-of-");  // of a split one the first stands for all
                if (of_model && (part == name.npos || name.substr(0, part).ends_with("-00001")))
                    add(all, file.lexically_relative(user / folder).generic_string(), file, "LM Studio");
            });
    std::ranges::sort(all, {}, &OtherModel::name);
    return all;
}

std::optional<fs::path> find_other(const std::string& name) {
    if (name.empty()) return std::nullopt;
    for (const OtherModel& model : other_models())
        if (model.name == name || model.name == name + std::string(usual_tag)) return model.path;
    return std::nullopt;
}

}  // namespace scoria::cli
