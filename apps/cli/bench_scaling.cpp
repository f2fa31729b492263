// See bench_scaling.h. Each series is fitted by a power of what grows (least squares of logarithms) and,
// where time should be a line, by a constant and a slope.
#include "bench_scaling.h"

#include "bench_report.h"
#include "io.h"

#include "file.h"
#include "instruments/synthetic_model.h"
#include "pictures/chart.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>

namespace scoria::cli {
namespace {

using ScalingClock = std::chrono::steady_clock;

/// Milliseconds over what grows.
struct Series {
    std::string name, x_name, y_name;
    std::vector<std::pair<double, double>> points{};
};

struct Line {
    double at_zero, slope;
};
Line line_through(const std::vector<std::pair<double, double>>& points) {
    double x = 0, y = 0, xx = 0, xy = 0;
    for (const auto& [px, py] : points) x += px, y += py, xx += px * px, xy += px * py;
    const double n = double(points.size()), slope = (n * xy - x * y) / (n * xx - x * x);
    return {(y - slope * x) / n, slope};
}
double power_of(std::vector<std::pair<double, double>> points) {
    std::erase_if(points, [](const auto& point) { return point.first <= 0; });
    for (auto& [x, y] : points) x = std::log(x), y = std::log(y);
    return line_through(points).slope;
}
/// The steepest power between neighbours: above 1 something grows faster than what it works on.
double steepest(const std::vector<std::pair<double, double>>& points) {
    double most = -INFINITY;
    for (size_t i = 1; i < points.size(); ++i)
        if (points[i - 1].first > 0) most = std::max(most, power_of({points[i - 1], points[i]}));
    return most;
}

class Scaling {
  public:
    Scaling(const ScalingOptions& options, const Common& common) : options_(options), common_(common) {}

    std::vector<Series> run() {
        Series size{"model", "MB of weights a token reads", "ms per token"},
            depth{"depth", "tokens in the cache", "ms per token"},
            batch{"batch", "tokens of one pass", "ms per pass"};
        for (const std::string& name : options_.sizes) {
            EngineOptions flags = engine_options(common_);
            const uint64_t deepest = *std::ranges::max_element(options_.depths);
            if (flags.context == 0)
                flags.context = uint32_t(std::min<uint64_t>(deepest + 512 + steps, UINT32_MAX));
            const std::unique_ptr<Engine> engine = load_engine(
                std::make_shared<const Model>(synthetic_model(name, options_.type)), flags, common_);
            Session session(*engine);
            const double token = milliseconds(session, 1, steps);
            size.points.emplace_back(double(session.stats().weight_bytes_per_token) / 1e6, token);
            if (common_.verbose) note(name, ": ", fixed(token, 2), " ms per token");
            if (&name != &options_.sizes.front()) continue;
            for (const uint32_t tokens : {1u, 2u, 4u, 8u, 16u, 32u, 64u, 128u, 256u, 512u})
                batch.points.emplace_back(tokens, pass(session, tokens));
            for (const uint32_t positions : options_.depths)
                depth.points.emplace_back(positions, milliseconds(session, std::max(positions, 1u), steps));
        }
        return {size, depth, batch};
    }

  private:
    static constexpr uint32_t steps = 16;  // tokens that a time is the mean of

    static std::vector<TokenId> ids(uint32_t count) {
        std::vector<TokenId> all(count);
        for (uint32_t i = 0; i < count; ++i) all[i] = TokenId(i * 7919 % 8192);
        return all;
    }
    template <class Work> double best(Session& session, uint32_t depth, const Work& work) {
        double least = INFINITY;
        for (uint32_t round = 0; round <= options_.repetitions; ++round) {
            session.truncate(0);
            if (depth > 0) session.append(ids(depth));
            const auto start = ScalingClock::now();
            work();
            const double ms = std::chrono::duration<double, std::milli>(ScalingClock::now() - start).count();
            if (round > 0) least = std::min(least, ms);  // the first one compiles
        }
        return least;
    }
    /// Of a pass, the mean of `passes`: a first token is sampled from logits that stand.
    double milliseconds(Session& session, uint32_t depth, uint32_t passes) {
        const auto generate = [&] {
            session.generate({.sampling = {}, .max_tokens = passes + 1, .ignore_end = true, .on_token = {}});
        };
        return best(session, depth, generate) / passes;
    }
    double pass(Session& session, uint32_t tokens) {
        return best(session, 0, [&] { session.append(ids(tokens)); });
    }

