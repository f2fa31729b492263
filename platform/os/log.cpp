// The sink, lines that wait for it, and the set of those already said, behind one lock that no sink is called
// under.
#include "log.h"
#include "fail.h"

#include <condition_variable>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace scoria {
namespace {

struct State {
    std::mutex mutex;
    std::condition_variable rests;  // nobody is in the sink
    LogSink sink;                   // exchanged while it rests
    bool busy = false;
    std::vector<std::string> lines;  // for whoever is in it
    std::set<std::string, std::less<>> said;
};

State& state() {
    static State instance;  // made at first use: loading the library runs nothing
    return instance;
}

thread_local bool in_sink = false;

/// Lines come one at a time, yet nobody waits for a sink: it may call what waits for a lock of this thread's.
void write(State& log_state, std::unique_lock<std::mutex>& lock, std::string_view line) {
    if (!log_state.sink) return;
    log_state.lines.emplace_back(line);
    if (log_state.busy) return;
    log_state.busy = in_sink = true;
    while (!log_state.lines.empty()) {
        const std::vector<std::string> lines = std::exchange(log_state.lines, {});
        lock.unlock();
        for (const std::string& each : lines) {
            try {
                log_state.sink(each);
            } catch (...) {  // the other lines are worth as much
            }
        }
        lock.lock();
    }
    log_state.busy = in_sink = false;
    log_state.rests.notify_all();
}

}  // namespace

void set_log(LogSink sink) {
    if (in_sink) fail(Status::busy, "log", "expected a call from outside the log callback");
    State& log_state = state();
    std::unique_lock lock(log_state.mutex);
    log_state.rests.wait(lock, [&] { return !log_state.busy; });
    log_state.sink = std::move(sink);
    log_state.said.clear();
}

void log(std::string_view line) noexcept try {
    if (in_sink) return;
    State& log_state = state();
    std::unique_lock lock(log_state.mutex);
    write(log_state, lock, line);
} catch (...) {
}  // a message is never worth an exception

void log_once(std::string_view line) noexcept try {
    if (in_sink) return;
    State& log_state = state();
    std::unique_lock lock(log_state.mutex);
    if (!log_state.said.contains(line)) {
        log_state.said.emplace(line);
        write(log_state, lock, line);
    }
} catch (...) {
}

}  // namespace scoria
