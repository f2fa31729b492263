// scoria tune: which variants are fastest for a model on this device.
#include "common.h"
#include "io.h"
#include "verbs.h"

#include "console.h"
#include "instruments/tune.h"
#include "text_table.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

namespace scoria::cli {
namespace {

std::string table_of(const TuneReport& report) {
    TextTable table({"size", "default", "us", "fastest", "us", "times"});
    for (const TuneRow& row : report.rows) {
        const bool gain = row.variant != row.standard;
        table.add({row.key, row.standard, fixed(row.standard_us, 1), gain ? row.variant : "the same",
                   gain ? fixed(row.us, 1) : "", gain ? fixed(row.standard_us / row.us, 2) : ""});
    }
    return table.text();
}

nlohmann::json json_of(const TuneReport& report) {
    nlohmann::json rows = nlohmann::json::array();
    for (const TuneRow& row : report.rows)
        rows.push_back({{"size", row.key},
                        {"default", row.standard},
                        {"default_us", row.standard_us},
                        {"variant", row.variant},
                        {"us", row.us},
                        {"candidates", row.candidates}});
    return {{"rows", rows}, {"sizes", report.targets}, {"seconds", report.seconds}, {"file", report.path}};
}

int tune_model(double seconds, const Common& common) {
    const std::atomic<bool>& interrupted = install_interrupt_flag();
    TuneOptions how;
    how.seconds = seconds;
    how.pause = [&] {
        if (interrupted) fail(Status::cancelled, "tune", "interrupted; what was found so far is kept");
    };
    if (common.verbose) {
        how.on_time = [](const std::string& key, const std::string& variant, double us) {
            note(key, ": ", variant, ", ", fixed(us, 1), " us");
        };
        how.on_row = [](const TuneRow& row) {
            note(row.key, ": ", row.variant, ", ", row.candidates, " timed");
        };
    }
    const TuneReport report = tune(load_model(common), engine_options(common), how);
    remove_interrupt_flag();
    size_t faster = 0;
    for (const TuneRow& row : report.rows) faster += row.variant != row.standard;
    if (common.json)
        print(json_text(json_of(report), 1), '\n');
    else
        print(table_of(report), faster, " of ", report.rows.size(), " sizes run faster than by default\n");
    note(report.rows.size(), " of ", report.targets, " sizes in ", fixed(report.seconds, 1), " s",
         report.rows.size() < report.targets ? " (--seconds gives more time)" : "",
         report.path.empty() ? std::string(", kept nowhere") : cat(", kept in ", report.path));
    return 0;
}

}  // namespace

Action define_tune(CLI::App& app, const Common& common) {
    auto seconds = std::make_shared<double>(60);
    app.add_option("--seconds", *seconds, "time after which nothing more is tried (default: 60)")
        ->check(CLI::Range(0.0, 1e6));
    app.footer(
        "Every verb then runs what was found, until the driver or Scoria changes; --no-tune does not.");
    return [seconds, &app, &common] {
        for (const char* flag : {"--variant", "--no-tune"})
            if (app.count(flag) > 0)
                fail(Status::bad_argument, "tune", "expected no ", flag, ": it times all variants");
        return tune_model(*seconds, common);
    };
}

}  // namespace scoria::cli
