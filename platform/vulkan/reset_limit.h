// Windows stops the whole machine where drivers are reset too often (TdrLimitCount times within TdrLimitTime,
// by default five within a minute), and a kernel that hangs resets one each time it is tried.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>

namespace scoria::vk {

/// Spreads the resets of a process, so that there is room for one that others cause. Not thread-safe.
class ResetLimit {
  public:
    using Clock = std::chrono::steady_clock;
    /// To be called at each reset: when the device may be used again.
    Clock::time_point next(Clock::time_point now) {
        constexpr std::chrono::seconds window(61);
        Clock::time_point& oldest = at_[count_++ % at_.size()];
        const Clock::time_point due = count_ > at_.size() ? std::max(now, oldest + window) : now;
        return oldest = due;
    }

  private:
    std::array<Clock::time_point, 4> at_{};  // of the last resets, in a ring
    size_t count_ = 0;
};

}  // namespace scoria::vk
