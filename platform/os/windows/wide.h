// Windows speaks UTF-16; everything else here is UTF-8.
#pragma once

#ifndef NOMINMAX  // MinGW's own headers define it
#define NOMINMAX
#endif
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <string>
#include <string_view>

namespace scoria {

std::wstring wide(std::string_view text);
std::string narrow(std::wstring_view text);
/// Of the last call that failed in this thread.
std::string last_error();

}  // namespace scoria
