// Messages for humans (slower paths, ignored caches). The library is silent until a program sets a sink.
#pragma once

#include <functional>
#include <string_view>

namespace scoria {

using LogSink = std::function<void(std::string_view line)>;

/// Sets the process-wide sink (nullptr: silence). Called by programs, and by hosts through the C ABI. When it
/// returns, the sink before is not called any more. Errors: busy, from inside a sink.
void set_log(LogSink sink);

/// Hands one line, without its end, to the sink, or, where another thread is in it, to that thread, which
/// hands it on before it leaves: no caller waits for another's sink. Thread-safe; never throws. What a sink
/// itself would log is dropped.
void log(std::string_view line) noexcept;

/// As log(), but a line equal to an earlier one of this process is dropped.
void log_once(std::string_view line) noexcept;

}  // namespace scoria
