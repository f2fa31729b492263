// The terminal as programs use it: progress on stderr, and Ctrl-C as a flag. Not used by the library.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace scoria {

/// What main() calls first: a pipe that its reader closed is a failed write and not the end of the process,
/// so that the device is released in order; text is UTF-8, and bytes are written as they are. Returns argv,
/// in UTF-8.
std::vector<std::string> start_program(int argc, char** argv);

bool is_terminal(std::FILE* stream);

/// All of `text`, behind the back of stdio: signals and streams that do not block cut no text short. 0, or
/// errno.
int write_stream(std::FILE* stream, std::string_view text);

/// A bar "label 42%  1.2 of 2.9 GB" redrawn in place at most ten times a second; where the stream is
/// not a terminal, nothing but one final line.
class Progress {
  public:
    explicit Progress(std::string_view label, std::FILE* stream = stderr);
    void update(uint64_t done, uint64_t total);  // bytes
    void finish();

  private:
    std::string line() const;
    std::string label_;
    std::FILE* stream_;
    bool terminal_;
    uint64_t done_ = 0, total_ = 0;
    std::chrono::steady_clock::time_point drawn_{};
};

/// "1.2 GB"; decimal units.
std::string bytes_text(uint64_t bytes);

/// Installs a SIGINT handler that sets the returned flag; a second Ctrl-C ends the process.
std::atomic<bool>& install_interrupt_flag();
/// Ctrl-C ends the process again.
void remove_interrupt_flag();

}  // namespace scoria
