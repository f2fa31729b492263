// What Windows says.
#include "system.h"

#include "fail.h"
#include "windows/wide.h"

#include <ctime>

namespace scoria {

uint64_t process_id() { return ::GetCurrentProcessId(); }

std::string system_name() {
    // GetVersionEx answers 6.2 to programs without a manifest, whatever runs.
    OSVERSIONINFOW version{};
    version.dwOSVersionInfoSize = sizeof version;
    using Get = LONG(WINAPI*)(OSVERSIONINFOW*);
    if (const Procedure get = find_procedure(::GetModuleHandleW(L"ntdll.dll"), "RtlGetVersion"))
        reinterpret_cast<Get>(get)(&version);
    return cat("Windows ", version.dwMajorVersion, '.', version.dwMinorVersion, '.', version.dwBuildNumber);
}

double thread_cpu_us() {
    FILETIME created, exited, kernel, user;
    if (!::GetThreadTimes(::GetCurrentThread(), &created, &exited, &kernel, &user)) return 0;
    const auto us = [](FILETIME time) {
        return double(uint64_t(time.dwHighDateTime) << 32 | time.dwLowDateTime) / 10;
    };
    return us(kernel) + us(user);
}

int64_t local_time() {
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    ::localtime_s(&parts, &now);
    return int64_t(::_mkgmtime64(&parts));
}

void* open_shared_library(std::initializer_list<const char*> names) {
    // Not the current folder, which anybody may have filled.
    constexpr DWORD places = LOAD_LIBRARY_SEARCH_APPLICATION_DIR | LOAD_LIBRARY_SEARCH_SYSTEM32;
    for (const char* name : names)
        if (const HMODULE library = ::LoadLibraryExW(wide(name).c_str(), nullptr, places)) return library;
    return nullptr;
}

Procedure find_procedure(void* library, const char* name) {
    return reinterpret_cast<Procedure>(::GetProcAddress(static_cast<HMODULE>(library), name));
}

}  // namespace scoria
