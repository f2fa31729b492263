// See bench_report.h.
#include "bench_report.h"

#include "io.h"

#include "file.h"
#include "pictures/chart.h"
#include "text_table.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace scoria::cli {
namespace {

using Cells = std::vector<std::string>;

void write_png(const std::string& folder, const char* name, const Picture& picture) {
    make_folders(folder);
    const std::string png = picture.png();
    write_file_atomic(folder + "/" + name, std::as_bytes(std::span(png)));
}

ChartLine& line_of(Chart& chart, const std::string& name) {
    const auto found = std::ranges::find(chart.lines, name, &ChartLine::name);
    if (found != chart.lines.end()) return *found;
    return chart.lines.emplace_back(ChartLine{name, {}, chart_colour(chart.lines.size())});
}

std::string csv_cell(const std::string& cell) {
    if (cell.find_first_of(",\"\n") == std::string::npos) return cell;
    std::string quoted = "\"";
    for (const char c : cell) quoted += c == '"' ? "\"\"" : std::string(1, c);
    return quoted + '"';
}

}  // namespace

double BenchRow::mean() const {
    double sum = 0;
    for (const double s : seconds) sum += tokens / s;
    return sum / double(seconds.size());
}

double BenchRow::deviation() const {
    double sum = 0;
    for (const double s : seconds) sum += (tokens / s - mean()) * (tokens / s - mean());
    return seconds.size() < 2 ? 0 : std::sqrt(sum / double(seconds.size() - 1));
}

double BenchRow::wait_ms(double part) const {
    std::vector<double> sorted = waits;
    std::ranges::sort(sorted);
    return 1e3 * sorted[size_t(std::ceil(part * double(sorted.size() - 1)))];
}

std::string formatted(const std::string& format, const Cells& header, const std::vector<Cells>& rows) {
    if (format == "table") {
        TextTable table(header);
        for (const Cells& row : rows) table.add(row);
        return table.text();
    }
    const bool csv = format == "csv";
    std::string out;
    const auto line = [&](const Cells& cells) {
        out += csv ? "" : "|";
        for (size_t i = 0; i < cells.size(); ++i)
            out += csv ? cat(i ? "," : "", csv_cell(cells[i])) : cat(" ", cells[i], " |");
        out += '\n';
    };
    line(header);
    if (!csv) line(Cells(header.size(), "---"));
    for (const Cells& row : rows) line(row);
    return out;
}

std::string rows_text(const std::vector<BenchRow>& rows, const std::string& format) {
    const std::string none = format == "csv" ? "" : "-";
    std::vector<Cells> cells;
    for (const BenchRow& row : rows)
        cells.push_back({row.test, cat(row.depth), row.kv, cat(row.chunk), fixed(row.mean(), 2),
                         fixed(row.deviation(), 2),
                         row.bytes_per_token > 0 ? fixed(row.gigabytes_per_second(), 2) : none,
                         row.waits.empty() ? none : fixed(row.wait_ms(0.95), 1)});
    return formatted(format, {"test", "depth", "kv", "chunk", "tok/s", "+-", "GB/s", "wait ms"}, cells);
}

nlohmann::json rows_json(const std::vector<BenchRow>& rows) {
    nlohmann::json all = nlohmann::json::array();
    for (const BenchRow& row : rows) {
        nlohmann::json json = {{"test", row.test},
                               {"tokens_per_second", row.mean()},
                               {"deviation", row.deviation()},
                               {"repetitions", row.seconds.size()},
                               {"depth", row.depth},
                               {"chunk", row.chunk},
                               {"kv", row.kv}};
        if (row.bytes_per_token > 0) json["gb_per_second"] = row.gigabytes_per_second();
        if (row.proposed > 0) json["proposed"] = row.proposed, json["accepted"] = row.accepted;
        if (!row.waits.empty())
            json["wait_ms"] = {
                {"p50", row.wait_ms(0.5)}, {"p95", row.wait_ms(0.95)}, {"max", row.wait_ms(1)}};
        all.push_back(std::move(json));
    }
    return all;
}

std::vector<ProfileRow> profile_rows(const std::vector<vk::DispatchTime>& times) {
    std::vector<ProfileRow> rows;
    for (const vk::DispatchTime& time : times) {
        auto row = std::ranges::find_if(rows, [&](const ProfileRow& other) {
            return other.label == time.label && other.groups == time.groups;
        });
        if (row == rows.end()) row = rows.insert(row, {std::string(time.label), time.groups});
        ++row->count;
        row->microseconds += time.microseconds;
    }
    std::ranges::sort(rows, std::greater(), &ProfileRow::microseconds);
    return rows;
}

std::string chrome_trace(const StepStats& step, const std::string& model) {
    nlohmann::json events = nlohmann::json::array();
    const auto add = [&](const std::vector<vk::DispatchTime>& times, std::span<const int32_t> layers,
                         const char* process, int pid) {
        events.push_back(
            {{"name", "process_name"}, {"ph", "M"}, {"pid", pid}, {"args", {{"name", process}}}});
        for (size_t i = 0; i < times.size(); ++i) {
            const vk::DispatchTime& time = times[i];
            const int32_t layer = i < layers.size() ? layers[i] : -1;
            events.push_back({{"name", std::string(time.label)},
                              {"cat", layer < 0 ? "model" : cat("layer ", layer)},
                              {"ph", "X"},  // a complete event; microseconds
                              {"ts", time.start},
                              {"dur", time.microseconds},
                              {"pid", pid},
                              {"tid", 0},
                              {"args", {{"layer", layer}, {"dispatch", i}, {"groups", time.groups}}}});
        }
    };
    add(step.profile, step.profile_layers, "a step", 0);
    add(step.prompt_profile, {}, "a prompt's last chunk", 1);
    return json_text(nlohmann::json{
        {"traceEvents", events},
        {"displayTimeUnit", "ns"},
        {"otherData", {{"model", model}, {"what", "one decode step and a prompt's last chunk"}}}});
}

