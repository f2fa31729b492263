// Layers with a recurrence (struct Recurrence), as their definitions say, one token after the other.
#pragma once

#include "elementwise.h"

#include <cstddef>
#include <span>
#include <vector>

namespace scoria::reference {

/// x, out: [tokens, channels]; taps: [channels, shape.taps]; bias: [channels] or empty. `remembered`:
/// [shape.taps - 1, channels], the last rows before x, and then of x.
inline void convolve(const Recurrence& shape, std::span<const double> x, std::span<const double> taps,
                     std::span<const double> bias, Activation activation, std::vector<double>& remembered,
                     std::span<double> out) {
    const size_t channels = shape.channels();
    std::vector<double> all = remembered;
    all.insert(all.end(), x.begin(), x.end());
    for (size_t i = 0; i < out.size(); ++i) {
        const size_t c = i % channels;
        double sum = bias.empty() ? 0 : bias[c];
        for (size_t tap = 0; tap < shape.taps; ++tap)
            sum += taps[c * shape.taps + tap] * all[i + tap * channels];
        out[i] = activate(sum, activation);
    }
    remembered.assign(all.end() - std::ptrdiff_t(remembered.size()), all.end());
}

/// One token's inputs of a head.
struct ScanInputs {
    std::span<const double> q, k, v;  // already scaled
    double step, beta;                // before softplus and sigmoid; step with its bias
    double decay, skip;
};
/// S [key_dim, value_dim] goes on by one token; out: [value_dim].
inline void scan(RecurrenceKind kind, const ScanInputs& in, std::span<double> S, std::span<double> out) {
    const size_t keys = in.k.size(), values = in.v.size();
    const double step = activate(in.step, Activation::softplus), a = std::exp(in.decay * step);
    for (double& each : S) each *= a;
    for (size_t j = 0; j < values; ++j) {
        double known = 0, said = 0;
        for (size_t i = 0; i < keys; ++i) known += S[i * values + j] * in.k[i];
        const double update = kind == RecurrenceKind::delta
                                  ? activate(in.beta, Activation::sigmoid) * (in.v[j] - known)
                                  : step * in.v[j];
        for (size_t i = 0; i < keys; ++i) S[i * values + j] += in.k[i] * update;
        for (size_t i = 0; i < keys; ++i) said += S[i * values + j] * in.q[i];
        out[j] = said + in.skip * in.v[j];
    }
}

}  // namespace scoria::reference
