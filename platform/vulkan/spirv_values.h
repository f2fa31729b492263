// Which ids of a module outside of its functions are types, and what constants make of the others.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>

namespace scoria::vk {
struct Constant;
}

namespace scoria::vk::spirv {

/// One instruction's words; the first is its number of words and its opcode.
using Instruction = std::span<const uint32_t>;
using Ids = std::unordered_set<uint32_t>;
inline uint32_t opcode(Instruction each) { return each[0] & 0xFFFF; }

class Values {
  public:
    /// In the order of the module, with what specialization constants are set to; those not listed keep their
    /// default.
    void read(Instruction each, std::span<const Constant> constants);

    bool is_type(uint32_t id) const { return types_.contains(id); }
    /// Of integers of 64 bits.
    bool is_wide(uint32_t type) const { return wide_.contains(type); }
    /// Of a 32-bit integer or a boolean (0 or 1), where it is known before a kernel runs.
    std::optional<uint32_t> value(uint32_t id) const;

  private:
    std::optional<uint32_t> result(Instruction operation) const;

    Ids types_, narrow_,
        wide_;  // of those, booleans and integers: of 32 bits, of 64
    std::unordered_map<uint32_t, uint32_t> spec_ids_, values_;
    std::unordered_map<uint32_t, Instruction> composites_;
};

}  // namespace scoria::vk::spirv
