// Models of a hub by "org/repo[:file]", and of plain URLs, in the cache. A hub is any server that answers as
// Hugging Face's does; its address comes from --hub or HF_ENDPOINT, so that mirrors work and none is built
// in.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace scoria::cli {

struct RemoteName {
    std::string repository;  // "org/repo", or empty: a URL
    std::string file;        // of the repository; empty: chosen by what it holds
    std::string url;
};
/// What NAME says if it is of this kind. Errors: bad_argument for a name that leaves its folder ("..").
std::optional<RemoteName> parse_remote(const std::string& name);

struct PullOptions {
    std::string hub, revision = "main", sha256;
    bool offline = false;
    uint32_t connections = 4;  // to one file
};
/// Fetches what is missing and returns the GGUF file or the Hugging Face folder. Errors: as download;
/// bad_argument (no hub is named; the repository has several GGUF files: they are listed).
std::filesystem::path pull_remote(const RemoteName& name, const PullOptions& options);

/// Where it is in the cache, or nothing. Errors: bad_argument, as pull_remote.
std::optional<std::filesystem::path> find_remote(const RemoteName& name);
/// Everything of it that the cache holds.
std::filesystem::path remote_folder(const RemoteName& name);
/// What goes with it: of a file named, its other parts and what is under way of them, too. The first may not
/// be there.
std::vector<std::filesystem::path> places_of(const RemoteName& name);

struct CachedModel {
    std::string name;
    std::filesystem::path path;
    uint64_t bytes = 0;
    bool whole = false;  // a model is there, no part of which is under way
};
std::vector<CachedModel> cached_remotes();

}  // namespace scoria::cli
