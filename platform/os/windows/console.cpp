// Terminals of Windows 10 and later, which know UTF-8 and escape sequences once they are asked to.
#include "console.h"

#include "windows/wide.h"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <io.h>
#include <shellapi.h>

namespace scoria {
namespace {

std::atomic<bool> interrupted{false};

}  // namespace

std::vector<std::string> start_program(int argc, char** argv) {
    ::SetConsoleOutputCP(CP_UTF8);
    ::SetConsoleCP(CP_UTF8);
    for (std::FILE* stream : {stdin, stdout, stderr}) ::_setmode(::_fileno(stream), _O_BINARY);
    const HANDLE messages = ::GetStdHandle(STD_ERROR_HANDLE);
    if (DWORD mode = 0; ::GetConsoleMode(messages, &mode))
        ::SetConsoleMode(messages, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING);

    int count = 0;  // argv is in the code page of the system, which has not all characters
    wchar_t** const words = ::CommandLineToArgvW(::GetCommandLineW(), &count);
    if (!words) return {argv, argv + argc};
    std::vector<std::string> arguments;
    for (int i = 0; i < count; ++i) arguments.push_back(narrow(words[i]));
    ::LocalFree(words);
    return arguments;
}

bool is_terminal(std::FILE* stream) {
    DWORD mode = 0;  // only consoles have one; _isatty() also takes the null device for a terminal
    return ::GetConsoleMode(reinterpret_cast<HANDLE>(::_get_osfhandle(::_fileno(stream))), &mode) != 0;
}

int write_stream(std::FILE* stream, std::string_view text) {
    const bool written = std::fwrite(text.data(), 1, text.size(), stream) == text.size();
    return written && std::fflush(stream) == 0 ? 0 : errno;
}

std::atomic<bool>& install_interrupt_flag() {
    std::signal(SIGINT, [](int) { interrupted = true; });  // for one Ctrl-C; the second ends the process
    return interrupted;
}

void remove_interrupt_flag() { std::signal(SIGINT, SIG_DFL); }

}  // namespace scoria
