// See rope.h.
#include "rope.h"

#include <cmath>

namespace scoria::reference {

void rope(std::span<double> x, uint32_t head_dim, const Rope& rope, uint64_t position) {
    for (size_t head = 0; head < x.size(); head += head_dim) {
        for (uint32_t i = 0; i < rope.width / 2; ++i) {
            const bool halves = rope.pairs == RopePairs::halves;
            double& a = x[head + (halves ? i : 2 * i)];
            double& b = x[head + (halves ? i + rope.width / 2 : 2 * i + 1)];
            const double angle = double(position) * rope.inverse_frequencies[i];
            const double c = rope.magnitude * std::cos(angle), s = rope.magnitude * std::sin(angle);
            const double first = a * c - b * s, second = a * s + b * c;
            a = first;
            b = second;
        }
    }
}

}  // namespace scoria::reference
