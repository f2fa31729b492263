// The folder of the user that stays on this machine.
#include "paths.h"

#include "windows/wide.h"

#include <filesystem>

namespace scoria {

std::string cache_folder() {
    const wchar_t* value = ::_wgetenv(L"LOCALAPPDATA");
    return value && std::filesystem::path(value).is_absolute() ? narrow(value) + "\\scoria" : "";
}

}  // namespace scoria
