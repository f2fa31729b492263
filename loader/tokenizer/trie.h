// Spellings and their ids, found as prefixes of a text byte by byte.
#pragma once

#include "tokenizer/tokenizer.h"

#include <array>
#include <string_view>
#include <utility>
#include <vector>

namespace scoria {

class Trie {
  public:
    Trie() = default;
    /// Of equal spellings the first stays; empty ones are left out.
    explicit Trie(std::vector<std::pair<std::string_view, TokenId>> entries);

    /// Calls `found(id, bytes)` for every spelling that `text` begins with, shortest first.
    template <class Found> void each_prefix(std::string_view text, const Found& found) const {
        uint32_t node = text.empty() ? 0 : roots_[static_cast<uint8_t>(text[0])];
        for (size_t i = 1; node != 0; ++i) {
            if (nodes_[node].id >= 0) found(nodes_[node].id, i);
            if (i == text.size()) return;
            node = child(node, static_cast<uint8_t>(text[i]));
        }
    }
    /// The longest: its id and bytes, or {-1, 0}.
    std::pair<TokenId, size_t> longest(std::string_view text) const;

  private:
    struct Node {
        uint32_t first_child = 0;  // children lie side by side, by label
        uint16_t children = 0;
        uint8_t label = 0;
        TokenId id = -1;
    };
    uint32_t child(uint32_t node, uint8_t label) const;  // 0: none

    std::vector<Node> nodes_ = std::vector<Node>(1);  // 0 is the root
    std::array<uint32_t, 256> roots_{};               // children of the root by label
};

}  // namespace scoria