    const ScalingOptions& options_;
    const Common& common_;
};

std::string said_of(const Series& series) {
    const Line line = line_through(series.points);
    const std::string fit =
        cat(fixed(line.at_zero, 2), " ms + ", scientific(line.slope), " ms x ", series.x_name);
    if (series.name == "depth") return cat("depth: ", fit);  // a power of what begins at 0 says nothing
    return cat(series.name, ": time grows as power ", fixed(power_of(series.points), 2),
               ", between neighbours at most ", fixed(steepest(series.points), 2), "; ", fit);
}

void plot(const std::string& folder, const std::vector<Series>& all, const std::string& title) {
    constexpr int width = 480, height = 400;
    Picture sheet(width * int(all.size()), height, {255, 255, 255});
    for (size_t i = 0; i < all.size(); ++i) {
        const Series& series = all[i];
        const bool log = series.name != "depth";
        const Line line = line_through(series.points);
        Chart chart{.title = i == 0 ? title : "",
                    .x_name = series.x_name,
                    .y_name = series.y_name,
                    .x_log = log,
                    .y_log = log,
                    .lines = {}};
        const double power = power_of(series.points);
        chart.lines.push_back({"measured", series.points, chart_colour(0), series.points.size() > 1});
        ChartLine fit{log ? cat("power ", fixed(power, 2)) : cat("line"), {}, chart_colour(1)};
        double mean = 0;  // of the logarithm of what stands before the power
        for (const auto& [x, y] : series.points) mean += log ? std::log(y) - power * std::log(x) : 0;
        mean /= double(series.points.size());
        for (const auto& [x, y] : series.points)
            fit.points.emplace_back(x, log ? std::exp(mean) * std::pow(x, power)
                                           : line.at_zero + line.slope * x);
        chart.lines.push_back(fit);
        sheet.paste(width * int(i), 0, draw(chart, width, height));
    }
    make_folders(folder);
    const std::string png = sheet.png();
    write_file_atomic(folder + "/scaling.png", std::as_bytes(std::span(png)));
}

}  // namespace

int bench_scaling(const ScalingOptions& options, const Common& common) {
    const size_t sizes = std::set(options.sizes.begin(), options.sizes.end()).size(),
                 depths = std::set(options.depths.begin(), options.depths.end()).size();
    if (sizes < 2 || depths < 2)  // through fewer points goes no line
        fail(Status::bad_argument, "bench", "expected two sizes and two depths or more, got ", sizes, " and ",
             depths);
    const std::vector<Series> all = Scaling(options, common).run();
    std::vector<std::vector<std::string>> rows;
    nlohmann::json json = nlohmann::json::array();
    for (const Series& series : all) {
        for (const auto& [x, y] : series.points)
            rows.push_back({series.name, fixed(x, 1), series.x_name, fixed(y, 3), series.y_name});
        json.push_back({{"series", series.name},
                        {"x", series.x_name},
                        {"y", series.y_name},
                        {"points", series.points},
                        {"power", power_of(series.points)},
                        {"steepest", steepest(series.points)},
                        {"at_zero", line_through(series.points).at_zero},
                        {"slope", line_through(series.points).slope}});
    }
    if (common.json || options.format == "json")
        print(json.dump(1), '\n');
    else
        print(formatted(options.format, {"series", "at", "of", "time", "in"}, rows));
    for (const Series& series : all) note(said_of(series));
    if (!options.plots.empty()) {
        std::string title = "synthetic";
        for (const std::string& size : options.sizes) title += " " + size;
        plot(options.plots, all, title);
    }
    return 0;
}

}  // namespace scoria::cli