std::string ops_text(const OpBenchReport& report, const std::string& format) {
    const bool csv = format == "csv";
    std::vector<Cells> rows;
    for (const OpRate& rate : report.rates) {
        const auto share = [&](double value) {
            return csv ? fixed(value, 5) : cat(fixed(100 * value, 1), " %");
        };
        rows.push_back({rate.op, rate.variant, rate.shape, fixed(rate.microseconds, 1),
                        csv ? cat(rate.bytes) : fixed(double(rate.bytes) / 1e6, 2),
                        csv ? cat(rate.flops) : fixed(double(rate.flops) / 1e6, 1),
                        fixed(rate.gigabytes_per_second(), 2), fixed(rate.gigaflops(), 2),
                        share(report.roof.of_bandwidth(rate)), share(report.roof.of_peak(rate)),
                        share(report.roof.share(rate))});
    }
    return formatted(format,
                     {"op", "variant", "case", "us", csv ? "bytes" : "MB", csv ? "flops" : "MFLOP", "GB/s",
                      "GFLOP/s", "of bandwidth", "of matmul peak", "of roof"},
                     rows);
}

nlohmann::json ops_json(const OpBenchReport& report) {
    const Roofline& roof = report.roof;
    nlohmann::json rows = nlohmann::json::array();
    for (const OpRate& rate : report.rates)
        rows.push_back({{"op", rate.op},
                        {"variant", rate.variant},
                        {"case", rate.shape},
                        {"microseconds", rate.microseconds},
                        {"bytes", rate.bytes},
                        {"flops", rate.flops},
                        {"gb_per_second", rate.gigabytes_per_second()},
                        {"gflops", rate.gigaflops()},
                        {"of_bandwidth", roof.of_bandwidth(rate)},
                        {"of_matmul_peak", roof.of_peak(rate)},
                        {"share", roof.share(rate)}});
    return {{"read_gb_per_second", roof.gigabytes_per_second},
            {"matmul_gflops", roof.gigaflops},
            {"matmul_variant", roof.fastest},
            {"empty_dispatch_us", roof.dispatch_us},
            {"empty_dispatch_behind_barrier_us", roof.barrier_us},
            {"timestamps", report.timestamps},
            {"ops", rows}};
}

void plot_rows(const std::string& folder, const std::vector<BenchRow>& rows, const std::string& title) {
    Chart chart{.title = title, .x_name = "tokens in the cache", .y_name = "tokens per second", .lines = {}};
    // What is the same in all rows tells no line from another.
    const auto same = [&](auto member) {
        return std::ranges::all_of(rows, [&](const BenchRow& row) { return row.*member == rows[0].*member; });
    };
    const bool one_kv = same(&BenchRow::kv), one_chunk = same(&BenchRow::chunk);
    for (const BenchRow& row : rows)
        line_of(chart, cat(row.test, one_kv ? "" : " " + row.kv, one_chunk ? "" : cat(" by ", row.chunk)))
            .points.emplace_back(row.depth, row.mean());
    for (ChartLine& line : chart.lines) line.joined = line.points.size() > 1;
    write_png(folder, "depth.png", draw(chart));
}

void plot_layers(const std::string& folder, const StepStats& step) {
    std::map<std::string, std::map<int32_t, double>> sums;
    for (size_t i = 0; i < step.profile.size() && i < step.profile_layers.size(); ++i)
        if (const int32_t layer = step.profile_layers[i]; layer >= 0) {
            sums["all"][layer] += step.profile[i].microseconds;
            sums[std::string(step.profile[i].label)][layer] += step.profile[i].microseconds;
        }
    Chart chart{
        .title = "Time of a decode step by layer", .x_name = "layer", .y_name = "microseconds", .lines = {}};
    for (const auto& [label, by_layer] : sums)
        line_of(chart, label).points.assign(by_layer.begin(), by_layer.end());
    write_png(folder, "layers.png", draw(chart));
}

void plot_roofline(const std::string& folder, const OpBenchReport& report, const std::string& device) {
    const Roofline& roof = report.roof;
    Chart chart{.title = device,
                .x_name = "FLOP per byte",
                .y_name = "GFLOP/s",
                .x_log = true,
                .y_log = true,
                .lines = {}};
    const double ridge = roof.gigaflops / roof.gigabytes_per_second;
    ChartLine& limit = line_of(chart, cat("read ", fixed(roof.gigabytes_per_second, 1), " GB/s, matmul ",
                                          fixed(roof.gigaflops, 0), " GFLOP/s"));
    double least = ridge / 10, most = ridge * 10;
    std::map<std::string, ChartLine> by_op;
    for (const OpRate& rate : report.rates) {
        if (rate.flops == 0) continue;
        const double intensity = double(rate.flops) / double(rate.bytes);
        least = std::min(least, intensity), most = std::max(most, intensity);
        ChartLine& line = by_op[rate.op];
        line.joined = false;
        line.points.emplace_back(intensity, rate.gigaflops());
        line.labels.push_back(rate.op);
    }
    limit.points = {
        {least, least * roof.gigabytes_per_second}, {ridge, roof.gigaflops}, {most, roof.gigaflops}};
    for (auto& [op, line] : by_op) {
        line.colour = chart_colour(chart.lines.size());
        chart.lines.push_back(line);
    }
    write_png(folder, "roofline.png", draw(chart, 1200, 700));
}

}  // namespace scoria::cli
