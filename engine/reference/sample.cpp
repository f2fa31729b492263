// See sample.h.
#include "sample.h"

#include "session.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace scoria::reference {
namespace {

std::vector<double> penalised(std::span<const double> logits, const SamplingOptions& options,
                              std::span<const uint32_t> recent) {
    std::vector<double> values(logits.begin(), logits.end());
    for (double& value : values)
        if (std::isnan(value)) value = -INFINITY;
    const size_t window = std::min<size_t>(options.repetition_window, recent.size());
    std::vector<bool> seen(values.size());
    for (const uint32_t token : recent.last(window)) {
        if (token >= values.size() || seen[token]) continue;
        seen[token] = true;
        double& value = values[token];
        value = value > 0 ? value / options.repetition_penalty : value * options.repetition_penalty;
    }
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
                                        std::span<const uint32_t> recent) {
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

    if (options.top_k != 0 && options.top_k < order.size()) order.resize(options.top_k);
    const std::vector<double> plain = softmax(values, order, 1);
    size_t kept = order.size();
    if (options.top_p < 1) {
        double sum = 0;
        for (kept = 0; kept < order.size() && sum < options.top_p; ++kept) sum += plain[kept];
    }
    while (kept > 1 && plain[kept - 1] < options.min_p * plain[0]) --kept;
    order.resize(kept);
    const std::vector<double> final = softmax(values, order, options.temperature);
    for (size_t i = 0; i < order.size(); ++i) probabilities[order[i]] = final[i];
    return probabilities;
}

uint32_t sample(std::span<const double> logits, const SamplingOptions& options,
                std::span<const uint32_t> recent, uint32_t position) {
    const std::vector<double> probabilities = token_probabilities(logits, options, recent);
    const auto words = philox({position, 0, 0, 0}, {uint32_t(options.seed), uint32_t(options.seed >> 32)});
    double left = std::ldexp(double(words[0]), -32);
    uint32_t last = 0;
    for (uint32_t token = 0; token < probabilities.size(); ++token) {
        if (probabilities[token] == 0) continue;
        last = token;
        if (left < probabilities[token]) break;
        left -= probabilities[token];
    }
    return last;
}

}  // namespace scoria::reference
