// See sample.h.
#include "sample.h"

#include "sampling.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace scoria::reference {
namespace {

std::vector<double> penalised(std::span<const double> logits, const SamplingOptions& options,
                              std::span<const uint32_t> recent) {
    std::vector<double> values(logits.begin(), logits.end());
    for (double& value : values)
        if (std::isnan(value)) value = -INFINITY;
    std::map<uint32_t, uint32_t> counts;
    for (const uint32_t token : recent.last(std::min<size_t>(options.repetition_window, recent.size())))
        if (token < values.size()) ++counts[token];
    for (const auto& [token, count] : counts) {
        double& value = values[token];
        value = value > 0 ? value / options.repetition_penalty : value * options.repetition_penalty;
        value -= double(options.frequency_penalty) * count + options.presence_penalty;
    }
    for (const LogitBias& each : options.logit_bias) values[size_t(each.token)] += each.bias;
    return values;
}

/// Softmax over the listed tokens; an infinite logit takes all.
std::vector<double> softmax(std::span<const double> values, std::span<const uint32_t> tokens,
                            double temperature) {
    std::vector<double> result;
    double sum = 0;
    for (const uint32_t token : tokens) {
        const double below = values[token] - values[tokens[0]];
        result.push_back(values[token] == values[tokens[0]] ? 1 : std::exp(below / temperature));
        sum += result.back();
    }
    for (double& each : result) each /= sum;
    return result;
}

/// The random numbers of a position, in [0, 1).
std::array<double, 2> chance(const SamplingOptions& options, uint32_t position) {
    const auto words = philox({position, 0, 0, 0}, {uint32_t(options.seed), uint32_t(options.seed >> 32)});
    return {std::ldexp(double(words[0]), -32), std::ldexp(double(words[1]), -32)};
}

using Order = std::vector<uint32_t>;  // tokens by falling probability
using Shares = std::vector<double>;   // their probabilities

/// Keeps the positions of `order` for which `kept` holds.
void keep(Order& order, const std::vector<bool>& kept) {
    Order left;
    for (size_t i = 0; i < order.size(); ++i)
        if (kept[i]) left.push_back(order[i]);
    order = std::move(left);
}

void keep_typical(Order& order, const Shares& shares, double part) {
    double entropy = 0;
    for (const double p : shares) entropy -= p > 0 ? p * std::log(p) : 0;
    std::vector<double> distances;
    for (const double p : shares) distances.push_back(std::abs(-std::log(p) - entropy));
    std::vector<size_t> nearest(order.size());
    std::iota(nearest.begin(), nearest.end(), size_t(0));
    std::ranges::sort(nearest, [&](size_t a, size_t b) {
        return std::pair(distances[a], order[a]) < std::pair(distances[b], order[b]);
    });
    std::vector<bool> kept(order.size());
    double sum = 0;
    for (size_t i = 0; i < nearest.size() && sum < part; ++i) {
        kept[nearest[i]] = true;
        sum += shares[nearest[i]];
    }
    keep(order, kept);
}

/// Top-p, then min-p.
void keep_likely(Order& order, const Shares& shares, const SamplingOptions& options) {
    size_t kept = order.size();
    if (options.top_p < 1) {
        double sum = 0;
        for (kept = 0; kept < order.size() && sum < options.top_p; ++kept) sum += shares[kept];
    }
    while (kept > 1 && shares[kept - 1] < options.min_p * shares[0]) --kept;
    order.resize(kept);
}

void drop_top(Order& order, const Shares& shares, double threshold) {
    size_t top = 0;
    while (top < order.size() && shares[top] >= threshold) ++top;
    if (top > 1) order.erase(order.begin(), order.begin() + std::ptrdiff_t(top - 1));
}

void keep_unsurprising(Order& order, const Shares& shares, double mu) {
    size_t kept = 1;
    while (kept < order.size() && -std::log2(shares[kept]) <= mu) ++kept;
    order.resize(kept);
}

}  // namespace

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> c, std::array<uint32_t, 2> key) {
    for (int round = 0; round < 10; ++round) {
        const uint64_t a = 0xD2511F53ull * c[0], b = 0xCD9E8D57ull * c[2];
        c = {uint32_t(b >> 32) ^ c[1] ^ key[0], uint32_t(b), uint32_t(a >> 32) ^ c[3] ^ key[1], uint32_t(a)};
        key = {key[0] + 0x9E3779B9u, key[1] + 0xBB67AE85u};
    }
    return c;
}

std::vector<double> token_probabilities(std::span<const double> logits, const SamplingOptions& options,
                                        std::span<const uint32_t> recent, uint32_t position, double mu) {
    const std::vector<double> values = penalised(logits, options, recent);
    std::vector<double> probabilities(values.size());
    std::vector<uint32_t> order(values.size());
    std::iota(order.begin(), order.end(), 0u);
    std::ranges::stable_sort(order, [&](uint32_t a, uint32_t b) { return values[a] > values[b]; });
    if (values[order[0]] == -INFINITY) return probabilities;
    if (options.temperature == 0) {
        probabilities[order[0]] = 1;
        return probabilities;
    }

    if (options.mirostat_tau > 0) {
        keep_unsurprising(order, softmax(values, order, options.temperature), mu);
    } else {
        if (options.top_k != 0 && options.top_k < order.size()) order.resize(options.top_k);
        if (options.typical_p < 1) keep_typical(order, softmax(values, order, 1), options.typical_p);
        keep_likely(order, softmax(values, order, 1), options);
        if (chance(options, position)[1] < options.xtc_probability)
            drop_top(order, softmax(values, order, 1), options.xtc_threshold);
    }
    const std::vector<double> final = softmax(values, order, options.temperature);
    for (size_t i = 0; i < order.size(); ++i) probabilities[order[i]] = final[i];
    return probabilities;
}

uint32_t sample(std::span<const double> logits, const SamplingOptions& options,
                std::span<const uint32_t> recent, uint32_t position, double& mu) {
    const std::vector<double> probabilities = token_probabilities(logits, options, recent, position, mu);
    double left = chance(options, position)[0];
    uint32_t last = 0;
    for (uint32_t token = 0; token < probabilities.size(); ++token) {
        if (probabilities[token] == 0) continue;
        last = token;
        if (left < probabilities[token]) break;
        left -= probabilities[token];
    }
    if (options.mirostat_tau > 0 && options.temperature > 0) {
        const std::vector<double> values = penalised(logits, options, recent);
        std::vector<uint32_t> all(values.size());
        std::iota(all.begin(), all.end(), 0u);
        std::swap(all[0], all[size_t(std::ranges::max_element(values) - values.begin())]);
        const std::vector<double> whole = softmax(values, all, options.temperature);
        const size_t at = size_t(std::ranges::find(all, last) - all.begin());
        mu -= options.mirostat_eta * (-std::log2(whole[at]) - options.mirostat_tau);
    }
    return last;
}

}  // namespace scoria::reference
