// DRY's penalties against the definition, tried for every earlier place.
#include "dry.h"

#include "fail.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <random>

using namespace scoria;

namespace {

/// Token i is the letter 'a' + i; 'd' stands for a breaker.
struct Letters : Tokenizer {
    std::vector<TokenId> encode(std::string_view, const EncodeOptions&) const override { return {}; }
    std::string piece(TokenId id, bool) const override { return std::string(1, char('a' + id)); }
    std::string decode(std::span<const TokenId>, bool) const override { return {}; }
    uint32_t size() const override { return 4; }
    TokenId bos() const override { return -1; }
    TokenId eos() const override { return -1; }
    bool adds_bos() const override { return false; }
    bool ends_generation(TokenId) const override { return false; }
    std::string_view kind() const override { return "letters"; }
};

std::map<TokenId, float> expected(const std::vector<TokenId>& tokens, const SamplingOptions& options) {
    constexpr TokenId breaker = 3;
    std::map<TokenId, float> result;
    const size_t first =
        options.dry_range && tokens.size() > options.dry_range ? tokens.size() - options.dry_range : 0;
    for (size_t i = first; i + 1 < tokens.size(); ++i) {
        uint32_t length = 0;
        while (i >= first + length && tokens[i - length] == tokens[tokens.size() - 1 - length] &&
               tokens[i - length] != breaker)
            ++length;
        if (length == 0 || length < options.dry_allowed_length || tokens[i + 1] == breaker) continue;
        const float penalty =
            -options.dry_multiplier * std::pow(options.dry_base, float(length - options.dry_allowed_length));
        float& least = result[tokens[i + 1]];
        least = std::min(least, penalty);
    }
    return result;
}

}  // namespace

TEST_CASE("DRY's penalties are those of its definition") {
    std::mt19937 random(1);
    const Letters letters;
    size_t penalties = 0;
    for (int round = 0; round < 3000; ++round) {
        SamplingOptions options;
        options.dry_multiplier = 0.8f;
        options.dry_allowed_length = uint32_t(random() % 4);
        options.dry_range = random() % 2 ? uint32_t(random() % 12) : 0;
        options.dry_breakers = {"d"};
        std::vector<TokenId> tokens(random() % 20);
        for (TokenId& token : tokens) token = TokenId(random() % 10 ? random() % 2 : random() % 4);
        std::map<TokenId, float> found;
        for (const LogitBias& each : Dry(options, &letters, 5).penalties(tokens))
            found[each.token] = each.bias;
        const std::map<TokenId, float> wanted = expected(tokens, options);
        REQUIRE(found.size() == wanted.size());
        for (const auto& [token, penalty] : wanted)
            CHECK(found.at(token) == doctest::Approx(double(penalty)).epsilon(1e-5));
        penalties += found.size();
    }
    CHECK(penalties > 1000);
}

TEST_CASE("DRY stays finite on long repetitions") {
    SamplingOptions options;
    options.dry_multiplier = 1;
    options.dry_base = 100;
    const std::vector<TokenId> same(100'000, 1);
    const std::vector<LogitBias> penalties = Dry(options, nullptr, 5).penalties(same);
    REQUIRE(penalties.size() == 1);
    CHECK(std::isfinite(penalties[0].bias));
    CHECK(penalties[0].bias <= -1000);
    options.dry_breakers = {""};
    CHECK_THROWS_AS(Dry(options, nullptr, 5), Error);
}
