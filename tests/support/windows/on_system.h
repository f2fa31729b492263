// What tests ask of the system, on Windows.
#pragma once

#include "windows/wide.h"

#include <cstdlib>
#include <string>

namespace scoria::test {

inline void set_variable(const char* name, const std::string& value) {
    ::_wputenv_s(wide(name).c_str(), wide(value).c_str());
}
inline void unset_variable(const char* name) { set_variable(name, ""); }

/// A folder that nobody can make.
inline constexpr const char* impossible_folder = "NUL\\scoria";

/// A file that is mapped cannot be cut. One that is not is empty afterwards.
inline bool is_mapped(const std::string& path) {
    const HANDLE file = ::CreateFileW(wide(path).c_str(), GENERIC_WRITE,
                                      FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, nullptr,
                                      OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, nullptr);
    const bool refused = !::SetEndOfFile(file) && ::GetLastError() == ERROR_USER_MAPPED_FILE;
    ::CloseHandle(file);
    return refused;
}

inline constexpr bool can_kill = false;  // a copy of this process to end is not to be had
[[noreturn]] inline void end_process() { std::abort(); }
template <class Work> bool ends_process(const Work&) { return false; }

}  // namespace scoria::test
