// Multiples of a decimal number: an automaton over digits that knows the remainder so far.
#include "fail.h"
#include "json_text.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace scoria::grammar {
namespace {

constexpr size_t most_multiple_states = 4096;

uint64_t power_of_ten(size_t exponent) {
    uint64_t power = 1;
    while (exponent-- > 0) power *= 10;
    return power;
}

class Multiples {
  public:
    Multiples(uint64_t divisor, uint32_t decimals, const NewRule& new_rule)
        : divisor_(divisor), decimals_(decimals), new_rule_(new_rule) {}

    /// Of [least, most], with `sign`.
    void add(uint64_t least, uint64_t most, const char* sign, std::vector<Expr>& all) {
        if (least > most) return;
        const auto padded = [&](uint64_t value) {  // one digit at least before the point
            const std::string text = std::to_string(value);
            return std::string(decimals_ + 1 - std::min<size_t>(decimals_ + 1, text.size()), '0') + text;
        };
        const std::string low = padded(least), high = padded(most);
        for (size_t length = low.size(); length <= high.size(); ++length) {
            const std::string shortest = "1" + std::string(length - 1, '0'), longest(length, '9');
            if (const auto found = behind(length, 0, length == low.size() ? low : shortest,
                                          length == high.size() ? high : longest))
                all.push_back(sequence({text(sign), *found}));
        }
    }

  private:
    /// What may stand where `left` digits are left, `rest` being those before by the divisor, and the digits
    /// are from `low` to `high` (each empty where it says nothing); nothing if there are no such.
    std::optional<Expr> behind(size_t left, uint64_t rest, std::string low, std::string high) {
        if (low.find_first_not_of('0') == low.npos) low.clear();
        if (high.find_first_not_of('9') == high.npos) high.clear();
        const uint64_t power = power_of_ten(left);
        // Of the remainder counts what the digits that are left can change.
        const uint64_t modulus = divisor_ / std::gcd(divisor_, power);
        rest %= modulus;
        if (left == 0) return rest == 0 ? std::optional(text("")) : std::nullopt;
        const uint64_t before = rest * (power % divisor_) % divisor_;
        if ((divisor_ - before) % divisor_ >= power) return std::nullopt;
        const auto [at, added] = states_.try_emplace({left, rest, low, high});
        if (!added) return at->second;
        if (states_.size() > most_multiple_states)
            fail(Status::unsupported, "json schema", "expected a multipleOf of at most ",
                 most_multiple_states, " remainders, got one of ", divisor_);
        std::vector<Expr> digits;
        const char first = low.empty() ? '0' : low[0], last = high.empty() ? '9' : high[0];
        for (char digit = first; digit <= last; ++digit)
            if (const auto found = behind(left - 1, rest * 10 + uint64_t(digit - '0'),
                                          !low.empty() && digit == first ? low.substr(1) : "",
                                          !high.empty() && digit == last ? high.substr(1) : ""))
                digits.push_back(sequence({text(std::string(1, digit)), *found}));
        if (digits.empty()) return std::nullopt;
        Expr body = choice(std::move(digits));
        if (left == decimals_) body = sequence({text("."), std::move(body)});
        if (left <= decimals_ && rest == 0 && low.empty()) body = optional(std::move(body));  // zeros
        return at->second = rule_reference(new_rule_(std::move(body)));
    }

    const uint64_t divisor_;
    const uint32_t decimals_;
    const NewRule& new_rule_;
    std::map<std::tuple<size_t, uint64_t, std::string, std::string>, std::optional<Expr>> states_;
};

}  // namespace

std::optional<Expr> json_multiples(uint64_t divisor, uint32_t decimals, std::optional<int64_t> least,
                                   std::optional<int64_t> most, const NewRule& new_rule) {
    if (divisor > UINT32_MAX)
        fail(Status::unsupported, "json schema", "expected a multipleOf of at most ", UINT32_MAX, ", got ",
             divisor);
    const auto [low, high] = closed_range(least, most);
    const auto size = [](int64_t value) { return value < 0 ? 0 - uint64_t(value) : uint64_t(value); };
    Multiples multiples(divisor, decimals, new_rule);
    std::vector<Expr> all;
    if (low < 0) multiples.add(high < 0 ? size(high) : 1, size(low), "-", all);
    if (high >= 0) multiples.add(low < 0 ? 0 : uint64_t(low), uint64_t(high), "", all);
    return all.empty() ? std::nullopt : std::optional(choice(std::move(all)));
}

}  // namespace scoria::grammar
