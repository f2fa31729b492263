// What `bench` measured, as tables, CSV, JSON, pictures and traces.
#pragma once

#include "instruments/op_bench.h"
#include "session.h"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace scoria::cli {

/// One test at one depth.
struct BenchRow {
    std::string test;
    uint32_t tokens = 0;
    uint32_t depth = 0;             // tokens in the cache before
    uint32_t chunk = 0;             // tokens of a prompt computed at a time
    std::string kv;                 // type of the cache
    std::vector<double> seconds{};  // per repetition
    uint64_t bytes_per_token = 0;   // weights read; 0: not said, since a pass over several reads them once
    uint32_t proposed = 0, accepted = 0;  // tokens guessed, of all rounds
    std::vector<double> waits{};          // seconds, each of an answer for a token, beside a prompt
    double mean() const;                  // tokens per second
    double deviation() const;
    /// The least that so many of the waits, 0 to 1, are not above, in milliseconds.
    double wait_ms(double part) const;
    double gigabytes_per_second() const { return double(bytes_per_token) * mean() / 1e9; }
};

inline constexpr const char* report_formats[] = {"table", "markdown", "csv", "json"};

/// A header and its rows in one of these formats, but json.
std::string formatted(const std::string& format, const std::vector<std::string>& header,
                      const std::vector<std::vector<std::string>>& rows);

std::string rows_text(const std::vector<BenchRow>& rows, const std::string& format);
nlohmann::json rows_json(const std::vector<BenchRow>& rows);

/// Time per label and size of a profiled step, most first.
struct ProfileRow {
    std::string label;
    uint64_t groups = 0;  // workgroups of each
    uint32_t count = 0;
    double microseconds = 0;
};
std::vector<ProfileRow> profile_rows(const std::vector<vk::DispatchTime>& times);
/// Its dispatches as chrome://tracing and Perfetto read them.
std::string chrome_trace(const StepStats& step, const std::string& model);

std::string ops_text(const OpBenchReport& report, const std::string& format);
nlohmann::json ops_json(const OpBenchReport& report);

// Pictures, as files of a folder: depth.png (speed by depth), layers.png (time by layer of a profiled step),
// roofline.png. Errors: failed.
void plot_rows(const std::string& folder, const std::vector<BenchRow>& rows, const std::string& title);
void plot_layers(const std::string& folder, const StepStats& step);
void plot_roofline(const std::string& folder, const OpBenchReport& report, const std::string& device);

}  // namespace scoria::cli
