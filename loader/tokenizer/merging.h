// What both kinds of byte-pair encoding do: greedy merging of neighbouring symbols, best first, and a memory
// of the words of one text.
#pragma once

#include "tokenizer/tokenizer.h"

#include <functional>
#include <optional>
#include <queue>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace scoria {

/// A stretch of the text that is one token so far; a doubly linked list inside a vector.
struct Symbol {
    TokenId id;              // -1: the stretch is no token
    uint32_t first, size;    // bytes of the text; of a symbol merged into its left neighbour nothing is valid
    int32_t previous, next;  // -1: none
};

struct FoundMerge {
    double cost;  // the lowest is merged first, of equals the leftmost
    TokenId result;
};

/// Merges until `find(left, right)`, which returns an optional FoundMerge, knows no pair. Symbol 0 stays the
/// first of the list. A heap of candidates, of which stale ones are skipped: n log n whatever the text.
template <class Find> void merge_symbols(std::vector<Symbol>& symbols, const Find& find) {
    struct Candidate {
        double cost;
        int32_t left, right;
        uint32_t left_size, right_size;  // symbols only grow, so a size tells whether one has changed
        TokenId result;
        bool operator>(const Candidate& other) const {
            return cost != other.cost ? cost > other.cost : left > other.left;
        }
    };
    std::vector<Candidate> first;  // made a heap at once, in linear time
    const auto at = [&](int32_t index) -> Symbol& { return symbols[static_cast<size_t>(index)]; };
    const auto consider = [&](int32_t left, int32_t right, auto&& take) {
        if (left < 0 || right < 0) return;
        const std::optional<FoundMerge> found = find(at(left), at(right));
        if (found) take(Candidate{found->cost, left, right, at(left).size, at(right).size, found->result});
    };
    for (size_t i = 1; i < symbols.size(); ++i)
        consider(static_cast<int32_t>(i) - 1, static_cast<int32_t>(i),
                 [&](const Candidate& candidate) { first.push_back(candidate); });
    std::priority_queue candidates(std::greater<Candidate>{}, std::move(first));
    const auto push = [&](const Candidate& candidate) { candidates.push(candidate); };
    while (!candidates.empty()) {
        const Candidate best = candidates.top();
        candidates.pop();
        Symbol& left = at(best.left);
        Symbol& right = at(best.right);
        if (left.next != best.right || left.size != best.left_size || right.size != best.right_size) continue;
        left.id = best.result;
        left.size += right.size;
        left.next = right.next;
        right.size = 0;
        right.next = -1;
        if (left.next >= 0) at(left.next).previous = best.left;
        consider(left.previous, best.left, push);
        consider(best.left, left.next, push);
    }
}

/// Words recur: their tokens are copied from what the text has already given. One per call of encode(), so
/// that no lock is needed.
class SeenWords {
  public:
    /// Appends the tokens of `word`, by `encode(word, out)` the first time.
    template <class Encode>
    void append(std::string_view word, std::vector<TokenId>& out, const Encode& encode) {
        if (word.size() > most_bytes) return encode(word, out);
        if (const auto found = ranges_.find(word); found != ranges_.end()) {
            const Range range = found->second;
            for (size_t i = 0; i < range.count; ++i) out.push_back(out[range.first + i]);
            return;
        }
        const size_t first = out.size();
        encode(word, out);
        if (ranges_.size() < most_words) ranges_.emplace(word, Range{first, out.size() - first});
    }

  private:
    struct Range {
        size_t first, count;
    };
    struct Hash : std::hash<std::string_view> {
        using is_transparent = void;
    };
    static constexpr size_t most_words = 1 << 16, most_bytes = 64;
    std::unordered_map<std::string, Range, Hash, std::equal_to<>> ranges_;
};

}  // namespace scoria
