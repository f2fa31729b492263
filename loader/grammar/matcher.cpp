// See matcher.h.
#include "matcher.h"

#include "fail.h"

#include <algorithm>
#include <unordered_set>

namespace scoria::grammar {
namespace {

constexpr size_t most_positions = 1 << 15;  // of one state
constexpr size_t most_work = 1 << 24;       // positions looked at within one walk: a second
constexpr size_t most_stored = 64 << 20;    // words, within one walk
constexpr size_t trimmed_from = 2 << 20;    // words
constexpr uint32_t most_calls = 10'000;     // deeper nesting is not allowed

[[noreturn]] void refuse_ambiguous() {
    fail(Status::bad_argument, "grammar",
         "expected fewer ways to read one text, got more than there is room for: it is too ambiguous");
}

}  // namespace

Matcher::Matcher(std::shared_ptr<const Program> program)
    : program_(std::move(program)), classes_(program_->byte_classes()) {
    clear();
    start_ = intern(closed({{program_->start(), bottom}}));
}

void Matcher::clear() {
    frames_.assign(1, {0, 0, 0});
    frame_ids_.clear();
    sets_.clear();
    set_ids_.clear();
    next_.clear();
    stored_ = 0;
    intern({});  // dead
    std::fill(next_.begin(), next_.end(), dead);
}

uint32_t Matcher::push(uint32_t back, uint32_t below) {
    const auto [at, added] = frame_ids_.try_emplace(uint64_t(back) << 32 | below, uint32_t(frames_.size()));
    if (added) {
        frames_.push_back({back, below, frames_[below].depth + 1});
        stored_ += 8;
    }
    return at->second;
}

Matcher::Set Matcher::closed(std::vector<Position> todo) {
    Set set;
    std::unordered_set<uint64_t> visited;
    while (!todo.empty()) {
        const Position at = todo.back();
        todo.pop_back();
        if (!visited.insert(uint64_t(at.state) << 32 | at.stack).second) continue;
        if (++work_ > most_work) refuse_ambiguous();
        const Program::State state = program_->state(at.state);
        if (!state.bytes.empty()) set.positions.push_back(at);
        for (const uint32_t to : state.jumps) todo.push_back({to, at.stack});
        for (const Program::Call& call : state.calls) {
            if (!call.tail && frames_[at.stack].depth == most_calls) continue;
            todo.push_back({call.start, call.tail ? at.stack : push(call.to, at.stack)});
        }
        if (!state.ends) continue;
        if (at.stack == bottom)
            set.accepts = true;
        else
            todo.push_back({frames_[at.stack].back, frames_[at.stack].below});
    }
    if (set.positions.size() > most_positions) refuse_ambiguous();
    std::ranges::sort(set.positions);
    return set;
}

Matcher::State Matcher::intern(Set set) {
    uint64_t hash = set.accepts;
    for (const Position& each : set.positions)
        hash = (hash ^ (uint64_t(each.state) << 32 | each.stack)) * 0x9E3779B97F4A7C15ull, hash ^= hash >> 29;
    std::vector<State>& alike = set_ids_[hash];
    for (const State id : alike)
        if (sets_[id].accepts == set.accepts && sets_[id].positions == set.positions) return id;
    stored_ += 2 * set.positions.size() + classes_ + 32;
    if (stored_ > most_stored) refuse_ambiguous();
    const State id = State(sets_.size());
    alike.push_back(id);
    sets_.push_back(std::move(set));
    next_.resize(next_.size() + classes_, unknown);
    return id;
}

Matcher::State Matcher::follow(State state, uint32_t byte_class) {
    const uint8_t byte = program_->byte_of(byte_class);
    std::vector<Position> reached;
    work_ += sets_[state].positions.size();
    for (const Position& at : sets_[state].positions)
        for (const Program::ByteEdge& edge : program_->state(at.state).bytes)
            if (edge.first <= byte && byte <= edge.last) reached.push_back({edge.to, at.stack});
    const State to = reached.empty() ? dead : intern(closed(std::move(reached)));
    return next_[size_t(state) * classes_ + byte_class] = to;
}

Matcher::State Matcher::trim(State current, bool& forgot) {
    work_ = 0;
    forgot = stored_ > trimmed_from;
    if (!forgot) return current;
    const std::vector<Frame> old_frames = std::move(frames_);
    Set kept = std::move(sets_[current]);
    clear();
    for (Position& position : kept.positions) {
        std::vector<uint32_t> backs;
        for (uint32_t at = position.stack; at != bottom; at = old_frames[at].below)
            backs.push_back(old_frames[at].back);
        position.stack = bottom;
        for (auto back = backs.rbegin(); back != backs.rend(); ++back)
            position.stack = push(*back, position.stack);
    }
    std::ranges::sort(kept.positions);
    const State renamed = intern(std::move(kept));
    start_ = intern(closed({{program_->start(), bottom}}));
    return renamed;
}

}  // namespace scoria::grammar
