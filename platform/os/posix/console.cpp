// Terminals and signals of POSIX.
#include "console.h"

#include <csignal>
#include <fcntl.h>
#include <unistd.h>

namespace scoria {
namespace {

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "set from a signal handler");

}  // namespace

std::vector<std::string> start_program(int argc, char** argv) {
    std::signal(SIGPIPE, SIG_IGN);
    std::signal(SIGXFSZ, SIG_IGN);  // a file longer than RLIMIT_FSIZE: an error of the write
    // Else a file of ours or a driver's, opened later, would be what is read as input or written as output.
    int opened = 0;
    while (opened >= 0 && opened <= 2) opened = ::open("/dev/null", O_RDWR);
    if (opened >= 0) ::close(opened);
    return {argv, argv + argc};
}

bool is_terminal(std::FILE* stream) { return ::isatty(::fileno(stream)) == 1; }

std::atomic<bool>& install_interrupt_flag() {
    struct sigaction action {};
    action.sa_handler = [](int) { interrupted = true; };
    action.sa_flags = int(SA_RESETHAND);  // the second Ctrl-C has its default effect
    ::sigaction(SIGINT, &action, nullptr);
    return interrupted;
}

void remove_interrupt_flag() { std::signal(SIGINT, SIG_DFL); }

}  // namespace scoria
