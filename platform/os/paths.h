// Where Scoria keeps files of its own. The only place in the platform that reads the environment, and
// it does so only when a program asks.
#pragma once

#include <string>

namespace scoria {

/// $XDG_CACHE_HOME/scoria, else $HOME/.cache/scoria; on Windows %LOCALAPPDATA%\scoria. Empty where none is an
/// absolute path. Not created.
std::string cache_folder();

}  // namespace scoria
