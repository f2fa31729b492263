// See rms_norm.h.
#include "rms_norm.h"

#include <cmath>

namespace scoria::reference {

void rms_norm(std::span<const double> x, std::span<const double> weight, double epsilon, std::span<double> out) {
    const size_t group = weight.size();
    for (size_t first = 0; first < x.size(); first += group) {
        double sum = 0;
        for (size_t i = 0; i < group; ++i) sum += x[first + i] * x[first + i];
        const double scale = 1 / std::sqrt(sum / double(group) + epsilon);
        for (size_t i = 0; i < group; ++i) out[first + i] = x[first + i] * scale * weight[i];
    }
}

}  // namespace scoria::reference
