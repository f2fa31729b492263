#include "tokenizer/trie.h"

#include <algorithm>

namespace scoria {

Trie::Trie(std::vector<std::pair<std::string_view, TokenId>> entries) {
    std::erase_if(entries, [](const auto& entry) { return entry.first.empty(); });
    std::ranges::stable_sort(entries, {}, [](const auto& entry) { return entry.first; });
    // Level by level, so that the children of a node lie side by side: a range of sorted entries is a node.
    struct Range {
        size_t first, end, depth;
    };
    std::vector<Range> ranges = {{0, entries.size(), 0}};
    for (uint32_t node = 0; node < ranges.size(); ++node) {
        auto [first, end, depth] = ranges[node];
        for (; first < end && entries[first].first.size() == depth; ++first) {
            if (nodes_[node].id < 0) nodes_[node].id = entries[first].second;
        }
        nodes_[node].first_child = static_cast<uint32_t>(nodes_.size());
        while (first < end) {
            const char label = entries[first].first[depth];
            size_t next = first + 1;
            while (next < end && entries[next].first[depth] == label) ++next;
            if (node == 0) roots_[static_cast<uint8_t>(label)] = static_cast<uint32_t>(nodes_.size());
            nodes_.push_back({0, 0, static_cast<uint8_t>(label), -1});
            ++nodes_[node].children;
            ranges.push_back({first, next, depth + 1});
            first = next;
        }
    }
    nodes_.shrink_to_fit();
}

uint32_t Trie::child(uint32_t node, uint8_t label) const {
    const Node& parent = nodes_[node];
    uint32_t low = parent.first_child, high = low + parent.children;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (nodes_[middle].label == label) return middle;
        if (nodes_[middle].label < label)
            low = middle + 1;
        else
            high = middle;
    }
    return 0;
}

std::pair<TokenId, size_t> Trie::longest(std::string_view text) const {
    std::pair<TokenId, size_t> best{-1, 0};
    each_prefix(text, [&](TokenId id, size_t bytes) { best = {id, bytes}; });
    return best;
}

}  // namespace scoria
