// Which blocks of a cache that several sequences share are free, and whose block tables hold the others. One
// table serves all slots: where positions wrap after `ring` entries, the first `ring` blocks of every
// sequence have low numbers, so that such a slot holds no more blocks than that.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <vector>

namespace scoria {

/// Thread-safe.
class BlockPool {
  public:
    /// `total` blocks for `sequences` sequences. `rings`: entries of a table after which some slot wraps.
    BlockPool(uint32_t total, uint32_t sequences, std::vector<uint32_t> rings);
    /// Blocks for entries [table.size(), entries) of a table, all or none. Whether there were as many.
    bool extend(std::vector<uint32_t>& table, size_t entries);
    void give_back(std::span<const uint32_t> blocks);
    uint32_t free() const;
    uint32_t total() const { return total_; }

  private:
    /// Entries before `end_entry` may be blocks below `end_block`, and had best be no lower than the last
    /// class's.
    struct Class {
        uint32_t end_entry, end_block;
    };
    std::optional<uint32_t> take(uint32_t entry);

    const uint32_t total_;
    std::vector<Class> classes_;
    mutable std::mutex mutex_;  // guards what follows
    std::set<uint32_t> free_;
};

}  // namespace scoria
