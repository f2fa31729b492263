// What POSIX says.
#include "system.h"

#include "fail.h"

#include <ctime>
#include <dlfcn.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

namespace scoria {

uint64_t process_id() { return uint64_t(::getpid()); }

std::string system_name() {
    utsname system{};
    ::uname(&system);
    return cat(std::string_view(system.sysname), ' ', std::string_view(system.release), ' ',
               std::string_view(system.machine));
}

double thread_cpu_us() {
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return double(now.tv_sec) * 1e6 + double(now.tv_nsec) * 1e-3;
}

int64_t local_time() {
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    ::localtime_r(&now, &parts);
    return int64_t(::timegm(&parts));
}

void* open_shared_library(std::initializer_list<const char*> names) {
    for (const char* name : names)
        if (void* library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) return library;
    return nullptr;
}

Procedure find_procedure(void* library, const char* name) {
    return reinterpret_cast<Procedure>(::dlsym(library, name));
}

}  // namespace scoria
