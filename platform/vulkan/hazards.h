// When a barrier is needed, as pure logic: byte ranges accessed since the last barrier against those of
// the next operation.
#pragma once

#include "shader_module.h"

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace scoria::vk {

struct RangeAccess {
    uint64_t buffer;      // any id of the buffer
    uint64_t begin, end;  // bytes, [begin, end)
    Access access;
};

/// Accesses of the current barrier-free group.
class HazardTracker {
  public:
    /// True if one of these accesses overlaps an earlier one of the group and either writes
    /// (read after write, write after read, write after write).
    bool conflicts(std::span<const RangeAccess> accesses) const;
    void add(std::span<const RangeAccess> accesses);
    void clear() { ranges_.clear(); }

  private:
    std::unordered_map<uint64_t, std::vector<RangeAccess>> ranges_;  // by buffer
};

/// A dispatch of `count` workgroups as a grid: no side exceeds `limit`, x * y * z >= count, and the excess
/// is small. shaders/grid.glsl turns it back into a linear index.
struct Grid {
    uint32_t x, y, z;
    bool operator==(const Grid&) const = default;
};
/// Errors: unsupported when count > limit^3.
Grid fold_grid(uint64_t count, uint32_t limit);

}  // namespace scoria::vk
