// Rotary positions (Su et al. 2021, eq. 34): pair i of a head turns by position * inverse_frequencies[i].
#pragma once

#include "architecture.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

namespace scoria::reference {

/// The two elements of `head` that are pair `i` of `count` turn by the angle of that cosine and sine.
inline void turn_pair(std::span<double> head, RopePairs pairs, size_t count, size_t i, double cosine,
                      double sine) {
    const bool halves = pairs == RopePairs::halves;
    double& a = head[halves ? i : 2 * i];
    double& b = head[halves ? i + count : 2 * i + 1];
    const double turned = a * cosine - b * sine;
    b = b * cosine + a * sine;
    a = turned;
}

/// x, out: [tokens, heads * head_dim]; row t stands at position first + t of a sequence that ends there.
/// Elements of a head past rope.width do not rotate; all of those of queries grow. x and out may be the same
/// memory.
inline void rope(std::span<const double> x, size_t heads, size_t head_dim, const Rope& rope, size_t first,
                 std::span<double> out, bool queries = false) {
    std::copy(x.begin(), x.end(), out.begin());
    const size_t pairs = rope.width / 2, tokens = x.size() / (heads * head_dim);
    const std::vector<double> frequencies = rope_frequencies(rope, first + tokens);
    for (size_t t = 0; t < tokens; ++t)
        for (size_t i = 0; i < pairs; ++i) {
            const double angle = static_cast<double>(first + t) * frequencies[i];
            const double cosine = std::cos(angle) * rope.magnitude, sine = std::sin(angle) * rope.magnitude;
            for (size_t head = 0; head < heads; ++head)
                turn_pair(out.subspan((t * heads + head) * head_dim, head_dim), rope.pairs, pairs, i, cosine,
                          sine);
        }
    if (!queries || rope.query_growth == 0) return;
    for (size_t t = 0; t < tokens; ++t)
        for (double& value : out.subspan(t * heads * head_dim, heads * head_dim))
            value *= query_length(rope, first + t);
}

}  // namespace scoria::reference
