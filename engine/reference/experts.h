// Mixture of experts (Shazeer et al. 2017): which experts a token goes to, their linears, their sum.
#pragma once

#include "architecture.h"
#include "linear.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace scoria::reference {

/// The `count` largest of `keys` among `of`, larger first, lower index first among equals.
inline std::vector<uint32_t> largest(std::span<const double> keys, std::vector<uint32_t> of, uint32_t count) {
    std::ranges::stable_sort(of, [&](uint32_t a, uint32_t b) { return keys[a] > keys[b]; });
    of.resize(count);
    return of;
}

/// scores: [experts] of one token; out: ids, then weights, [2 * used]. choice_bias, scale: [experts] or
/// empty. Groups as in DeepSeek-AI 2024 (V2, section 2.1.2; V3, section 2.1.2).
inline void route(std::span<const double> scores, const Routing& routing, std::span<const double> choice_bias,
                  std::span<const double> scale, std::span<double> out) {
    std::vector<double> weight(scores.begin(), scores.end());
    const auto softmax = [](std::vector<double>& values) {
        const double most = *std::max_element(values.begin(), values.end());
        double sum = 0;
        for (double& value : values) sum += value = std::exp(value - most);
        for (double& value : values) value /= sum;
    };
    if (routing.score == Routing::Score::softmax) softmax(weight);
    if (routing.score == Routing::Score::sigmoid)
        for (double& value : weight) value = 1 / (1 + std::exp(-value));

    std::vector<double> key = weight;
    for (size_t e = 0; e < choice_bias.size(); ++e) key[e] += choice_bias[e];
    const uint32_t in_group = routing.experts / routing.groups;
    std::vector<double> group_key;
    for (uint32_t g = 0; g < routing.groups; ++g) {
        std::vector<double> members(key.begin() + g * in_group, key.begin() + (g + 1) * in_group);
        std::ranges::sort(members, std::greater<>());
        group_key.push_back(members[0] + (routing.group_by_top2 ? members[1] : 0));
    }
    std::vector<uint32_t> groups(routing.groups), experts;
    std::iota(groups.begin(), groups.end(), 0u);
    for (const uint32_t g : largest(group_key, groups, routing.groups_used))
        for (uint32_t e = g * in_group; e < (g + 1) * in_group; ++e) experts.push_back(e);
    std::ranges::sort(experts);
    experts = largest(key, experts, routing.used);

    std::vector<double> chosen;
    for (const uint32_t e : experts) chosen.push_back(weight[e]);
    if (routing.score == Routing::Score::softmax_chosen) softmax(chosen);
    if (routing.score == Routing::Score::softmax_near)
        for (size_t s = 0; s < experts.size(); ++s) {
            const double best = scores[experts[s]];
            double sum = 0;
            for (uint32_t e = 0; e < routing.experts; ++e) {
                const bool before =
                    std::find(experts.begin(), experts.begin() + long(s), e) != experts.begin() + long(s);
                const double margin = double{routing.margin} * std::max(std::abs(scores[e]), best);
                if (e == experts[s] || (!before && best - scores[e] <= margin))
                    sum += std::exp(scores[e] - best);
            }
            chosen[s] = 1 / sum;
        }
    const double sum = routing.renormalise ? std::accumulate(chosen.begin(), chosen.end(), 0.0) : 1;
    for (size_t s = 0; s < experts.size(); ++s) {
        out[s] = experts[s];
        out[experts.size() + s] = chosen[s] / sum * static_cast<double>(routing.scale);
        if (!scale.empty()) out[experts.size() + s] *= scale[experts[s]];
    }
}

/// The rows of one expert of a matrix that holds `experts` one after the other.
inline Rows expert_rows(const Rows& all, uint32_t experts, uint32_t expert) {
    const uint32_t rows = all.rows / experts;
    return {rows, all.cols, [&all, first = expert * rows](uint32_t row, std::span<double> out) {
                all.row(first + row, out);
            }};
}

/// x: [tokens, cols] or [tokens, used * cols]; routes: [tokens, 2 * used]; out: [tokens, used * rows].
inline void expert_linear(std::span<const double> x, std::span<const double> routes, const Rows& weight,
                          std::span<const double> bias, uint32_t experts, uint32_t used,
                          std::span<double> out) {
    const size_t tokens = routes.size() / (2 * used), cols = weight.cols, rows = weight.rows / experts;
    const bool per_slot = x.size() == tokens * used * cols;
    std::vector<std::vector<size_t>> asked(experts);  // [t][s] of each
    for (size_t i = 0; i < tokens * used; ++i)
        asked[static_cast<uint32_t>(routes[i / used * 2 * used + i % used])].push_back(i);
    for (uint32_t expert = 0; expert < experts; ++expert) {  // whose rows are made once
        const std::vector<size_t>& items = asked[expert];
        if (items.empty()) continue;
        std::vector<double> in, results(items.size() * rows);
        for (const size_t i : items) {
            const auto row = x.subspan((per_slot ? i : i / used) * cols, cols);
            in.insert(in.end(), row.begin(), row.end());
        }
        linear(in, expert_rows(weight, experts, expert),
               bias.empty() ? bias : bias.subspan(expert * rows, rows), results);
        for (size_t n = 0; n < items.size(); ++n)
            std::ranges::copy(std::span(results).subspan(n * rows, rows),
                              out.subspan(items[n] * rows, rows).begin());
    }
}

/// x: [tokens, heads * any], of whose heads columns from `first` on are read; out: [tokens, heads * rows].
inline void head_linear(std::span<const double> x, size_t tokens, const Rows& weight, uint32_t heads,
                        size_t first, std::span<double> out) {
    const size_t stride = x.size() / tokens / heads, rows = weight.rows / heads;
    for (size_t t = 0; t < tokens; ++t)
        for (uint32_t h = 0; h < heads; ++h)
            linear(x.subspan((t * heads + h) * stride + first, weight.cols), expert_rows(weight, heads, h),
                   {}, out.subspan((t * heads + h) * rows, rows));
}

/// x: [tokens, used * cols]; out: [tokens, cols].
inline void expert_sum(std::span<const double> x, std::span<const double> routes, uint32_t used,
                       std::span<double> out) {
    const size_t tokens = routes.size() / (2 * used), cols = out.size() / tokens;
    std::fill(out.begin(), out.end(), 0.0);
    for (size_t t = 0; t < tokens; ++t)
        for (size_t s = 0; s < used; ++s)
            for (size_t c = 0; c < cols; ++c)
                out[t * cols + c] += routes[t * 2 * used + used + s] * x[(t * used + s) * cols + c];
}

}  // namespace scoria::reference
