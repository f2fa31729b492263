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

/// Of a batch; in a row q, k and v of all groups or heads begin at a column each.
struct ScanInputs {
    std::span<const double> qk, v;  // [tokens, qk_cols], [tokens, v_cols]
    // [tokens, shape.steps()] before softplus, or by key behind it, and of delta [tokens, heads] before
    // sigmoid.
    std::span<const double> steps, betas;
    size_t qk_cols, v_cols, q_first, k_first, v_first;
    double q_scale, k_scale;
    std::span<const double> decay, step_bias, skip;  // [shape.decays()], [shape.steps()]; skip may be empty,
                                                     // as by key step_bias is
};
inline double decay_by_key(const Recurrence& shape, double exponent) {
    return std::exp(shape.bound < 0 ? double{shape.bound} * activate(-exponent, Activation::sigmoid)
                                    : exponent);
}
/// The states [heads, key_dim, value_dim] go on by the batch; out: [tokens, heads * value_dim].
inline void scan(const Recurrence& shape, const ScanInputs& in, std::span<double> states,
                 std::span<double> out) {
    const size_t keys = shape.key_dim, values = shape.value_dim, heads = shape.heads;
    const bool by_column = shape.by_column();
    for (size_t at = 0; at < out.size() / values; ++at) {
        const size_t t = at / heads, h = at % heads;
        const double* const q = &in.qk[t * in.qk_cols + in.q_first + shape.group_of(h) * keys];
        const double* const k = &in.qk[t * in.qk_cols + in.k_first + shape.group_of(h) * keys];
        const double* const v = &in.v[t * in.v_cols + in.v_first + h * values];
        const std::span<double> state = states.subspan(h * keys * values, keys * values);
        for (size_t j = 0; j < values; ++j) {
            const size_t of = by_column ? j : h;
            const double* const steps = &in.steps[t * shape.steps()];
            const double step =
                shape.by_key ? 0 : activate(steps[of] + in.step_bias[of], Activation::softplus);
            const double a = shape.by_key || by_column ? 0 : std::exp(in.decay[h] * step);
            const double skip = in.skip.empty() ? 0 : in.skip[of];
            double known = 0, said = 0;
            for (size_t i = 0; i < keys; ++i) {
                double& cell = state[i * values + j];
                cell *= shape.by_key ? decay_by_key(shape, in.decay[h] * steps[h * keys + i])
                        : by_column  ? std::exp(in.decay[j * keys + i] * step)
                                     : a;
                known += cell * k[i];
            }
            const double update =
                shape.kind == RecurrenceKind::delta
                    ? activate(in.betas[at], Activation::sigmoid) * (v[j] - known * in.k_scale)
                    : step * v[j];
            for (size_t i = 0; i < keys; ++i) {
                state[i * values + j] += k[i] * (in.k_scale * update);
                said += state[i * values + j] * q[i];
            }
            out[at * values + j] = said * in.q_scale + skip * v[j];
        }
    }
}

}  // namespace scoria::reference
