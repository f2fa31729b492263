// Overlap tests and the folding of grids.
#include "hazards.h"
#include "fail.h"

namespace scoria::vk {
namespace {

bool writes(Access access) { return (uint8_t(access) & uint8_t(Access::write)) != 0; }

bool hazard(const RangeAccess& a, const RangeAccess& b) {
    return (writes(a.access) || writes(b.access)) && a.begin < b.end && b.begin < a.end;
}

uint64_t divide_up(uint64_t value, uint64_t by) { return value / by + (value % by != 0); }

}  // namespace

bool HazardTracker::conflicts(std::span<const RangeAccess> accesses) const {
    for (const RangeAccess& next : accesses) {
        const auto found = ranges_.find(next.buffer);
        if (next.access == Access::none || found == ranges_.end()) continue;
        for (const RangeAccess& earlier : found->second)
            if (hazard(earlier, next)) return true;
    }
    return false;
}

void HazardTracker::add(std::span<const RangeAccess> accesses) {
    for (const RangeAccess& next : accesses)
        if (next.access != Access::none) ranges_[next.buffer].push_back(next);
}

Grid fold_grid(uint64_t count, uint32_t limit) {
    if (count <= limit) return {uint32_t(count), 1, 1};
    // Rows as equal as possible: the last row is the only one with idle workgroups.
    const uint64_t layers = divide_up(divide_up(count, limit), limit);
    if (layers > limit)
        fail(Status::unsupported, "dispatch", "expected at most ", limit, "^3 workgroups, got ", count);
    const uint64_t rows = divide_up(divide_up(count, layers), limit);
    const uint64_t columns = divide_up(count, layers * rows);
    return {uint32_t(columns), uint32_t(rows), uint32_t(layers)};
}

}  // namespace scoria::vk
