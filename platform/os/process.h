// Runs another program, without a shell.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace scoria {

/// Runs `arguments[0]`, found on PATH, and waits for it. Its stdout goes to our stderr, since what it says
/// is a message and not our result. Returns its exit code (128 + signal if a signal ended it), or nothing
/// if there is no such program. Errors: failed.
std::optional<int> run_program(const std::vector<std::string>& arguments);

}  // namespace scoria
