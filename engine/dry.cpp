// See dry.h.
#include "dry.h"

#include "fail.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace scoria {
namespace {

constexpr double most_penalty = 1e4;  // no logit reaches that far; base^n would be infinite

/// How long each suffix's longest common prefix with the whole is (Gusfield's Z algorithm).
std::vector<uint32_t> common_prefixes(const std::vector<TokenId>& text) {
    std::vector<uint32_t> common(text.size());
    for (uint32_t i = 1, first = 0, end = 0; i < text.size(); ++i) {
        if (i < end) common[i] = std::min(end - i, common[i - first]);
        while (i + common[i] < text.size() && text[common[i]] == text[i + common[i]]) ++common[i];
        if (i + common[i] > end) {
            first = i;
            end = i + common[i];
        }
    }
    return common;
}

}  // namespace

Dry::Dry(const SamplingOptions& options, const Tokenizer* tokenizer, uint32_t vocab)
    : multiplier_(options.dry_multiplier), base_(options.dry_base),
      allowed_length_(options.dry_allowed_length), range_(options.dry_range), breaks_(vocab) {
    for (const std::string& breaker : options.dry_breakers)
        if (breaker.empty())
            fail(Status::bad_argument, "sampling", "expected DRY breakers of at least one byte, got none");
    for (uint32_t id = 0; tokenizer && id < std::min(vocab, tokenizer->size()); ++id) {
        const std::string piece = tokenizer->piece(TokenId(id), true);
        breaks_[id] = std::ranges::any_of(options.dry_breakers, [&](const std::string& breaker) {
            return piece.find(breaker) != std::string::npos;
        });
    }
}

std::vector<LogitBias> Dry::penalties(std::span<const TokenId> tokens) const {
    if (range_ != 0 && tokens.size() > range_) tokens = tokens.last(range_);
    const std::vector<TokenId> reversed(tokens.rbegin(), tokens.rend());
    const auto breaks = [&](TokenId token) { return bool(breaks_[size_t(token)]); };
    const auto limit = uint32_t(std::ranges::find_if(reversed, breaks) - reversed.begin());
    std::map<TokenId, uint32_t> longest;  // repetition that the token would go on with
    const std::vector<uint32_t> common = common_prefixes(reversed);
    for (size_t i = 1; i < reversed.size(); ++i) {
        const TokenId next = reversed[i - 1];
        const uint32_t length = std::min(common[i], limit);
        if (length > 0 && length >= allowed_length_ && !breaks(next))
            longest[next] = std::max(longest[next], length);
    }
    std::vector<LogitBias> penalties;
    for (const auto& [token, length] : longest)
        penalties.push_back(
            {token, -float(std::min(most_penalty, multiplier_ * std::pow(base_, length - allowed_length_)))});
    return penalties;
}

}  // namespace scoria
