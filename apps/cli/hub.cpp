// See hub.h.
#include "hub.h"

#include "download.h"
#include "fail.h"
#include "file.h"
#include "io.h"
#include "models.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace scoria::cli {
namespace fs = std::filesystem;
namespace {

constexpr uint64_t most_listing_bytes = 64 << 20;

/// The hub's address without a slash at its end, or empty.
std::string hub_of(const PullOptions& options) {
    std::string hub = options.hub.empty() ? environment("HF_ENDPOINT") : options.hub;
    while (hub.ends_with('/')) hub.pop_back();
    return hub;
}

/// Whether `path` stays below the folder it is put in.
bool is_safe(std::string_view path) {
    if (path.empty()) return false;
    for (size_t first = 0; first <= path.size();) {
        const size_t end = std::min(path.find('/', first), path.size());
        const std::string_view part = path.substr(first, end - first);
        if (part.empty() || part == "." || part == "..") return false;
        if (part.find_first_of("\\:") != part.npos) return false;
        if (std::ranges::any_of(part, [](char c) { return static_cast<unsigned char>(c) < 0x20; }))
            return false;
        first = end + 1;
    }
    return true;
}

bool has_extension(const std::string& path, const char* extension) {
    return path_of(path).extension() == extension;
}

constexpr std::string_view https = "https://", hex_digits = "0123456789ABCDEF";

/// ASCII letters and digits, and what is in `kept`, stay as they are.
std::string percent_encoded(std::string_view text, std::string_view kept) {
    std::string encoded;
    for (const char c : text) {
        const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                           kept.find(c) != kept.npos;
        if (plain)
            encoded += c;
        else
            encoded += {'%', hex_digits[uint8_t(c) >> 4], hex_digits[uint8_t(c) & 15]};
    }
    return encoded;
}

// RFC 3986, 2.3: besides letters and digits, no URL need encode these.
constexpr std::string_view in_segment = "-._~", in_path = "-._~/";

struct HubFile {
    std::string path, sha256;
    std::optional<uint64_t> bytes;
};
struct Listing {
    std::string commit;
    std::vector<HubFile> files;
};

Listing list_files(const std::string& hub, const std::string& repository, const PullOptions& options) {
    const Remote remote{cat(hub, "/api/models/", percent_encoded(repository, in_path), "/revision/",
                            percent_encoded(options.revision, in_segment), "?blobs=true"),
                        environment("HF_TOKEN"),
                        {},
                        {}};
    const nlohmann::json json = nlohmann::json::parse(fetch_text(remote, most_listing_bytes), nullptr, false);
    if (!json.is_object() || !json.contains("siblings") || !json["siblings"].is_array())
        fail(Status::bad_file, "pull", "expected a list of files, got something else from ", remote.url);
    const nlohmann::json sha = json.value("sha", nlohmann::json(options.revision));
    if (!sha.is_string())
        fail(Status::bad_file, "pull", "expected a commit as \"sha\", got ", sha.type_name(), " from ",
             remote.url);
    Listing listing{sha, {}};
    if (!is_safe(listing.commit)) listing.commit = options.revision;
    for (const nlohmann::json& sibling : json["siblings"]) {
        if (!sibling.is_object() || !sibling.contains("rfilename") || !sibling["rfilename"].is_string())
            continue;
        HubFile file{sibling["rfilename"], {}, {}};
        if (!is_safe(file.path)) continue;
        if (sibling.contains("size") && sibling["size"].is_number_unsigned()) file.bytes = sibling["size"];
        const auto lfs = sibling.find("lfs");
        if (lfs != sibling.end() && lfs->is_object() && lfs->contains("sha256") &&
            (*lfs)["sha256"].is_string())
            file.sha256 = (*lfs)["sha256"];
        listing.files.push_back(std::move(file));
    }
    return listing;
}

/// Files of a Hugging Face folder that the loader reads.
bool belongs_to_folder(const std::string& path) {
    constexpr const char* names[] = {"config.json",           "model.safetensors.index.json",
                                     "tokenizer.json",        "tokenizer.model",
                                     "tokenizer_config.json", "generation_config.json",
                                     "hf_quant_config.json",  "config_sentence_transformers.json",
                                     "spiece.model",          "vocab.txt",
                                     "chat_template.jinja",   "chat_template.json",
                                     "modules.json",          "special_tokens_map.json"};
    if (std::ranges::find(names, path) != std::end(names)) return true;
    if (path.starts_with("sentence_") && path.ends_with("_config.json")) return true;
    if (path.ends_with("_Pooling/config.json") || path.ends_with("_Dense/config.json") ||
        path.ends_with("_Dense/model.safetensors"))
        return true;
    return has_extension(path, ".safetensors") && path.find('/') == path.npos && path.starts_with("model");
}

/// "-00001-of-00003.gguf": the parts of a split model belong together.
std::string without_part(const std::string& path) {
    const size_t of = path.rfind("-of-");
    return of != path.npos && of >= 6 ? path.substr(0, of - 6) : path;
}

std::vector<HubFile> choose(const Listing& listing, const RemoteName& name) {
    std::vector<HubFile> chosen;
    const auto take = [&](const auto& wanted) {
        std::ranges::copy_if(listing.files, std::back_inserter(chosen), wanted);
    };
    if (!name.file.empty()) {
        take([&](const HubFile& file) { return without_part(file.path) == without_part(name.file); });
        if (chosen.empty())
            fail(Status::bad_argument, "pull", "expected a file of ", name.repository, ", got ", name.file);
        return chosen;
    }
    take([](const HubFile& file) { return has_extension(file.path, ".gguf"); });
    std::string names;
    bool several = false;
    for (const HubFile& file : chosen) {
        several = several || without_part(file.path) != without_part(chosen.front().path);
        names += cat("\n  ", name.repository, ':', file.path);
    }
    if (several)
        fail(Status::bad_argument, "pull", "expected one of the GGUF files, got ", name.repository,
             ", which has", names);
    if (!chosen.empty()) return chosen;
    take([](const HubFile& file) { return belongs_to_folder(file.path); });
    const bool whole =
        std::ranges::find(chosen, "config.json", &HubFile::path) != chosen.end() &&
        std::ranges::any_of(chosen, [](const HubFile& f) { return has_extension(f.path, ".safetensors"); });
    if (!whole)
        fail(Status::bad_file, "pull", "expected a GGUF file, or config.json with model.safetensors, got ",
             name.repository, " with neither");
    return chosen;
}

/// The one GGUF below `folder` (the first part of a split one), else the folder if it has a config.
std::optional<fs::path> model_in(const fs::path& folder, const std::string& file) {
    std::error_code ignored;
    if (const fs::path named = folder / path_of(file); !file.empty())
        return fs::exists(named, ignored) ? std::optional(named) : std::nullopt;
    std::vector<fs::path> found;
    for (fs::recursive_directory_iterator at(folder, ignored), end; !ignored && at != end;
         at.increment(ignored))
        if (at->path().extension() == ".gguf") found.push_back(at->path());
    std::ranges::sort(found);
    const auto same = [&](const fs::path& path) {
        return without_part(path.string()) == without_part(found.front().string());
    };
    if (!found.empty()) {
        if (std::ranges::all_of(found, same)) return found.front();
        fail(Status::bad_argument, "model", "expected one GGUF file, got ", found.size(), " in ",
             folder.string(), " (name one: org/repo:file)");
    }
    return fs::exists(folder / "config.json", ignored) ? std::optional(folder) : std::nullopt;
}

CachedModel cached(const std::string& name, const fs::path& folder) {
    // Ends of what lies beside a model, whose own file may be called anything if it came from a URL.
    constexpr std::string_view beside[] = {".etag", ".lock", ".json", ".jinja", ".model", ".txt"};
    CachedModel model{name, folder};
    std::vector<std::string> whole, partial;
    std::error_code ignored;
    for (fs::recursive_directory_iterator at(folder, ignored), end; !ignored && at != end;
         at.increment(ignored)) {
        if (!at->is_regular_file(ignored)) continue;
        const std::string path = at->path().string();
        model.bytes += at->file_size(ignored);
        if (path.ends_with(".partial"))
            partial.push_back(without_part(path));
        else if (std::ranges::none_of(beside, [&](std::string_view its) { return path.ends_with(its); }))
            whole.push_back(without_part(path));
    }
    model.whole = std::ranges::any_of(
        whole, [&](const std::string& path) { return std::ranges::find(partial, path) == partial.end(); });
    return model;
}

/// A folder's name for each URL: no two share one.
std::string folder_of_url(std::string_view url) {
    std::string folder = percent_encoded(url.starts_with(https) ? url.substr(https.size()) : url, ".-/");
    std::ranges::replace(folder, '/', '_');
    return folder;
}

/// The URL that folder_of_url() made it of.
std::string url_of_folder(std::string_view folder) {
    std::string url;
    for (size_t i = 0; i < folder.size(); ++i) {
        const size_t high = folder[i] == '%' && i + 2 < folder.size() ? hex_digits.find(folder[i + 1])
                                                                      : std::string_view::npos;
        if (high == std::string_view::npos) {
            url += folder[i] == '_' ? '/' : folder[i];
        } else {
            url += char(high << 4 | (hex_digits.find(folder[i + 2]) & 15));
            i += 2;
        }
    }
    return url.starts_with("http://") ? url : cat(https, url);
}

fs::path pull_url(const RemoteName& name, const PullOptions& options) {
    fs::path target = remote_folder(name) / path_of(name.file);
    if (fs::exists(target)) {
        if (!options.sha256.empty() && sha256_of(target) != options.sha256)
            fail(Status::bad_file, "pull", "expected SHA-256 ", options.sha256,
                 ", got another file in the cache: ", target.string());
        return target;
    }
    if (options.offline)
        fail(Status::failed, "pull", "expected ", name.url, " in the cache, got no ", target.string());
    const std::string hub = hub_of(options);
    const bool of_hub = !hub.empty() && name.url.starts_with(hub + "/");
    download({name.url, of_hub ? environment("HF_TOKEN") : "", {}, options.sha256}, target, name.file,
             options.connections);
    return target;
}

}  // namespace

