// Where tests find their inputs. ctest and tools/test.sh set the variables; by hand the defaults do.
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace scoria::test {

inline std::string variable(const char* name, const std::string& otherwise = "") {
    const char* value = std::getenv(name);
    return value && *value ? value : otherwise;
}

/// The folder of goldens and broken files: $SCORIA_FIXTURES, else ../shared/fixtures beside the checkout.
inline std::string fixtures() { return variable("SCORIA_FIXTURES", SCORIA_DEFAULT_FIXTURES); }
/// For the tests that read them: they are skipped, and the program says so, where the folder is not there.
inline bool have_fixtures() { return std::filesystem::is_directory(fixtures()); }
inline doctest::skip needs_fixtures() { return doctest::skip(!have_fixtures()); }
/// The GGUF of the default model, or "" where it was not fetched.
inline std::string default_model() { return variable("SCORIA_MODEL"); }
/// The profile that narrows the device's caps, or "".
inline std::string caps_profile() { return variable("SCORIA_CAPS"); }
/// True in the deep tier: all cases instead of the telling few.
inline bool deep() { return !variable("SCORIA_DEEP").empty(); }

/// True where only another width or other limits are tried (SCORIA_FEW_MODELS, ignored in the deep tier): one
/// run sees every case.
inline bool few_models() { return !variable("SCORIA_FEW_MODELS").empty() && !deep(); }
/// True on a driver that computes slowly and keeps no compiled pipelines (SCORIA_FLOOR, in both tiers).
/// Engines for each variant, each model at each length, and SmolLM2 beyond two short prompts would take it
/// hours, and are the other drivers' to show.
inline bool slow_driver() { return !variable("SCORIA_FLOOR").empty(); }
/// The same in the quick tier: goldens in the strict class, bad input.
inline bool floor_tier() { return slow_driver() && !deep(); }
/// For tests that read goldens and compile the pipelines of many engines.
inline doctest::skip needs_fixtures_and_time() { return doctest::skip(floor_tier() || !have_fixtures()); }
/// For those that do so again for each variant, and for SmolLM2.
inline doctest::skip needs_fast_driver() { return doctest::skip(slow_driver() || !have_fixtures()); }

}  // namespace scoria::test
