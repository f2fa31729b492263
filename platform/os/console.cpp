// Progress lines.
#include "console.h"

#include "text_table.h"

namespace scoria {

std::string bytes_text(uint64_t bytes) {
    const char* const units[] = {"B", "kB", "MB", "GB", "TB"};
    double value = double(bytes);
    size_t unit = 0;
    for (; value >= 999.5 && unit < 4; ++unit) value /= 1000;
    char text[32];
    std::snprintf(text, sizeof text, unit == 0 || value >= 99.95 ? "%.0f %s" : "%.1f %s", value, units[unit]);
    return text;
}

Progress::Progress(std::string_view label, std::FILE* stream)
    : label_(shown(label, true)), stream_(stream), terminal_(is_terminal(stream)) {}

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

}  // namespace scoria
