// One function of a module, whose control flow (SPIR-V 1.6, section 2.11) is folded by what is known before.
#pragma once

#include "spirv_values.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

namespace scoria::vk::spirv {

/// Adds it to `out`.
inline void write(std::vector<uint32_t>& out, Instruction each) {
    out.insert(out.end(), each.begin(), each.end());
}

struct Block {
    uint32_t label = 0;
    std::vector<Instruction> body;     // without the two that follow
    Instruction merge;                 // of the head of a selection or a loop, else empty
    Instruction end;                   // where it goes
    std::vector<uint32_t> successors;  // labels
    bool folded = false;               // it had several, and no merge since

    /// What a head promises to exist: where its construct ends, and where a loop goes on.
    Instruction promised() const;
    bool goes_to(uint32_t there) const { return std::ranges::find(successors, there) != successors.end(); }
};

class Function {
  public:
    /// From OpFunction to OpFunctionEnd. False where something is not as expected, or what remains could not
    /// be said.
    bool read(std::span<const Instruction> instructions, const Values& values);
    /// visit(instruction) for all that is reached.
    void each_reached(const auto& visit) const {
        for (const Block& block : blocks_)
            if (reached_.contains(block.label)) std::ranges::for_each(block.body, visit);
    }
    /// Adds the ids that go with what is not reached; or with the function.
    void add_gone(bool whole, const Values& values, Ids& gone) const;
    void write_to(std::vector<uint32_t>& out) const;

  private:
    void write_reached(std::vector<uint32_t>& out, const Block& block) const;
    bool split(std::span<const Instruction> instructions, const Values& values);
    bool link(Block& block) const;
    bool fold(const Values& values);
    std::optional<uint32_t> known_target(const Block& block, const Values& values) const;
    bool left_from_within(const Block& head, const Ids& reached) const;
    /// Labels from `first` on by what next(block) lists, but not beyond `stops`.
    Ids walk(std::vector<uint32_t> first, const Ids& stops,
             std::span<const uint32_t> (*next)(const Block&)) const;
    Ids reachable() const;  // labels, from the first block on
    const Block& at(uint32_t label) const { return blocks_[places_.at(label)]; }

    std::vector<Instruction> head_;  // before the first block
    std::vector<Block> blocks_;
    std::unordered_map<uint32_t, size_t> places_;  // by label
    Ids wide_;                                     // results of 64 bits
    Ids reached_;                                  // labels
    /// Labels promised but not reached: of the loop's head that each goes back to, or 0.
    std::map<uint32_t, uint32_t> stubs_;
};

}  // namespace scoria::vk::spirv
