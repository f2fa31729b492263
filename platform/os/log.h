// Messages for humans (slower paths, ignored caches). The library is silent until a program sets a sink.
#pragma once

#include <string_view>

namespace scoria {

using LogSink = void (*)(std::string_view line, void* context);

/// Sets the process-wide sink (nullptr: silence). Called by programs, and by hosts through the C ABI.
void set_log(LogSink sink, void* context = nullptr);

/// Hands one line, without its end, to the sink. Thread-safe; never throws.
void log(std::string_view line) noexcept;

/// As log(), but a line equal to an earlier one of this process is dropped.
void log_once(std::string_view line) noexcept;

}  // namespace scoria
