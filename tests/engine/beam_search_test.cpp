// Beam search without a model, against all sequences there are.
#include "beam_search.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace scoria;

namespace {

constexpr uint32_t word_count = 5;
constexpr TokenId end_token = 4;

/// Logits after a sequence: anything, but the same for the same sequence.
std::vector<float> logits_after(const std::vector<TokenId>& tokens) {
    uint32_t hash = 17;
    for (const TokenId token : tokens) hash = hash * 31 + uint32_t(token) + 7;
    std::vector<float> logits;
    for (uint32_t id = 0; id < word_count; ++id) {
        hash = hash * 1664525 + 1013904223;
        logits.push_back(float(hash >> 8) / float(1 << 22));
    }
    return logits;
}

std::vector<Beam> search(const BeamOptions& options) {
    BeamSearch search(options);
    while (!search.done()) {
        std::vector<std::vector<float>> logits;
        for (const Beam& beam : search.live()) logits.push_back(logits_after(beam.tokens));
        search.step(logits);
    }
    return search.best();
}

/// Every sequence that ends, or has `left` more tokens.
void enumerate(const Beam& beam, uint32_t left, float penalty, Beam& best) {
    const bool ended = !beam.tokens.empty() && beam.tokens.back() == end_token;
    if (ended || left == 0) {
        const double score = beam.log_probability / std::pow(double(beam.tokens.size()), double(penalty));
        if (best.tokens.empty() || score > best.score) best = {beam.tokens, beam.log_probability, score};
        return;
    }
    const std::vector<float> logits = logits_after(beam.tokens);
    double sum = 0;
    for (const float x : logits) sum += std::exp(double(x));
    for (uint32_t id = 0; id < word_count; ++id) {
        Beam next = beam;
        next.tokens.push_back(TokenId(id));
        next.log_probability += double(logits[id]) - std::log(sum);
        enumerate(next, left - 1, penalty, best);
    }
}

}  // namespace

TEST_CASE("a beam as wide as all sequences finds the best one") {
    for (const float penalty : {0.0f, 0.6f, 1.0f, 2.0f}) {
        CAPTURE(penalty);
        BeamOptions options{.width = 400, .length_penalty = penalty, .max_tokens = 4, .ends = {end_token}};
        options.stop = BeamOptions::Stop::never;
        Beam best;
        enumerate({}, options.max_tokens, penalty, best);
        const std::vector<Beam> found = search(options);
        REQUIRE(!found.empty());
        CHECK(found.front().tokens == best.tokens);
        CHECK(found.front().score == doctest::Approx(best.score));
    }
}

TEST_CASE("answers come best first; a narrow beam of one is greedy; stopping early stops earlier") {
    const std::vector<Beam> found = search({.width = 3, .max_tokens = 8, .ends = {end_token}});
    CHECK(found.size() == 3);
    for (size_t i = 1; i < found.size(); ++i) CHECK(found[i - 1].score >= found[i].score);

    std::vector<TokenId> greedy;
    while (greedy.size() < 6) {
        const std::vector<float> logits = logits_after(greedy);
        greedy.push_back(TokenId(std::ranges::max_element(logits) - logits.begin()));
    }
    CHECK(search({.width = 1, .max_tokens = 6, .ends = {}}).front().tokens == greedy);

    BeamOptions options{.width = 2, .length_penalty = 3, .max_tokens = 12, .ends = {end_token}};
    options.stop = BeamOptions::Stop::enough;
    const size_t early = search(options).front().tokens.size();
    options.stop = BeamOptions::Stop::never;
    CHECK(search(options).front().tokens.size() >= early);
    CHECK_THROWS_WITH(BeamSearch({.width = 0}), doctest::Contains("at least one beam"));
}

TEST_CASE("what is never sampled is in no beam, and where nothing else is there is none") {
    BeamOptions options{.width = 400, .length_penalty = 0, .max_tokens = 3, .ends = {}, .suppressed = {1, 3}};
    const std::vector<Beam> found = search(options);
    CHECK(found.size() == 27);
    BeamOptions all = options;
    all.suppressed = {};
    for (const Beam& beam : search(all)) {
        const bool has = std::ranges::any_of(beam.tokens, [](TokenId id) { return id == 1 || id == 3; });
        const auto same = std::ranges::find(found, beam.tokens, &Beam::tokens);
        CHECK((same == found.end()) == has);
        if (!has) CHECK(same->score == beam.score);
    }
    options.suppressed = {0, 1, 2, 3, 4};
    CHECK_THROWS_WITH_AS(search(options), doctest::Contains("may come next"), Error);
}

TEST_CASE("beams that live on do not count once enough answers have ended, even at the longest length") {
    BeamOptions options{.width = 2, .length_penalty = 3, .max_tokens = 2, .ends = {end_token}};
    options.stop = BeamOptions::Stop::enough;
    BeamSearch search(options);
    const std::vector<float> close{1.0f, 0.9f, -9, -9, 1.1f};  // the end is likeliest
    search.step(std::vector(1, close));
    search.step(std::vector(search.live().size(), close));
    CHECK(search.done());
    const std::vector<Beam> best = search.best();
    REQUIRE(best.size() == 2);
    CHECK(best[0].tokens == std::vector<TokenId>{0, end_token});
    CHECK(best[1].tokens == std::vector<TokenId>{end_token});
}
