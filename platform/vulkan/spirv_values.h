// Which ids of a module outside of its functions are types, and what constants make of the others.
#pragma once

#include "spirv.h"

#include <optional>
#include <unordered_map>

namespace scoria::vk {
struct Constant;
}

namespace scoria::vk::spirv {

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

    Ids types_;
    Ids narrow_, wide_;  // of those: booleans and integers of 32 bits; integers of 64
    std::unordered_map<uint32_t, uint32_t> spec_ids_, values_;
    std::unordered_map<uint32_t, Instruction> composites_;
};

}  // namespace scoria::vk::spirv
