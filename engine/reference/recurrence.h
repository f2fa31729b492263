// Layers with a recurrence (struct Recurrence), as their definitions say, one token after the other.
#pragma once

#include "elementwise.h"

#include <algorithm>
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
                                                     // and step_bias is but of activated steps
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
            const double* const steps = in.steps.data() + t * shape.steps();
            const double step =
                shape.activates_steps() ? activate(steps[of] + in.step_bias[of], Activation::softplus) : 1;
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

/// x: [tokens, cols], out: [tokens, mixes, cols], shift: [mixes, cols]; `remembered`: [cols], the row before
/// x, and then the last of x.
inline void shift(std::span<const double> x, std::span<const double> shift, std::span<double> remembered,
                  std::span<double> out) {
    const size_t cols = remembered.size(), mixed = shift.size();
    for (size_t i = 0; i < out.size(); ++i) {
        const size_t t = i / mixed, c = i % cols;
        const double here = x[t * cols + c], before = t == 0 ? remembered[c] : x[(t - 1) * cols + c];
        out[i] = here + shift[i % mixed] * (before - here);
    }
    std::copy(x.end() - std::ptrdiff_t(cols), x.end(), remembered.begin());
}

/// Of a batch: r and k [tokens, 2, heads * key_dim], v [tokens, heads * value_dim], w and rate [tokens, heads
/// * key_dim]; of a model [heads * key_dim].
struct WkvInputs {
    std::span<const double> rk, v, w, rate;
    std::span<const double> erase, rate_scale, bonus;
};
/// The states go on as those of scan; out: [tokens, 2, heads * value_dim].
inline void wkv(const Recurrence& shape, const WkvInputs& in, std::span<double> states,
                std::span<double> out) {
    const size_t keys = shape.key_dim, values = shape.value_dim, heads = shape.heads;
    const auto sigmoid = [](double x) { return activate(x, Activation::sigmoid); };
    for (size_t at = 0; at < out.size() / (2 * values); ++at) {
        const size_t t = at / heads, h = at % heads;
        const std::span<double> state = states.subspan(h * keys * values, keys * values);
        std::vector<double> erase(keys), write(keys), rate(keys), decay(keys);
        double length = 0, bonus = 0;
        const double* const r = &in.rk[(2 * t * heads + h) * keys];
        const double* const k = r + heads * keys;
        for (size_t i = 0; i < keys; ++i) {
            const size_t of_token = at * keys + i, of_head = h * keys + i;
            rate[i] = sigmoid(in.rate[of_token]);
            decay[i] = std::exp(double{shape.bound} * sigmoid(in.w[of_token]));
            erase[i] = k[i] * in.erase[of_head];
            write[i] = k[i] * (1 + (rate[i] - 1) * in.rate_scale[of_head]);
            length += erase[i] * erase[i];
            bonus += in.bonus[of_head] * r[i] * write[i];
        }
        for (double& e : erase) e /= std::max(std::sqrt(length), 1e-12);
        for (size_t j = 0; j < values; ++j) {
            const double v = in.v[at * values + j];
            double known = 0, said = 0;
            for (size_t i = 0; i < keys; ++i) known += state[i * values + j] * erase[i];
            for (size_t i = 0; i < keys; ++i) {
                double& cell = state[i * values + j];
                cell = decay[i] * cell - rate[i] * erase[i] * known + write[i] * v;
                said += cell * r[i];
            }
            double* const row = &out[2 * t * heads * values + h * values + j];
            row[0] = said;
            row[heads * values] = bonus * v;
        }
    }
}

}  // namespace scoria::reference
