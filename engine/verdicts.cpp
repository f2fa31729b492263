// See verdicts.h. A book is verdicts-KEY.json, its journal verdicts-KEY.journal: one line, the
// build and the variant, locked by the process that tests, so that a test that still runs elsewhere is not
// taken for a crash.
#include "verdicts.h"

#include "fail.h"
#include "file.h"
#include "log.h"
#include "pipeline_cache.h"
#include "shaders.h"

#include <nlohmann/json.hpp>

#include <filesystem>

namespace scoria {
namespace {

constexpr int format_version = 2;
constexpr std::string_view stem = "verdicts-";

StoredVerdicts verdicts_in(const std::string& path) {
    const auto json = nlohmann::json::parse(read_file(path, 16ull << 20));
    if (json.at("format") != format_version) fail(Status::bad_file, path, "expected format ", format_version);
    StoredVerdicts stored{json.at("device"), json.at("driver"), json.at("build"), false, {}};
    stored.current = stored.build == kernels_build();
    stored.verdicts.passed = json.at("passed").get<std::set<std::string, std::less<>>>();
    stored.verdicts.failed = json.at("failed").get<std::map<std::string, std::string, std::less<>>>();
    stored.verdicts.suspected = json.at("suspected").get<std::set<std::string, std::less<>>>();
    return stored;
}

}  // namespace

std::string kernels_build() { return cat(SCORIA_VERSION, "-", shaders_digest()); }

std::string driver_version(const vk::Caps& caps) {
    return caps.driver_info.empty() ? caps.driver_name : caps.driver_info;
}

VerdictBook::VerdictBook(std::string folder, const vk::Caps& caps)
    : folder_(std::move(folder)), path_(cat(folder_, "/", stem, vk::device_key(caps), ".json")),
      journal_path_(cat(folder_, "/", stem, vk::device_key(caps), ".journal")), device_(caps.name),
      driver_(driver_version(caps)) {
    if (folder_.empty()) return;
    read();
    settle_journal();
}

void VerdictBook::read() noexcept try {
    if (!std::filesystem::exists(path_of(path_))) return;
    if (StoredVerdicts stored = verdicts_in(path_); stored.current) verdicts_ = std::move(stored.verdicts);
} catch (const std::exception& error) {
    log_once(cat("[self-test] ", path_, " is ignored: ", error.what()));
}

void VerdictBook::settle_journal() noexcept try {
    if (!std::filesystem::exists(path_of(journal_path_))) return;
    LockedFile journal(journal_path_);
    const std::string all = journal.text();
    const std::string opening = kernels_build() + ' ';  // what another build did is no fault of this one
    const bool whole = all.starts_with(opening) && all.ends_with('\n');
    if (!whole) return;
    const std::string variant = all.substr(opening.size(), all.size() - opening.size() - 1);
    const bool again = verdicts_.suspected.erase(variant) != 0;
    if (again)
        failed(variant, "the process ended twice while it was tested");
    else
        verdicts_.suspected.insert(variant);
    log(cat(
        "[self-test] ", variant, " on ", device_, " (driver ", driver_,
        "): the process ended while it was tested ",
        again
            ? "at two earlier starts; it is left out from now on (`scoria devices --forget` gives it another "
              "chance)"
            : "at an earlier start; it is tested once more"));
    save();
    if (!journal.write("")) log_once(cat("[self-test] ", journal_path_, " cannot be written"));
} catch (const Error& error) {
    if (error.status() != Status::busy) log_once(cat("[self-test] ", error.what()));
} catch (const std::exception& error) {
    log_once(cat("[self-test] ", error.what()));
}

bool VerdictBook::open_journal() noexcept try {
    if (folder_.empty()) return true;
    make_folders(folder_);
    journal_.emplace(journal_path_);
    read();
    return true;
} catch (const std::exception& error) {
    log_once(cat("[self-test] nothing is tested at this start: ", error.what()));
    return false;
}

void VerdictBook::begin(std::string_view variant) noexcept {
    if (journal_ && !journal_->write(cat(kernels_build(), ' ', variant, '\n')))
        log_once(cat("[self-test] ", journal_path_, " cannot be written: a crash would not be remembered"));
}

void VerdictBook::end() noexcept {
    if (journal_ && !journal_->write("")) log_once(cat("[self-test] ", journal_path_, " cannot be written"));
}

void VerdictBook::passed(const std::string& test) { verdicts_.passed.insert(test); }

void VerdictBook::failed(const std::string& variant, const std::string& why) {
    verdicts_.failed.insert_or_assign(variant, why);
}

std::map<std::string, std::string, std::less<>> VerdictBook::left_out(bool untested) const {
    auto all = verdicts_.failed;
    if (untested)
        for (const std::string& variant : verdicts_.suspected)
            all.emplace(variant, "the process ended while it was tested");
    return all;
}

void VerdictBook::save() noexcept try {
    if (folder_.empty()) return;
    const nlohmann::json json = {
        {"format", format_version},        {"device", device_},          {"driver", driver_},
        {"build", kernels_build()},        {"passed", verdicts_.passed}, {"failed", verdicts_.failed},
        {"suspected", verdicts_.suspected}};
    const std::string text = json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    make_folders(folder_);
    write_file_atomic(path_, std::as_bytes(std::span(text)));
} catch (const std::exception& error) {
    log_once(cat("[self-test] verdicts are not kept: ", error.what()));
}

std::vector<StoredVerdicts> stored_verdicts(const std::string& folder) {
    std::vector<StoredVerdicts> all;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(path_of(folder), none)) {
        const std::string name = entry.path().filename().string();
        if (!name.starts_with(stem) || !name.ends_with(".json")) continue;
        try {
            all.push_back(verdicts_in(entry.path().string()));
        } catch (const std::exception&) {  // as good as not there
        }
    }
    return all;
}

size_t forget_verdicts(const std::string& folder) {
    size_t removed = 0;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(path_of(folder), error)) {
        if (!entry.path().filename().string().starts_with(stem)) continue;
        removed += std::filesystem::remove(entry.path(), error);
        if (error) fail(Status::failed, entry.path().string(), error.message());
    }
    return removed;
}

}  // namespace scoria
