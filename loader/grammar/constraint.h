// Which tokens of a vocabulary may come next in an answer that a grammar constrains.
#pragma once

#include "matcher.h"

#include <span>

namespace scoria::grammar {

/// The bytes of all tokens as a tree of shared prefixes; immutable, for all answers of a model.
class TokenTrie {
  public:
    /// Token i is pieces[i]; tokens without bytes are never allowed.
    explicit TokenTrie(std::span<const std::string> pieces);
    size_t vocab() const { return pieces_.size(); }
    const std::string& piece(uint32_t token) const { return pieces_[token]; }
    /// Sets the bits of all tokens that may follow `state`.
    void allow(Matcher& matcher, Matcher::State state, std::vector<uint32_t>& mask) const;

  private:
    struct Node {
        uint8_t byte;
        uint32_t depth;        // bytes of its prefix
        uint32_t after;        // the first node that is not below it
        uint32_t first_token;  // of order_: its tokens are [first_token, the next node's)
    };
    std::vector<std::string> pieces_;
    std::vector<uint32_t> order_;  // tokens by their bytes
    std::vector<Node> nodes_;      // depth first, without the root; a closing one
    uint32_t depth_ = 0;
};

/// The grammar's state within one answer. For one thread.
class Constraint {
  public:
    /// `ends`: the tokens that end an answer. `behind`: the token before which anything may come but those
    /// and tokens without bytes; -1: the grammar holds from the beginning.
    Constraint(std::shared_ptr<const Program> program, std::shared_ptr<const TokenTrie> trie,
               std::vector<uint32_t> ends, int32_t behind = -1);
    /// A bit per token, 1: allowed. Ending tokens are where the grammar can end, and nowhere else.
    /// Errors: failed, when the vocabulary has no token that fits; bad_argument as Matcher.
    const std::vector<uint32_t>& mask();
    /// Takes a token that the mask allowed. Errors: bad_argument, when it did not.
    void accept(uint32_t token);
    /// The masks that will hold after each of these tokens; they end before the first token that is not
    /// allowed, completes the grammar or leads where none can follow.
    std::vector<std::vector<uint32_t>> masks_after(std::span<const int32_t> tokens);
    /// Nothing but an ending token can follow.
    bool complete() const {
        return behind_ < 0 && (ended_ || (matcher_.accepts(state_) && !matcher_.continues(state_)));
    }

  private:
    const std::vector<uint32_t>& mask_of_state();

    std::shared_ptr<const TokenTrie> trie_;
    std::vector<uint32_t> ends_;
    Matcher matcher_;
    Matcher::State state_;
    bool ended_ = false;
    int32_t behind_;              // -1 once it came
    std::vector<uint32_t> free_;  // the mask before it

    std::unordered_map<Matcher::State, std::vector<uint32_t>> masks_;  // of states seen
};

}  // namespace scoria::grammar
