// Wall-clock times of a verb's steps.
#pragma once

#include <chrono>

namespace scoria::cli {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace scoria::cli
