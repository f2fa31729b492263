// Work that threads share out among themselves.
#pragma once

#include <cstddef>
#include <system_error>
#include <thread>
#include <vector>

namespace scoria {

/// Calls `work`, which must not throw, on this thread and `count` - 1 others, fewer where the system has no
/// more threads, until each has returned.
template <typename Work> void side_by_side(size_t count, const Work& work) {
    std::vector<std::jthread> others;
    try {
        for (size_t i = 1; i < count; ++i) others.emplace_back([&work] { work(); });
    } catch (const std::system_error&) {  // those that began do it all
    }
    work();
}

}  // namespace scoria
