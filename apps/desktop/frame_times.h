// How long frames take: the last ones for the plot, and all of them by what Scoria was doing.
#pragma once

#include "chat.h"

#include <array>
#include <string>
#include <vector>

namespace scoria::desktop {

class FrameTimes {
  public:
    /// `work_ms`: from the frame's begin until it is presented; `interval_ms`: since the one before was.
    void add(Phase phase, float work_ms, float interval_ms);
    const std::vector<float>& recent() const { return recent_; }  // intervals, the newest last
    float recent_p95() const;
    /// Count, mean, median, 95th percentile and worst of each phase, as JSON.
    std::string report() const;

  private:
    struct Series {
        std::vector<float> work, interval;
    };
    std::array<Series, 5> phases_;
    std::vector<float> recent_;
};

}  // namespace scoria::desktop
