// The sink and the set of lines already said, behind one lock.
#include "log.h"

#include <mutex>
#include <set>
#include <string>

namespace scoria {
namespace {

struct State {
    std::mutex mutex;
    LogSink sink = nullptr;
    void* context = nullptr;
    std::set<std::string, std::less<>> said;
};

State& state() {
    static State instance;  // made at first use: loading the library runs nothing
    return instance;
}

void write(State& log_state, std::string_view line) {
    if (log_state.sink) log_state.sink(line, log_state.context);
}

}  // namespace

void set_log(LogSink sink, void* context) {
    State& log_state = state();
    const std::lock_guard lock(log_state.mutex);
    log_state.sink = sink;
    log_state.context = context;
    log_state.said.clear();
}

void log(std::string_view line) noexcept try {
    State& log_state = state();
    const std::lock_guard lock(log_state.mutex);
    write(log_state, line);
} catch (...) {
}  // a message is never worth an exception

void log_once(std::string_view line) noexcept try {
    State& log_state = state();
    const std::lock_guard lock(log_state.mutex);
    if (!log_state.said.contains(line)) {
        log_state.said.emplace(line);
        write(log_state, line);
    }
} catch (...) {
}

}  // namespace scoria
