// See constraint.h.
#include "constraint.h"

#include "fail.h"

#include <algorithm>
#include <numeric>

namespace scoria::grammar {
namespace {

constexpr size_t longest_token = 4096;       // bytes; longer ones are never allowed
constexpr size_t most_mask_words = 4 << 20;  // kept at a time

}  // namespace

TokenTrie::TokenTrie(std::span<const std::string> pieces) : pieces_(pieces.begin(), pieces.end()) {
    for (uint32_t token = 0; token < pieces_.size(); ++token)
        if (!pieces_[token].empty() && pieces_[token].size() <= longest_token) order_.push_back(token);
    std::ranges::stable_sort(order_, [&](uint32_t a, uint32_t b) { return pieces_[a] < pieces_[b]; });
    std::vector<uint32_t> open;  // nodes from the root to the last token's
    const auto close_to = [&](size_t depth) {
        for (; open.size() > depth; open.pop_back()) nodes_[open.back()].after = uint32_t(nodes_.size());
    };
    std::string_view last;
    for (uint32_t i = 0; i < order_.size(); ++i) {
        const std::string_view piece = pieces_[order_[i]];
        const size_t shared = size_t(std::ranges::mismatch(piece, last).in1 - piece.begin());
        if (shared == piece.size() && shared == last.size()) continue;  // the same bytes again
        close_to(shared);
        for (size_t d = shared; d < piece.size(); ++d) {
            open.push_back(uint32_t(nodes_.size()));
            // Tokens of a prefix that is none itself: an empty range, since the next node's begins there too.
            nodes_.push_back({uint8_t(piece[d]), uint32_t(d + 1), 0, i});
        }
        depth_ = std::max(depth_, uint32_t(piece.size()));
        last = piece;
    }
    close_to(0);
    nodes_.push_back({0, 0, 0, uint32_t(order_.size())});
}

void TokenTrie::allow(Matcher& matcher, Matcher::State state, std::vector<uint32_t>& mask) const {
    std::vector<Matcher::State> states(depth_ + 1);
    states[0] = state;
    for (size_t n = 0; n + 1 < nodes_.size();) {
        const Node& node = nodes_[n];
        const Matcher::State now = matcher.next(states[node.depth - 1], node.byte);
        if (now == Matcher::dead) {
            n = node.after;
            continue;
        }
        states[node.depth] = now;
        for (uint32_t i = node.first_token; i < nodes_[n + 1].first_token; ++i)
            mask[order_[i] / 32] |= 1u << order_[i] % 32;
        ++n;
    }
}

Constraint::Constraint(std::shared_ptr<const Program> program, std::shared_ptr<const TokenTrie> trie,
                       std::vector<uint32_t> ends, int32_t behind)
    : trie_(std::move(trie)), ends_(std::move(ends)), matcher_(std::move(program)), state_(matcher_.start()),
      behind_(behind) {
    if (behind < 0) return;
    free_.resize((trie_->vocab() + 31) / 32);
    for (uint32_t token = 0; token < trie_->vocab(); ++token)
        if (!trie_->piece(token).empty() || token == uint32_t(behind)) free_[token / 32] |= 1u << token % 32;
    for (const uint32_t end : ends_) free_[end / 32] &= ~(1u << end % 32);
}

const std::vector<uint32_t>& Constraint::mask() {
    bool forgot = false;
    state_ = matcher_.trim(state_, forgot);
    if (forgot || masks_.size() * (trie_->vocab() / 32 + 1) > most_mask_words) masks_.clear();
    return mask_of_state();
}

const std::vector<uint32_t>& Constraint::mask_of_state() {
    if (behind_ >= 0) return free_;
    if (const auto known = masks_.find(state_); known != masks_.end()) return known->second;
    std::vector<uint32_t> mask((trie_->vocab() + 31) / 32);  // known once it is whole
    trie_->allow(matcher_, state_, mask);
    const bool accepts = matcher_.accepts(state_);
    for (const uint32_t end : ends_) {
        mask[end / 32] &= ~(1u << end % 32);
        if (accepts) mask[end / 32] |= 1u << end % 32;
    }
    if (std::ranges::all_of(mask, [](uint32_t word) { return word == 0; }))
        fail(Status::failed, "grammar",
             "expected a token that can follow, got none in the vocabulary but what the model suppresses");
    return masks_.emplace(state_, std::move(mask)).first->second;
}

void Constraint::accept(uint32_t token) {
    const bool ends = std::ranges::find(ends_, token) != ends_.end();
    bool wrong = ended_;
    if (behind_ >= 0) {
        wrong = !(free_[token / 32] >> token % 32 & 1);
        if (token == uint32_t(behind_)) behind_ = -1;
    } else if (ends) {
        wrong = wrong || !matcher_.accepts(state_);
        ended_ = true;
    } else {
        wrong = wrong || trie_->piece(token).empty();
        for (const char byte : trie_->piece(token))
            state_ = matcher_.next(state_, static_cast<uint8_t>(byte));
    }
    if (wrong || state_ == Matcher::dead)
        fail(Status::bad_argument, "grammar", "expected a token that the grammar allows, got ", token);
}

std::vector<std::vector<uint32_t>> Constraint::masks_after(std::span<const int32_t> tokens) {
    std::vector<std::vector<uint32_t>> masks;
    mask();  // trims the matcher; from here on all states stay valid
    const Matcher::State now = state_;
    const int32_t behind = behind_;
    try {
        for (const int32_t token : tokens) {
            accept(uint32_t(token));
            if (complete()) break;
            masks.push_back(mask_of_state());
        }
    } catch (const Error&) {  // not allowed, or too much to look at ahead of time
    }
    state_ = now;
    behind_ = behind;
    ended_ = false;
    return masks;
}

}  // namespace scoria::grammar
