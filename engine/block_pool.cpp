// See block_pool.h.
#include "block_pool.h"

#include "ops/op.h"

#include <algorithm>
#include <new>
#include <utility>

namespace scoria {

BlockPool::BlockPool(uint32_t total, uint32_t sequences, std::vector<uint32_t> rings)
    : total_(total), blocks_(total) {
    std::ranges::sort(rings);
    for (const uint32_t ring : rings)
        classes_.push_back({ring, uint32_t(std::min<uint64_t>(total, uint64_t{ring} * sequences))});
    classes_.push_back({UINT32_MAX, total});
    for (uint32_t block = 0; block < total; ++block) {
        free_.insert(free_.end(), block);
        blocks_[block].in_last = last_.extract(last_.emplace(0, block).first);
    }
}

BlockPool::Known::key_type BlockPool::key_of(std::span<const uint32_t> table, size_t entry,
                                             std::span<const TokenId> tokens) {
    const auto own = tokens.subspan(entry * kv_block_tokens, kv_block_tokens);
    return {entry == 0 ? none : table[entry - 1], {own.begin(), own.end()}};
}

std::optional<uint32_t> BlockPool::take(uint32_t entry) {
    if (free_.empty() && !last_.empty()) make_unknown(last_.begin()->second);
    uint32_t first = 0;
    auto in = classes_.begin();
    for (; in->end_entry <= entry; ++in) first = in->end_block;
    auto found = free_.lower_bound(first);
    if (found == free_.end() || *found >= in->end_block) {  // lower ones are good, too
        if (found == free_.begin()) return std::nullopt;
        --found;
    }
    const uint32_t block = *found;
    hold(block);
    return block;
}

void BlockPool::hold(uint32_t block) {
    Block& b = blocks_[block];
    if (b.tables++ != 0) return;
    ++held_;
    unlist(block);
}

void BlockPool::list_free(uint32_t block) { free_.insert(std::move(blocks_[block].in_free)); }

void BlockPool::list_last(uint32_t block) {
    Block& b = blocks_[block];
    b.in_last.value().first = b.held_until;
    last_.insert(std::move(b.in_last));
}

void BlockPool::unlist(uint32_t block) {
    Block& b = blocks_[block];
    if (!b.in_free) b.in_free = free_.extract(block);
    if (!b.in_last) b.in_last = last_.extract({b.held_until, block});
}

void BlockPool::let_go(uint32_t block) {
    Block& b = blocks_[block];
    if (--b.tables != 0) return;
    --held_;
    b.held_until = ++clock_;
    if (!b.known)
        list_free(block);
    else if (b.followers == 0)
        list_last(block);
}

/// A block without followers.
void BlockPool::make_unknown(uint32_t block) {
    Block& b = blocks_[block];
    const uint32_t before = (*b.known)->first.first;
    known_.erase(*b.known);
    b.known.reset();
    if (b.tables == 0) {
        unlist(block);
        list_free(block);
    }
    if (before == none) return;
    Block& parent = blocks_[before];
    if (--parent.followers == 0 && parent.tables == 0) list_last(before);
}

bool BlockPool::extend(std::vector<uint32_t>& table, size_t entries) {
    const std::lock_guard lock(mutex_);
    const size_t before = table.size();
    table.reserve(entries);  // nothing below allocates
    while (table.size() < entries) {
        const std::optional<uint32_t> block = take(uint32_t(table.size()));
        if (!block) {
            for (; table.size() > before; table.pop_back()) let_go(table.back());
            return false;
        }
        table.push_back(*block);
    }
    return true;
}

void BlockPool::give_back(std::span<const uint32_t> blocks) {
    const std::lock_guard lock(mutex_);
    for (const uint32_t block : blocks) let_go(block);
}

uint32_t BlockPool::free() const {
    const std::lock_guard lock(mutex_);
    return total_ - held_;
}

size_t BlockPool::publish(std::vector<uint32_t>& table, size_t& known, std::span<const TokenId> tokens) {
    size_t changed = table.size();
    if (!shares()) return changed;
    const std::lock_guard lock(mutex_);
    for (; (known + 1) * kv_block_tokens <= tokens.size(); ++known) {
        std::pair<Known::iterator, bool> place;
        try {
            place = known_.try_emplace(key_of(table, known, tokens), table[known]);
        } catch (const std::bad_alloc&) {  // callers must hear of what changed before
            break;
        }
        const auto& [at, first] = place;
        if (first) {
            blocks_[at->second].known = at;
            if (known != 0) ++blocks_[table[known - 1]].followers;
        } else {
            hold(at->second);
            let_go(std::exchange(table[known], at->second));
            changed = std::min(changed, known);
        }
    }
    return changed;
}

bool BlockPool::adopt(std::vector<uint32_t>& table, size_t known, std::span<const TokenId> tokens) {
    if (!shares()) return false;
    const std::lock_guard lock(mutex_);
    table.reserve(std::max(table.size(), tokens.size() / kv_block_tokens));
    bool any = false;
    for (size_t entry = known; (entry + 1) * kv_block_tokens <= tokens.size(); ++entry) {
        const auto at = known_.find(key_of(table, entry, tokens));
        if (at == known_.end()) break;
        if (!any)
            for (; table.size() > known; table.pop_back()) let_go(table.back());
        any = true;
        hold(at->second);
        table.push_back(at->second);
    }
    return any;
}

bool BlockPool::forget(uint32_t block) {
    const std::lock_guard lock(mutex_);
    const Block& b = blocks_[block];
    if (!b.known) return true;
    if (b.tables > 1 || b.followers != 0) return false;
    make_unknown(block);
    return true;
}

}  // namespace scoria
