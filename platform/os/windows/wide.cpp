// See wide.h.
#include "windows/wide.h"

#include <system_error>

namespace scoria {

std::wstring wide(std::string_view text) {
    const int bytes = int(text.size());
    std::wstring out(size_t(::MultiByteToWideChar(CP_UTF8, 0, text.data(), bytes, nullptr, 0)), L'\0');
    ::MultiByteToWideChar(CP_UTF8, 0, text.data(), bytes, out.data(), int(out.size()));
    return out;
}

std::string narrow(std::wstring_view text) {
    const int units = int(text.size());
    std::string out(
        size_t(::WideCharToMultiByte(CP_UTF8, 0, text.data(), units, nullptr, 0, nullptr, nullptr)), '\0');
    ::WideCharToMultiByte(CP_UTF8, 0, text.data(), units, out.data(), int(out.size()), nullptr, nullptr);
    return out;
}

std::string last_error() { return std::system_category().message(int(::GetLastError())); }

}  // namespace scoria
