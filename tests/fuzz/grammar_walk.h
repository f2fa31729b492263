// Any bytes against a grammar that was accepted: masks and steps must return or throw Error, in bounded time.
#pragma once

#include "grammar/constraint.h"

#include <string>

namespace scoria::test {

/// Follows allowed tokens, chosen by the bytes of `choices`.
inline void walk(const grammar::Grammar& rules, std::string_view choices) {
    using namespace grammar;
    static const auto trie = [] {
        std::vector<std::string> pieces{"", "\"", "}", "ab", "\":", "\xC3\xA9", "{\"", "null", "12"};
        for (int byte = 0; byte < 256; ++byte) pieces.push_back(std::string(1, char(byte)));
        return std::make_shared<const TokenTrie>(pieces);
    }();
    Constraint constraint(std::make_shared<const Program>(rules), trie, {0});
    for (const char choice : choices.substr(0, 64)) {
        if (constraint.complete()) return;
        const std::vector<uint32_t>& mask = constraint.mask();
        uint32_t token = static_cast<unsigned char>(choice);
        while (!(mask[token / 32] >> token % 32 & 1)) token = uint32_t((token + 1) % trie->vocab());
        constraint.accept(token);
    }
}

}  // namespace scoria::test
