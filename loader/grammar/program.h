// A grammar compiled to networks of byte transitions and calls, one network per rule; immutable.
#pragma once

#include "grammar.h"

#include <array>
#include <memory>
#include <span>

namespace scoria::grammar {

class Program {
  public:
    /// Errors: bad_argument for a grammar that is too large (states after repetitions are unrolled), a rule
    /// that is left-recursive, or one that can never end.
    explicit Program(const Grammar& grammar);

    struct ByteEdge {
        uint8_t first, last;
        uint32_t to;
    };
    struct Call {
        uint32_t start;  // state of the rule called
        uint32_t to;     // where it returns to
        bool tail;       // returning from there follows at once: nothing needs to be remembered
    };
    struct State {
        std::span<const ByteEdge> bytes;
        std::span<const Call> calls;
        std::span<const uint32_t> jumps;
        bool ends;  // of its rule
    };
    State state(uint32_t id) const;
    uint32_t start() const { return start_; }
    uint32_t states() const { return uint32_t(ends_.size()); }

    /// Bytes that no state tells apart are one class.
    uint32_t byte_classes() const { return uint32_t(class_byte_.size()); }
    uint32_t class_of(uint8_t byte) const { return class_of_[byte]; }
    uint8_t byte_of(uint32_t byte_class) const { return class_byte_[byte_class]; }

  private:
    friend class Compiler;
    Program() = default;
    uint32_t start_ = 0;
    std::vector<ByteEdge> bytes_;
    std::vector<Call> calls_;
    std::vector<uint32_t> jumps_;
    std::vector<uint32_t> first_byte_, first_call_, first_jump_;  // per state, and one more
    std::vector<bool> ends_;
    std::array<uint8_t, 256> class_of_{};
    std::vector<uint8_t> class_byte_;
};

}  // namespace scoria::grammar
