// XDG base directories (specification 0.8): relative values are ignored.
#include "paths.h"

#include <cstdlib>

namespace scoria {

std::string cache_folder() {
    const auto absolute = [](const char* name) -> std::string {
        const char* value = std::getenv(name);
        return value && value[0] == '/' ? value : "";
    };
    if (const std::string cache = absolute("XDG_CACHE_HOME"); !cache.empty()) return cache + "/scoria";
    if (const std::string home = absolute("HOME"); !home.empty()) return home + "/.cache/scoria";
    return "";
}

}  // namespace scoria