std::optional<RemoteName> parse_remote(const std::string& name) {
    const size_t scheme = name.find("://");
    if (scheme != name.npos) {
        if (!name.starts_with("http://") && !name.starts_with("https://"))
            fail(Status::bad_argument, "model", "expected http:// or https://, got ", name);
        const std::string path = name.substr(scheme + 3, name.find_first_of("?#") - scheme - 3);
        const size_t slash = path.rfind('/');
        const std::string file = slash == path.npos ? "" : path.substr(slash + 1);
        if (!is_safe(file))
            fail(Status::bad_argument, "model", "expected a URL that ends in a file's name, got ", name);
        return RemoteName{"", file, name};
    }
    const size_t colon = name.find(':');
    const std::string repository = name.substr(0, colon);
    const bool is_path = name.starts_with('/') || name.starts_with('.') || name.starts_with('~');
    if (is_path || std::ranges::count(repository, '/') != 1) return std::nullopt;
    RemoteName remote{repository, colon == name.npos ? "" : name.substr(colon + 1), ""};
    if (!is_safe(repository) || (colon != name.npos && !is_safe(remote.file)))
        fail(Status::bad_argument, "model", "expected org/repo or org/repo:file, got ", name);
    return remote;
}

fs::path remote_folder(const RemoteName& name) {
    if (!name.repository.empty()) return models_folder() / "hub" / path_of(name.repository);
    return models_folder() / "url" / folder_of_url(name.url);
}

