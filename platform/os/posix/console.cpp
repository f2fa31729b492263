// Terminals and signals of POSIX.
#include "console.h"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

namespace scoria {
namespace {

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "set from a signal handler");

}  // namespace

std::vector<std::string> start_program(int argc, char** argv) {
    std::signal(SIGPIPE, SIG_IGN);
    std::signal(SIGXFSZ, SIG_IGN);  // a file longer than RLIMIT_FSIZE: an error of the write
    // Where one of these is closed, a file of ours or a driver's, opened later, would be read as input or
    // written as output. So each gets what fails as the closed one would; but who closes stderr wants
    // silence.
    constexpr int ways[] = {O_WRONLY, O_RDONLY, O_WRONLY};
    for (int stream = 0; stream <= 2; ++stream)
        if (::fcntl(stream, F_GETFD) < 0) (void)::open("/dev/null", ways[stream]);
    return {argv, argv + argc};
}

bool is_terminal(std::FILE* stream) { return ::isatty(::fileno(stream)) == 1; }

int write_stream(std::FILE* stream, std::string_view text) {
    const int file = ::fileno(stream);
    while (!text.empty()) {
        const ssize_t wrote = ::write(file, text.data(), text.size());
        if (wrote >= 0) {
            text.remove_prefix(size_t(wrote));
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {  // whom we share it with has set O_NONBLOCK
            pollfd free{file, POLLOUT, 0};
            ::poll(&free, 1, -1);
        } else if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
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
