// Errors that reach the user. Bad input throws Error with "[where] expected X, got Y"; the C ABI and
// the command line turn its status into a code. Bugs of our own are assert()s, never Error.
#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace scoria {

enum class Status : uint32_t {
    ok,
    failed,        // anything that fits no narrower name
    bad_argument,  // a flag, a value or a call the caller could have known to be wrong
    bad_file,      // a file that is missing, truncated or lies
    unsupported,   // valid, but not something this build or device can do
    out_of_host_memory,
    out_of_device_memory,
    device_lost,
    cancelled,
    context_full,
    non_finite,  // logits hold no finite number
    timeout,
    busy,  // the object is in use: by another thread, by what it is for, or from inside its own callback
};

class Error : public std::runtime_error {
  public:
    Error(Status status, const std::string& message) : std::runtime_error(message), status_(status) {}
    Status status() const noexcept { return status_; }

  private:
    Status status_;
};

namespace detail {
inline void append(std::string& out, std::string_view part) { out += part; }
inline void append(std::string& out, char part) { out += part; }
template <class T>
requires(std::integral<T> || std::floating_point<T>)  // bool excluded: string literals would convert to it
    void append(std::string& out, T part) {
    char text[64];
    const auto end = std::to_chars(text, text + sizeof text, part);
    out.append(text, end.ptr);
}
}  // namespace detail

/// Joins strings and numbers into one string. GCC 12 has no std::format.
template <class... Parts> std::string cat(const Parts&... parts) {
    std::string out;
    (detail::append(out, parts), ...);
    return out;
}

/// Throws Error with the text "[where] parts...".
template <class... Parts>
[[noreturn]] void fail(Status status, std::string_view where, const Parts&... parts) {
    throw Error(status, cat("[", where, "] ", parts...));
}

}  // namespace scoria
