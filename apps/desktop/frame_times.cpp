// See frame_times.h.
#include "frame_times.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <numeric>

namespace scoria::desktop {
namespace {

constexpr size_t most_recent_frames = 240;
constexpr size_t most_frames = 1'000'000;  // of a phase: hours

float percentile(std::vector<float> values, double part) {
    if (values.empty()) return 0;
    const auto at = values.begin() + std::ptrdiff_t(part * double(values.size() - 1));
    std::ranges::nth_element(values, at);
    return *at;
}

nlohmann::ordered_json summary(const std::vector<float>& values) {
    const double sum = std::accumulate(values.begin(), values.end(), 0.0);
    return {{"mean", sum / double(std::max<size_t>(values.size(), 1))},
            {"p50", percentile(values, 0.5)},
            {"p95", percentile(values, 0.95)},
            {"max", percentile(values, 1)}};
}

}  // namespace

void FrameTimes::add(Phase phase, float work_ms, float interval_ms) {
    if (recent_.size() >= most_recent_frames) recent_.erase(recent_.begin());
    recent_.push_back(interval_ms);
    Series& series = phases_[size_t(phase)];
    if (series.work.size() >= most_frames) return;
    series.work.push_back(work_ms);
    series.interval.push_back(interval_ms);
}

float FrameTimes::recent_p95() const { return percentile(recent_, 0.95); }

std::string FrameTimes::report() const {
    nlohmann::ordered_json json;
    for (size_t i = 0; i < phases_.size(); ++i)
        json[phase_name(Phase(i))] = {{"frames", phases_[i].work.size()},
                                      {"work_ms", summary(phases_[i].work)},
                                      {"interval_ms", summary(phases_[i].interval)}};
    return json.dump(1) + "\n";
}

}  // namespace scoria::desktop
