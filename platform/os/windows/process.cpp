// CreateProcessW behind one function.
#include "process.h"

#include "fail.h"
#include "windows/wide.h"

namespace scoria {
namespace {

/// As CommandLineToArgvW takes it apart: backslashes count double before a quotation mark, and only there.
std::wstring quoted(const std::wstring& argument) {
    std::wstring out = L"\"";
    size_t backslashes = 0;
    for (const wchar_t c : argument) {
        if (c == L'"') out.append(backslashes + 1, L'\\');
        backslashes = c == L'\\' ? backslashes + 1 : 0;
        out += c;
    }
    return out.append(backslashes, L'\\') + L'"';
}

}  // namespace

std::optional<int> run_program(const std::vector<std::string>& arguments) {
    std::wstring line;
    for (const std::string& argument : arguments)
        line += (line.empty() ? L"" : L" ") + quoted(wide(argument));
    STARTUPINFOW start{};
    start.cb = sizeof start;
    start.dwFlags = STARTF_USESTDHANDLES;
    start.hStdInput = ::GetStdHandle(STD_INPUT_HANDLE);
    start.hStdOutput = start.hStdError = ::GetStdHandle(STD_ERROR_HANDLE);
    PROCESS_INFORMATION child{};
    if (!::CreateProcessW(nullptr, line.data(), nullptr, nullptr, TRUE, 0, nullptr, nullptr, &start,
                          &child)) {
        const DWORD error = ::GetLastError();
        if (error == ERROR_FILE_NOT_FOUND || error == ERROR_PATH_NOT_FOUND || error == ERROR_ACCESS_DENIED)
            return std::nullopt;
        fail(Status::failed, arguments[0], "expected to start, got: ", last_error());
    }
    ::CloseHandle(child.hThread);
    DWORD code = 0;
    const bool ended = ::WaitForSingleObject(child.hProcess, INFINITE) == WAIT_OBJECT_0 &&
                       ::GetExitCodeProcess(child.hProcess, &code);
    ::CloseHandle(child.hProcess);
    if (!ended) fail(Status::failed, arguments[0], "expected to be waited for, got: ", last_error());
    return int(code);
}

}  // namespace scoria
