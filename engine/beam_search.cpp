// See beam_search.h.
#include "beam_search.h"

#include "fail.h"

#include <algorithm>
#include <cmath>

namespace scoria {
namespace {

/// Subtracts log(sum of e^x), summed in double.
std::vector<double> log_softmax(std::span<const float> logits) {
    const double most = double(*std::ranges::max_element(logits));
    double sum = 0;
    for (const float x : logits) sum += std::exp(double(x) - most);
    if (!std::isfinite(sum)) fail(Status::non_finite, "beam search", "expected finite logits, got others");
    std::vector<double> logs;
    for (const float x : logits) logs.push_back(double(x) - most - std::log(sum));
    return logs;
}

struct Candidate {
    double log_probability;
    uint32_t beam;
    TokenId token;
    bool operator<(const Candidate& other) const {  // the better one
        if (log_probability != other.log_probability) return log_probability > other.log_probability;
        return beam != other.beam ? beam < other.beam : token < other.token;
    }
};

size_t common_length(std::span<const TokenId> a, std::span<const TokenId> b) {
    const auto [end, other] = std::ranges::mismatch(a, b);
    return size_t(end - a.begin());
}

}  // namespace

BeamSearch::BeamSearch(BeamOptions options) : options_(std::move(options)) {
    if (options_.width == 0 || options_.max_tokens == 0)
        fail(Status::bad_argument, "beam search", "expected at least one beam and one token, got ",
             options_.width, " and ", options_.max_tokens);
}

void BeamSearch::add(std::vector<Beam>& to, Beam beam) const {
    beam.score = beam.log_probability / std::pow(double(beam.tokens.size()), double(options_.length_penalty));
    const auto place = std::ranges::upper_bound(to, beam.score, std::greater<>(), &Beam::score);
    to.insert(place, std::move(beam));
    if (to.size() > options_.width) to.pop_back();
}

double BeamSearch::attainable(double log_probability, size_t length) const {
    const bool longer = options_.stop == BeamOptions::Stop::never && options_.length_penalty > 0;
    return log_probability /
           std::pow(double(longer ? options_.max_tokens : length), double(options_.length_penalty));
}

void BeamSearch::step(std::span<const std::vector<float>> logits) {
    std::vector<Candidate> candidates;
    const size_t wanted = 2 * size_t(options_.width);
    for (uint32_t beam = 0; beam < live_.size(); ++beam) {
        std::vector<double> logs = log_softmax(logits[beam]);
        for (const TokenId id : options_.suppressed) logs[size_t(id)] = -INFINITY;
        for (size_t id = 0; id < logs.size(); ++id)
            candidates.push_back({live_[beam].log_probability + logs[id], beam, TokenId(id)});
    }
    const size_t count = std::min(wanted, candidates.size());
    std::ranges::partial_sort(candidates, candidates.begin() + std::ptrdiff_t(count), std::less<>());

    std::vector<Beam> next;
    for (size_t rank = 0; rank < count && next.size() < options_.width; ++rank) {
        const Candidate& c = candidates[rank];
        if (c.log_probability == -INFINITY) break;
        Beam beam{live_[c.beam].tokens, c.log_probability, 0};
        beam.tokens.push_back(c.token);
        if (std::ranges::find(options_.ends, c.token) != options_.ends.end()) {
            if (rank < options_.width) add(ended_, std::move(beam));
            continue;
        }
        next.push_back(std::move(beam));
    }
    if (next.empty() && ended_.empty())
        fail(Status::non_finite, "beam search", "expected a token that may come next, got none");
    const size_t length = live_.front().tokens.size() + 1;
    live_ = std::move(next);
    settled_ = ended_.size() >= options_.width &&
               (options_.stop == BeamOptions::Stop::enough ||
                ended_.back().score >= attainable(candidates.front().log_probability, length));
    done_ = settled_ || live_.empty() || length >= options_.max_tokens;
}

std::vector<Beam> BeamSearch::best() const {
    std::vector<Beam> all = ended_;
    if (settled_) return all;
    for (const Beam& beam : live_)
        if (!beam.tokens.empty()) add(all, beam);
    return all;
}

std::vector<Beam> beam_search(Engine& engine, std::span<const TokenId> source,
                              std::span<const TokenId> prompt, const BeamOptions& options,
                              const std::atomic<bool>* cancel) {
    BeamSearch search(options);
    std::vector<Session> sessions;  // of live beams
    for (uint32_t i = 0; i < options.width; ++i) {
        sessions.emplace_back(engine);
        if (!engine.model().architecture.encoder.empty()) sessions.back().encode(source);
    }
    const auto step = [&] {
        const std::vector<Beam>& live = search.live();
        std::vector<std::vector<float>> logits(live.size());
        std::vector<bool> taken(sessions.size());
        for (size_t i = 0; i < live.size(); ++i) {
            std::vector<TokenId> wanted(prompt.begin(), prompt.end());
            wanted.insert(wanted.end(), live[i].tokens.begin(), live[i].tokens.end());
            size_t nearest = 0, shared = 0;  // the free session that holds most of it
            for (size_t s = sessions.size(); s-- > 0;) {
                if (taken[s]) continue;
                const size_t length = common_length(sessions[s].tokens(), wanted);
                if (length >= shared) nearest = s, shared = length;
            }
            taken[nearest] = true;
            Session& session = sessions[nearest];
            session.truncate(uint32_t(shared));
            if (shared < wanted.size()) session.append(std::span(wanted).subspan(shared), cancel);
            logits[i] = session.logits();
        }
        search.step(logits);
    };
    try {
        while (!search.done()) step();
    } catch (const Error& error) {
        if (error.status() != Status::cancelled || search.best().empty()) throw;
    }
    return search.best();
}

}  // namespace scoria
