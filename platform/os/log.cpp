// The sink and the set of lines already said, behind one lock.
#include "log.h"
#include "fail.h"

#include <mutex>
#include <set>
#include <string>

namespace scoria {
namespace {

struct State {
    std::mutex mutex;
    LogSink sink;
    std::set<std::string, std::less<>> said;
};

State& state() {
    static State instance;  // made at first use: loading the library runs nothing
    return instance;
}

thread_local bool in_sink = false;

void write(State& log_state, std::string_view line) {
    if (!log_state.sink) return;
    in_sink = true;
    struct Left {
        ~Left() { in_sink = false; }
    } const left;
    log_state.sink(line);
}

}  // namespace

void set_log(LogSink sink) {
    if (in_sink) fail(Status::busy, "log", "expected a call from outside the log callback");
    State& log_state = state();
    const std::lock_guard lock(log_state.mutex);
    log_state.sink = std::move(sink);
    log_state.said.clear();
}

void log(std::string_view line) noexcept try {
    if (in_sink) return;
    State& log_state = state();
    const std::lock_guard lock(log_state.mutex);
    write(log_state, line);
} catch (...) {
}  // a message is never worth an exception

void log_once(std::string_view line) noexcept try {
    if (in_sink) return;
    State& log_state = state();
    const std::lock_guard lock(log_state.mutex);
    if (!log_state.said.contains(line)) {
        log_state.said.emplace(line);
        write(log_state, line);
    }
} catch (...) {
}

}  // namespace scoria
