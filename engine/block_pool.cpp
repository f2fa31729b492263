// See block_pool.h.
#include "block_pool.h"

#include <algorithm>

namespace scoria {

BlockPool::BlockPool(uint32_t total, uint32_t sequences, std::vector<uint32_t> rings) : total_(total) {
    std::ranges::sort(rings);
    for (const uint32_t ring : rings)
        classes_.push_back({ring, uint32_t(std::min<uint64_t>(total, uint64_t{ring} * sequences))});
    classes_.push_back({UINT32_MAX, total});
    for (uint32_t block = 0; block < total; ++block) free_.insert(free_.end(), block);
}

std::optional<uint32_t> BlockPool::take(uint32_t entry) {
    uint32_t first = 0;
    auto in = classes_.begin();
    for (; in->end_entry <= entry; ++in) first = in->end_block;
    auto found = free_.lower_bound(first);
    if (found == free_.end() || *found >= in->end_block) {  // lower ones are good, too
        if (found == free_.begin()) return std::nullopt;
        --found;
    }
    const uint32_t block = *found;
    free_.erase(found);
    return block;
}

bool BlockPool::extend(std::vector<uint32_t>& table, size_t entries) {
    const std::lock_guard lock(mutex_);
    const size_t before = table.size();
    while (table.size() < entries) {
        const std::optional<uint32_t> block = take(uint32_t(table.size()));
        if (!block) {
            free_.insert(table.begin() + std::ptrdiff_t(before), table.end());
            table.resize(before);
            return false;
        }
        table.push_back(*block);
    }
    return true;
}

void BlockPool::give_back(std::span<const uint32_t> blocks) {
    const std::lock_guard lock(mutex_);
    free_.insert(blocks.begin(), blocks.end());
}

uint32_t BlockPool::free() const {
    const std::lock_guard lock(mutex_);
    return uint32_t(free_.size());
}

}  // namespace scoria