std::optional<fs::path> find_remote(const RemoteName& name) {
    return model_in(remote_folder(name), name.file);
}

std::vector<fs::path> places_of(const RemoteName& name) {
    const fs::path folder = remote_folder(name);
    if (name.repository.empty() || name.file.empty()) return {folder};
    const fs::path named = folder / path_of(name.file);
    std::vector<fs::path> places = {named};
    std::error_code ignored;
    for (const fs::directory_entry& entry : fs::directory_iterator(named.parent_path(), ignored)) {
        std::string path = entry.path().string();
        if (path == named.string()) continue;
        for (const std::string_view end : {".etag", ".partial"})  // of what is under way
            if (path.ends_with(end)) path.resize(path.size() - end.size());
        if (without_part(path) == without_part(named.string())) places.push_back(entry.path());
    }
    return places;
}

fs::path pull_remote(const RemoteName& name, const PullOptions& options) {
    if (name.repository.empty()) return pull_url(name, options);
    const fs::path folder = remote_folder(name);
    if (options.offline) {
        if (const std::optional<fs::path> found = find_remote(name)) return *found;
        fail(Status::failed, "pull", "expected ", name.repository, " in the cache, got no ", folder.string());
    }
    const std::string hub = hub_of(options);
    if (hub.empty())
        fail(Status::bad_argument, "pull", "expected the hub's address in HF_ENDPOINT or --hub, got none");
    const Listing listing = list_files(hub, name.repository, options);
    for (const HubFile& file : choose(listing, name)) {
        const fs::path target = folder / path_of(file.path);
        std::error_code error;
        const uint64_t size = fs::file_size(target, error);
        const bool there = !error && (!file.bytes || *file.bytes == size);
        if (there && (file.sha256.empty() || sha256_of(target) == file.sha256)) continue;
        const std::string url =
            cat(hub, '/', percent_encoded(name.repository, in_path), "/resolve/",
                percent_encoded(listing.commit, in_segment), '/', percent_encoded(file.path, in_path));
        download({url, environment("HF_TOKEN"), file.bytes, file.sha256}, target, file.path,
                 options.connections);
    }
    if (const std::optional<fs::path> found = find_remote(name)) return *found;
    fail(Status::bad_file, "pull", "expected a model in ", folder.string(), ", got none");
}

std::vector<CachedModel> cached_remotes() {
    std::vector<CachedModel> models;
    std::error_code ignored;
    for (const fs::directory_entry& org : fs::directory_iterator(models_folder() / "hub", ignored))
        for (const fs::directory_entry& repository : fs::directory_iterator(org.path(), ignored))
            models.push_back(
                cached(org.path().filename().string() + "/" + repository.path().filename().string(),
                       repository.path()));
    for (const fs::directory_entry& url : fs::directory_iterator(models_folder() / "url", ignored))
        models.push_back(cached(url_of_folder(url.path().filename().string()), url.path()));
    std::ranges::sort(models, {}, &CachedModel::name);
    return models;
}

}  // namespace scoria::cli
