// Guesses and their length, without a device: prompt lookup against the definition, tried for every earlier
// place; and how long guesses become.
#include "speculation.h"
#include "token_rows.h"

#include <doctest/doctest.h>

#include <random>

using namespace scoria;

namespace {

/// What followed the longest earlier place like the end, at most 16 tokens of it looked at; of equals the
/// latest.
std::vector<TokenId> looked_up(const std::vector<TokenId>& tokens, uint32_t most) {
    size_t best = 0, longest = 1;
    for (size_t i = 1; i < tokens.size(); ++i) {
        size_t length = 0;
        while (length < 16 && length < i && tokens[i - 1 - length] == tokens[tokens.size() - 1 - length])
            ++length;
        if (length > 1 && length >= longest) best = i, longest = length;
    }
    std::vector<TokenId> all = tokens;
    for (uint32_t i = 0; best != 0 && i < most; ++i) all.push_back(all[best + i]);
    return {all.begin() + std::ptrdiff_t(tokens.size()), all.end()};
}

}  // namespace

TEST_CASE("rows of tokens: what is put at a token ends those behind it, a gap all") {
    TokenRows rows;
    const auto put = [&](size_t token) { rows.put(token, std::vector<float>{float(token), 1}); };
    const auto known = [&] {
        std::vector<size_t> tokens;
        for (size_t token = 0; token < 20; ++token)
            if (const std::span<const float> row = rows.row(token); !row.empty()) {
                CHECK(row[0] == float(token));
                tokens.push_back(token);
            }
        return tokens;
    };
    for (const size_t token : {3, 4, 5, 6}) put(token);
    CHECK(known() == std::vector<size_t>{3, 4, 5, 6});
    put(5);
    CHECK(known() == std::vector<size_t>{3, 4, 5});
    rows.forget_before(4);
    put(6);
    CHECK(known() == std::vector<size_t>{4, 5, 6});
    rows.cut(6);
    CHECK(known() == std::vector<size_t>{4, 5});
    put(9);
    CHECK(known() == std::vector<size_t>{9});
    put(2);
    CHECK(known() == std::vector<size_t>{2});
    rows.forget_before(30);
    rows.cut(0);
    CHECK(known().empty());
    put(7);
    rows.clear();
    put(8);
    CHECK(known() == std::vector<size_t>{8});
}

TEST_CASE("prompt lookup: the definition, on texts of few letters") {
    std::mt19937 random(1);
    PromptLookup lookup;
    size_t found = 0;
    for (int round = 0; round < 400; ++round) {
        std::vector<TokenId> tokens(random() % 60);
        for (TokenId& token : tokens) token = TokenId(random() % (2 + round % 5));
        const std::vector<TokenId> expected = looked_up(tokens, 9);
        CHECK(lookup.propose(tokens, 9, {}) == expected);
        CHECK(lookup.promising(tokens) == !expected.empty());
        found += !expected.empty();
    }
    CHECK(found > 200);
    CHECK(found < 400);
}

TEST_CASE("prompt lookup: rows") {
    struct Row {
        std::vector<TokenId> tokens, guess;
    };
    const Row rows[] = {
        {{}, {}},
        {{1}, {}},
        {{1, 2, 3, 4}, {}},
        {{1, 2, 3, 9, 2}, {}},                     // one token alone is no match
        {{1, 2, 3, 4, 9, 2, 3}, {4, 9, 2, 3, 4}},  // and then on from the beginning of the guess
        {{1, 2, 3, 5, 6, 2, 3, 7, 8, 1, 2, 3}, {5, 6, 2, 3, 7}},  // three tokens alike, not the later two
        {{4, 4, 4}, {4, 4, 4, 4, 4}},
    };
    PromptLookup lookup;
    for (const Row& row : rows) CHECK(lookup.propose(row.tokens, 5, {}) == row.guess);
}

TEST_CASE("guesses grow while they are right, fit what was right, and wait after several wrong ones") {
    struct Row {
        size_t guessed, right;
        uint32_t next;  // length of the guess at once after
    };
    GuessPace pace(10);
    CHECK(pace.length(0) == 3);
    const Row rows[] = {{3, 3, 7}, {7, 7, 10}, {10, 10, 10}, {10, 4, 7},
                        {7, 1, 3}, {3, 2, 3},  {3, 0, 1},    {1, 1, 3}};
    for (const Row& row : rows) {
        pace.learn(100, row.guessed, row.right);
        CHECK(pace.length(100) == row.next);
    }
    size_t tokens = 100, guesses = 0;
    for (; tokens < 1100; ++tokens) {
        if (pace.length(tokens) == 0) continue;
        ++guesses;
        pace.learn(tokens + 1, 1, 0);
    }
    CHECK(guesses < 25);  // of a thousand tokens where nothing comes true
    pace.learn(tokens, 1, 1);
    CHECK(pace.length(tokens) == 3);
    CHECK(GuessPace(0).length(0) == 0);
}
