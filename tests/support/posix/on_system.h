// What tests ask of the system, on POSIX.
#pragma once

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace scoria::test {

inline void set_variable(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }
inline void unset_variable(const char* name) { ::unsetenv(name); }

/// A folder that nobody can make.
inline constexpr const char* impossible_folder = "/proc/scoria";

inline bool is_mapped(const std::string& path) {
    std::ifstream maps("/proc/self/maps");
    return std::string(std::istreambuf_iterator<char>(maps), {}).find(path) != std::string::npos;
}

inline constexpr bool can_kill = true;
/// Ends the process, as a crash would.
[[noreturn]] inline void end_process() {
    std::raise(SIGKILL);
    std::abort();
}
/// Whether `work`, in a process of its own, was ended by end_process().
template <class Work> bool ends_process(const Work& work) {
    const pid_t child = ::fork();
    if (child == 0) {
        work();
        ::_exit(0);
    }
    int status = 0;
    return ::waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

}  // namespace scoria::test
