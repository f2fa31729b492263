// Recurrences (struct Recurrence), from the (normed) stream to what is added to it.
#include "parts.h"

#include <array>
#include <cmath>

namespace scoria {
namespace {

constexpr NormRoles mixer_norm{"mixed normed", Role::mixer_norm, Role::mixer_norm_bias},
    mixer_step_norm{"mixer step low normed", Role::mixer_step_norm};

TensorId convolve(GraphBuilder& graph, const Recurrence& shape, std::vector<TensorId> x,
                  Activation activation) {
    std::vector<WeightRef> taps{graph.weight(Role::mixer_taps)};
    if (shape.separate)
        taps = {graph.weight(Role::mixer_q_taps), graph.weight(Role::mixer_k_taps),
                graph.weight(Role::mixer_v_taps)};
    return graph.emit(op::Convolve{std::move(x), graph.tensor("convolved", shape.channels()), std::move(taps),
                                   graph.optional(shape.taps_bias, Role::mixer_taps_bias), activation,
                                   graph.slot(), shape});
}

TensorId gated_mix(GraphBuilder& graph, const Recurrence& shape, TensorId gate, TensorId y,
                   Activation activation) {
    return graph.emit(op::Glu{gate, y, graph.tensor("mixed", shape.width), activation});
}

/// RecurrenceKind::convolution
TensorId gated_convolution(GraphBuilder& graph, const Recurrence& shape, TensorId x) {
    const TensorId in_gate = graph.linear("mixer input gate", x, shape.channels(), Role::mixer_in_gate);
    const TensorId in = graph.linear("mixer in", x, shape.channels(), Role::mixer_in);
    const TensorId gated = graph.emit(
        op::Glu{in_gate, in, graph.tensor("mixer in gated", shape.channels()), Activation::identity});
    const TensorId gate = graph.linear("mixer gate", x, shape.width, Role::mixer_gate);
    return gated_mix(graph, shape, gate, convolve(graph, shape, {gated}, Activation::identity),
                     Activation::identity);
}

/// RecurrenceKind::selective, and a projected state space.
TensorId projected(GraphBuilder& graph, const Recurrence& shape, TensorId x) {
    const TensorId in = graph.linear("mixer in", x, shape.width, Role::mixer_in);
    const TensorId gate = graph.linear("mixer gate", x, shape.width, Role::mixer_gate);
    const TensorId v = convolve(graph, shape, {in}, Activation::silu);
    TensorId low = graph.linear("mixer step low", v, shape.step_rank, Role::mixer_step_low);
    TensorId kq = graph.linear("mixer k and q", v, 2 * shape.key_dim, Role::mixer_kq);
    if (shape.part_norms != Recurrence::PartNorms::none) {
        const bool weights = shape.part_norms == Recurrence::PartNorms::weighted;
        const Norm rms{NormKind::rms, shape.epsilon, weights};
        low = graph.norm(rms, mixer_step_norm, low, shape.step_rank, shape.step_rank);
        op::Norm both{kq,
                      graph.tensor_like("mixer k and q normed", kq),
                      graph.optional(weights, Role::mixer_k_norm),
                      std::nullopt,
                      rms.kind,
                      rms.epsilon,
                      shape.key_dim,
                      weights ? 2 * shape.key_dim : shape.key_dim};
        both.second = graph.optional(weights, Role::mixer_q_norm);
        kq = graph.emit(both);
    }
    const TensorId step = graph.linear("mixer step", low, shape.steps(), Role::mixer_step);
    const TensorId scanned =
        graph.emit(op::Scan{kq, v, step, std::nullopt, graph.tensor("scanned", shape.width),
                            graph.weight(Role::mixer_decay), graph.weight(Role::mixer_step_bias),
                            graph.weight(Role::mixer_skip), shape.key_dim, 0, 0, 1, 1, graph.slot(), shape});
    return gated_mix(graph, shape, gate, scanned, Activation::silu);
}

/// Of a delta rule q and k become of length 1, q then divided by sqrt(key_dim).
void norm_keys(GraphBuilder& graph, const Recurrence& shape, op::Scan& scan) {
    // x / sqrt(sum of x^2 + e) is an RMS norm by e / key_dim, over sqrt(key_dim).
    constexpr float length_epsilon = 1e-6f;  // of the published code
    const float dim = float(shape.key_dim);
    // With b = beta_scale, S / sqrt(b) is what k sqrt(b) and v make by sigmoid(beta) alone.
    const float scale = std::sqrt(shape.beta_scale / dim);
    scan.qk =
        graph.emit(op::Norm{scan.v, graph.tensor("q and k normed", 2 * shape.keys()), std::nullopt,
                            std::nullopt, NormKind::rms, length_epsilon / dim, shape.key_dim, shape.key_dim});
    scan.k_scale = scale;
    scan.q_scale = scale / std::sqrt(dim);
}

/// RecurrenceKind::lightning
TensorId lightning_attention(GraphBuilder& graph, const Recurrence& shape, TensorId x) {
    const TensorId in =
        graph.map("mixer in activated", graph.linear("mixer in", x, shape.channels(), Role::mixer_in),
                  MapKind::activate, 0, Activation::silu);
    const TensorId gate = graph.linear("mixer gate", x, shape.width, Role::mixer_gate);
    const TensorId scanned =
        graph.emit(op::Scan{in, in, std::nullopt, std::nullopt, graph.tensor("scanned", shape.width),
                            graph.weight(Role::mixer_decay), std::nullopt, std::nullopt, shape.q_channel(),
                            shape.k_channel(), shape.v_channel(), 1, 1, graph.slot(), shape});
    const TensorId normed =
        graph.norm({NormKind::rms, shape.epsilon}, mixer_norm, scanned, shape.width, shape.width);
    return gated_mix(graph, shape, gate, normed, shape.gate_activation);
}

/// RecurrenceKind::wkv
TensorId wkv(GraphBuilder& graph, const Recurrence& shape, TensorId x) {
    const TensorId shifted =
        graph.emit(op::Shift{x, graph.tensor("shifted", shape.shifts() * shape.width),
                             graph.weight(Role::mixer_shift), false, graph.slot(), shape});
    std::array<TensorId, 6> mixes{};
    constexpr const char* names[] = {"r shifted", "w shifted",    "k shifted",
                                     "v shifted", "rate shifted", "gate shifted"};
    for (uint32_t i = 0; i < shape.shifts(); ++i)
        mixes[i] = graph.columns(names[i], shifted, i * shape.width, shape.width);
    const auto& [of_r, of_w, of_k, of_v, of_rate, of_gate] = mixes;
    const auto activated = [&](const char* name, TensorId y, Activation activation) {
        return graph.map(name, y, MapKind::activate, 0, activation);
    };
    const TensorId r = graph.linear("mixer r", of_r, shape.keys(), Role::mixer_q);
    const TensorId k = graph.linear("mixer k", of_k, shape.keys(), Role::mixer_k);
    TensorId v = graph.linear("mixer v", of_v, shape.width, Role::mixer_v);
    TensorId w =
        activated("mixer w low activated",
                  graph.linear("mixer w low", of_w, shape.step_rank, Role::mixer_step_low), Activation::tanh);
    TensorId rate = graph.linear("mixer rate low", of_rate, shape.rate_rank, Role::mixer_rate_low);
    std::optional<TensorId> gate, of_first;
    if (shape.gate_rank)
        gate = activated("mixer gate low activated",
                         graph.linear("mixer gate low", of_gate, shape.gate_rank, Role::mixer_gate_low),
                         Activation::sigmoid);
    if (shape.value_rank)
        of_first = graph.linear("mixer value low", of_v, shape.value_rank, Role::mixer_value_low);
    const TensorId rk = graph.side_by_side("r and k", r, k);
    w = graph.linear("mixer w", w, shape.steps(), Role::mixer_step, graph.weight(Role::mixer_step_bias));
    rate =
        graph.linear("mixer rate", rate, shape.keys(), Role::mixer_rate, graph.weight(Role::mixer_rate_bias));
    if (gate) gate = graph.linear("mixer gate", *gate, shape.width, Role::mixer_gate);
    if (of_first) {
        of_first = graph.linear("mixer value", *of_first, shape.width, Role::mixer_value,
                                graph.weight(Role::mixer_value_bias));
        const TensorId apart = graph.add("values apart", *graph.first_values, v, -1);
        v = graph.add("values mixed", v,
                      graph.emit(op::Glu{*of_first, apart, graph.tensor_like("values gated", apart),
                                         Activation::sigmoid}));
    } else {
        graph.first_values = v;
    }
    const TensorId both = graph.emit(op::Wkv{
        rk, v, w, rate, graph.tensor("scanned and bonus", 2 * shape.width), graph.weight(Role::mixer_erase),
        graph.weight(Role::mixer_rate_scale), graph.weight(Role::mixer_bonus), graph.slot(), shape});
    TensorId y = graph.columns("scanned", both, 0, shape.width);
    const TensorId bonus = graph.columns("bonus", both, shape.width, shape.width);
    if (shape.normed)
        y = graph.norm({NormKind::layer, shape.epsilon, true, true}, mixer_norm, y, shape.value_dim,
                       shape.width);
    y = graph.add("with bonus", y, bonus);
    return gate ? gated_mix(graph, shape, *gate, y, Activation::identity) : y;
}

/// The channels, or q, k and v of them.
std::vector<TensorId> channels(GraphBuilder& graph, const Recurrence& shape, TensorId x) {
    if (!shape.separate) return {graph.linear("mixer in", x, shape.channels(), Role::mixer_in)};
    const Projection all[] = {{"mixer q", shape.keys(), Role::mixer_q},
                              {"mixer k", shape.keys(), Role::mixer_k},
                              {"mixer v", shape.width, Role::mixer_v}};
    return graph.projected(x, all);
}

/// RecurrenceKind::delta and state_space.
TensorId scanned_heads(GraphBuilder& graph, const Recurrence& shape, TensorId x) {
    const bool delta = shape.kind == RecurrenceKind::delta;
    const std::vector<TensorId> in = channels(graph, shape, x);
    const auto make_gate = [&](TensorId of) {
        const TensorId gate = graph.linear("mixer gate", of, shape.width, Role::mixer_gate);
        return graph.scaled("mixer gate scaled", gate, shape.gate_scale);
    };
    const auto make_step = [&](TensorId of) {
        const TensorId step = graph.linear("mixer step", of, shape.steps(), Role::mixer_step,
                                           graph.optional(shape.by_key, Role::mixer_step_bias));
        if (shape.by_key && shape.bound == 0)
            return graph.map("mixer step activated", step, MapKind::activate, 0, Activation::softplus);
        return graph.scaled("mixer step scaled", step, shape.step_scale);
    };
    // What reads x comes first, so that it can be one kernel.
    TensorId gate = shape.gate_rank ? graph.linear("mixer gate low", x, shape.gate_rank, Role::mixer_gate_low)
                                    : make_gate(x);
    TensorId step = shape.step_rank ? graph.linear("mixer step low", x, shape.step_rank, Role::mixer_step_low)
                                    : make_step(x);
    std::optional<TensorId> beta;
    if (delta) beta = graph.linear("mixer beta", x, shape.heads, Role::mixer_beta);
    if (shape.gate_rank) gate = make_gate(gate);
    if (shape.step_rank) step = make_step(step);
    const TensorId convolved = convolve(graph, shape, in, Activation::silu);
    op::Scan scan{convolved,
                  convolved,
                  step,
                  beta,
                  {},
                  graph.weight(Role::mixer_decay),
                  graph.optional(!shape.by_key, Role::mixer_step_bias),
                  graph.optional(!delta, Role::mixer_skip),
                  shape.q_channel(),
                  shape.k_channel(),
                  shape.v_channel(),
                  1,
                  1,
                  graph.slot(),
                  shape};
    if (delta) norm_keys(graph, shape, scan);
    scan.out = graph.tensor("scanned", shape.width);
    const TensorId scanned = graph.emit(scan);
    const auto gated = [&](TensorId y) { return gated_mix(graph, shape, gate, y, shape.gate_activation); };
    const auto normed = [&](TensorId y, uint32_t group, uint32_t weights) {
        return graph.norm({NormKind::rms, shape.epsilon}, mixer_norm, y, group, weights);
    };
    if (delta) return gated(normed(scanned, shape.value_dim, shape.value_dim));
    const auto of_groups = [&](TensorId y) {
        return shape.normed ? normed(y, shape.width / shape.groups, shape.width) : y;
    };
    return shape.norm_first ? gated(of_groups(scanned)) : of_groups(gated(scanned));
}

}  // namespace

TensorId build_recurrence(GraphBuilder& graph, const Recurrence& shape, TensorId x) {
    const TensorId mixed = shape.kind == RecurrenceKind::convolution ? gated_convolution(graph, shape, x)
                           : shape.kind == RecurrenceKind::lightning ? lightning_attention(graph, shape, x)
                           : shape.kind == RecurrenceKind::wkv       ? wkv(graph, shape, x)
                           : shape.convolves_v_alone()               ? projected(graph, shape, x)
                                                                     : scanned_heads(graph, shape, x);
    return graph.linear("mixer out", mixed, graph.stack->hidden, Role::mixer_out);
}

}  // namespace scoria
