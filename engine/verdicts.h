// What self-tests found on one device under one driver with one build: remembered in the cache folder, with a
// journal beside it that names the test that runs. What is named there at the next start took the process
// with it, or the user ended the process: it is tested once more, and counts as failed when that happens
// twice.
#pragma once

#include "caps.h"
#include "file.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace scoria {

/// What tells builds apart whose kernels may differ.
std::string kernels_build();
/// What tells versions of a driver apart.
std::string driver_version(const vk::Caps& caps);

struct Verdicts {
    std::set<std::string, std::less<>> passed;               // tests, as self_test.cpp names them
    std::map<std::string, std::string, std::less<>> failed;  // why, by variant_key
    std::set<std::string, std::less<>> suspected;            // by variant_key: the process ended, once
};

/// Files that cannot be read, are damaged or of another build count as none; what cannot be written is logged
/// once. Nothing here ever fails a run.
class VerdictBook {
  public:
    /// Reads; what an open journal names is suspected from now on, or failed if it was already. An empty
    /// folder: nothing is kept.
    VerdictBook(std::string folder, const vk::Caps& caps);
    VerdictBook(const VerdictBook&) = delete;

    const Verdicts& verdicts() const { return verdicts_; }
    /// Why, by variant_key: what failed, and where nothing is tested (`untested`) what is suspected, too.
    std::map<std::string, std::string, std::less<>> left_out(bool untested) const;
    /// Before tests: reads again what others found meanwhile. False: another process tests this device now,
    /// or nothing can be written.
    bool open_journal() noexcept;
    /// Before each: on disk when this returns.
    void begin(std::string_view variant) noexcept;
    /// After each: nothing runs.
    void end() noexcept;
    void passed(const std::string& test);
    void failed(const std::string& variant, const std::string& why);
    void acquit(const std::string& variant) { verdicts_.suspected.erase(variant); }
    void forget_passed() { verdicts_.passed.clear(); }
    void save() noexcept;

  private:
    void read() noexcept;
    void settle_journal() noexcept;
    std::string folder_, path_, journal_path_, device_, driver_;
    Verdicts verdicts_;
    std::optional<LockedFile> journal_;  // while tests run
};

/// What is stored for a device: by this build, or by another and of no use.
struct StoredVerdicts {
    std::string device, driver, build;
    bool current = false;
    Verdicts verdicts;
};
std::vector<StoredVerdicts> stored_verdicts(const std::string& folder);
/// Removes all; returns how many files. Errors: failed.
size_t forget_verdicts(const std::string& folder);

}  // namespace scoria
