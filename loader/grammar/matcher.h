// Follows a grammar byte by byte: an automaton built as it is walked. A state is the set of all positions in
// the grammar, each with its stack of calls; stacks share their tails.
#pragma once

#include "program.h"

#include <cstddef>
#include <unordered_map>

namespace scoria::grammar {

class Matcher {
  public:
    using State = uint32_t;
    static constexpr State dead = 0;  // nothing can follow and nothing has ended

    explicit Matcher(std::shared_ptr<const Program> program);
    State start() const { return start_; }
    /// Errors: bad_argument when the grammar is too ambiguous (positions of one state, or all states'
    /// together, pass a limit).
    State next(State state, uint8_t byte) {
        const uint32_t known = next_[size_t(state) * classes_ + program_->class_of(byte)];
        return known != unknown ? known : follow(state, program_->class_of(byte));
    }
    bool accepts(State state) const { return sets_[state].accepts; }
    bool continues(State state) const { return !sets_[state].positions.empty(); }

    /// Starts a walk. Bounds memory: if much was built, forgets every state but `current` and returns its new
    /// name. All other states, and what a caller keeps by state, are void if `forgot` is set.
    State trim(State current, bool& forgot);

  private:
    static constexpr uint32_t unknown = UINT32_MAX;
    static constexpr uint32_t bottom = 0;  // stack without calls

    struct Frame {
        uint32_t back;  // state to return to
        uint32_t below;
        uint32_t depth;
    };
    struct Position {
        uint32_t state, stack;
        auto operator<=>(const Position&) const = default;
    };
    struct Set {
        std::vector<Position> positions;  // sorted; of states that want a byte
        bool accepts = false;
    };
    State follow(State state, uint32_t byte_class);
    uint32_t push(uint32_t back, uint32_t below);
    /// All positions that `todo` reaches without a byte.
    Set closed(std::vector<Position> todo);
    State intern(Set set);
    void clear();

    std::shared_ptr<const Program> program_;
    uint32_t classes_;
    std::vector<Frame> frames_;
    std::unordered_map<uint64_t, uint32_t> frame_ids_;
    std::vector<Set> sets_;
    std::unordered_map<uint64_t, std::vector<State>> set_ids_;  // by hash
    std::vector<uint32_t> next_;                                // [state, byte class]
    size_t stored_ = 0;                                         // words of positions and transitions
    size_t work_ = 0;                                           // positions looked at since the last trim
    State start_ = dead;
};

}  // namespace scoria::grammar
