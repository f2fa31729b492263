// Progress lines and the interrupt flag.
#include "console.h"

#include <csignal>
#include <unistd.h>

namespace scoria {
namespace {

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "set from a signal handler");

}  // namespace

bool is_terminal(std::FILE* stream) { return ::isatty(::fileno(stream)) == 1; }

std::string bytes_text(uint64_t bytes) {
    const char* const units[] = {"B", "kB", "MB", "GB", "TB"};
    double value = double(bytes);
    size_t unit = 0;
    for (; value >= 999.5 && unit < 4; ++unit) value /= 1000;
    char text[32];
    std::snprintf(text, sizeof text, unit == 0 || value >= 99.95 ? "%.0f %s" : "%.1f %s", value, units[unit]);
    return text;
}

Progress::Progress(std::string label, std::FILE* stream)
    : label_(std::move(label)), stream_(stream), terminal_(is_terminal(stream)) {}

std::string Progress::line() const {
    const uint64_t percent = total_ ? uint64_t(100.0 * double(done_) / double(total_)) : 100;
    return label_ + " " + std::to_string(percent) + "%  " + bytes_text(done_) + " of " + bytes_text(total_);
}

void Progress::update(uint64_t done, uint64_t total) {
    done_ = done;
    total_ = total;
    const auto now = std::chrono::steady_clock::now();
    if (!terminal_ || now - drawn_ < std::chrono::milliseconds(100)) return;
    drawn_ = now;
    std::fprintf(stream_, "\r%s\x1b[K", line().c_str());
    std::fflush(stream_);
}

void Progress::finish() {
    std::fprintf(stream_, terminal_ ? "\r%s\x1b[K\n" : "%s\n", line().c_str());
    std::fflush(stream_);
}

std::atomic<bool>& install_interrupt_flag() {
    struct sigaction action {};
    action.sa_handler = [](int) { interrupted = true; };
    action.sa_flags = int(SA_RESETHAND);  // the second Ctrl-C has its default effect
    ::sigaction(SIGINT, &action, nullptr);
    return interrupted;
}

void remove_interrupt_flag() { std::signal(SIGINT, SIG_DFL); }

}  // namespace scoria
