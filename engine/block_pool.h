// Which blocks of a cache that several sequences share are free, and whose block tables hold the others.
//
// One table serves all slots: where positions wrap after `ring` entries, the first `ring` blocks of every
// sequence have low numbers, so that such a slot holds no more blocks than that.
//
// Where no slot wraps, sequences that begin alike have blocks in common. A block that is full is known by its
// tokens and by the block before, hence by all tokens from the first on; any table may hold it, and it stays
// known when none does, until its memory is wanted: those least lately held go first, the last of a sequence
// before its others (Kwon et al. 2023, section 4.4; Zheng et al. 2024, "SGLang", section 3).
#pragma once

#include "tokenizer/tokenizer.h"

#include <cstdint>
#include <map>
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
    uint32_t free() const;  // blocks that no table holds
    uint32_t total() const { return total_; }

    /// Whether blocks can be known at all.
    bool shares() const { return classes_.size() == 1; }
    /// Makes the blocks known that hold all of `tokens` but for a rest; the first `known` of the table are,
    /// and then as many more as there was memory for. Where others were known by the same tokens before, the
    /// table has these instead: the first entry that changed, or the table's size.
    size_t publish(std::vector<uint32_t>& table, size_t& known, std::span<const TokenId> tokens);
    /// If it is known what comes behind the first `known` blocks, all of them known ones, the table goes on
    /// with that, as far as it holds `tokens`, and the rest of it is given back. Whether it does.
    bool adopt(std::vector<uint32_t>& table, size_t known, std::span<const TokenId> tokens);
    /// Makes a block unknown that a table holds, so that it may be written. false: others need it as it is.
    bool forget(uint32_t block);

  private:
    /// Entries before `end_entry` may be blocks below `end_block`, and had best be no lower than the last
    /// class's.
    struct Class {
        uint32_t end_entry, end_block;
    };
    static constexpr uint32_t none = UINT32_MAX;
    using Free = std::set<uint32_t>;
    using Last = std::set<std::pair<uint64_t, uint32_t>>;
    using Known = std::map<std::pair<uint32_t, std::vector<TokenId>>, uint32_t>;  // {block before, tokens}
    struct Block {
        uint32_t tables = 0;     // that hold it
        uint32_t followers = 0;  // known blocks right behind it
        uint64_t held_until = 0;
        std::optional<Known::iterator> known = {};
        // Its places in these sets while it has none there: giving back allocates nothing, and so cannot
        // fail.
        Free::node_type in_free{};
        Last::node_type in_last{};
    };
    static Known::key_type key_of(std::span<const uint32_t> table, size_t entry,
                                  std::span<const TokenId> tokens);
    std::optional<uint32_t> take(uint32_t entry);
    void hold(uint32_t block);
    void let_go(uint32_t block);
    void make_unknown(uint32_t block);
    void list_free(uint32_t block);
    void list_last(uint32_t block);
    void unlist(uint32_t block);

    const uint32_t total_;
    std::vector<Class> classes_;
    mutable std::mutex mutex_;  // guards what follows
    std::vector<Block> blocks_;
    Free free_;  // held by no table, and not known
    Known known_;
    uint32_t held_ = 0;  // blocks that a table holds
    Last last_;          // known, without followers and held by none, by held_until
    uint64_t clock_ = 0;
};

}  // namespace scoria
