// What the operating system knows: processes, times, shared libraries.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

namespace scoria {

uint64_t process_id();
/// "Linux 6.1.0 x86_64".
std::string system_name();
/// Of the calling thread, in microseconds.
double thread_cpu_us();
/// The local time as if it were UTC, in seconds since 1970: how a time without zone is counted.
int64_t local_time();

/// The first of `names` that can be opened, for the life of the process; nullptr: none.
void* open_shared_library(std::initializer_list<const char*> names);
using Procedure = void (*)();
/// nullptr: the library has no such function.
Procedure find_procedure(void* library, const char* name);

}  // namespace scoria
